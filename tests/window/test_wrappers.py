"""What Python keeps of the objects that Qt deletes."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidgetItem
from shiboken6.Shiboken import getAllValidWrappers

from gui.widgets.dialogs import InfoDialog
from tests.support.recorded import recorded
from tests.support.running import LONG, write_recipe


def items() -> set[QWidgetItem]:
    """Return the items of layouts that Python has objects for."""
    return {each for each in getAllValidWrappers() if isinstance(each, QWidgetItem)}


@pytest.mark.slow
def test_no_items_of_layouts_are_kept(drive, qtbot, runs_root, tmp_path) -> None:
    """PySide takes such an item, when Qt has deleted it, for whatever is created at the same address later.

    It makes one for whoever asks a layout for its items, and for what is in a layout when that is added to another.
    """
    recorded(runs_root)
    before = items()
    panel = drive()
    panel.open_run()
    panel.open_recipe(write_recipe(tmp_path, LONG.replace("items=64", "items=64, noise=0.5, shuffled=True")))
    panel.until(lambda: panel.window.findChild(QLineEdit, "setting-noise") is not None)
    qtbot.keyClick(panel.window, Qt.Key.Key_F6)  # puts all widgets in order
    panel.choose(panel.recipe, "digits_cnn")
    panel.open_tab("Settings")
    panel.window.findChild(QPushButton, "allSettingsButton").click()
    for name in ("about", "preferences", "documents", "keys"):
        panel.window.panels.menu.action(name).trigger()
        assert panel.window.findChild(InfoDialog) is not None
    assert items() <= before  # those of earlier windows may be gone by now
