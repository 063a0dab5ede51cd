"""The size of all text: from the desktop's font, and larger or smaller on request."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QListWidget

from gui.base import text_size
from gui.base.settings_file import SettingsFile
from gui.base.theme import DARK, stylesheet
from gui.window.main_window import WindowState
from tests.window.clipping import clipped

pytestmark = pytest.mark.styled


@pytest.fixture
def text(qapp):
    """The module; the desktop's font and the zoom are restored after the test."""
    font = QFont(qapp.font())
    yield text_size
    text_size.set_zoom(1.0)
    qapp.setFont(font)
    qapp.setStyleSheet("")


@pytest.mark.slow
def test_keys_change_size_next_window_keeps_it_and_font_of_desktop_enlarges_all_text(drive, text, qapp, qtbot) -> None:
    panel = drive()
    with qtbot.waitActive(panel.window):
        panel.window.activateWindow()
    runs = panel.window.findChild(QListWidget, "runList")
    height = runs.fontMetrics().height()
    for _ in range(3):
        qtbot.keyClick(panel.window, Qt.Key.Key_Plus, Qt.KeyboardModifier.ControlModifier)
    assert text.zoom() == 1.5
    assert runs.fontMetrics().height() == pytest.approx(1.5 * height, abs=2)
    panel.window.resize(1480, 1000)
    panel.until(lambda: not clipped(panel.window), "all text to be whole")
    qtbot.keyClick(panel.window, Qt.Key.Key_Minus, Qt.KeyboardModifier.ControlModifier)
    assert text.zoom() == 1.25
    panel.window.close()
    text.set_zoom(1.0)
    again = drive()
    assert text.zoom() == 1.25
    with qtbot.waitActive(again.window):
        again.window.activateWindow()
    qtbot.keyClick(again.window, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    assert text.zoom() == 1.0
    assert again.window.findChild(QListWidget, "runList").fontMetrics().height() == height
    names = ("stateLabel", "startButton", "frameworkBox", "runList")
    heights = lambda: [again.window.findChild(object, name).fontMetrics().height() for name in names]  # noqa: E731
    before, larger = heights(), QFont(qapp.font())
    larger.setPointSizeF(16)
    qapp.setFont(larger)
    qtbot.waitUntil(lambda: all(now > 1.4 * first for now, first in zip(heights(), before, strict=True)))
    assert text.scale() == pytest.approx(21 / 13, abs=0.05)


def test_unusable_size_in_settings_is_ignored_or_limited(parts, text) -> None:
    panels, services = parts
    for kept in ("", "large", "nan", "1e99", "-3"):
        SettingsFile().save({"window/text_zoom": kept})
        WindowState(services.window, panels, None, services.machine.root).restore_text_size()
        assert text.ZOOMS[0] <= text.zoom() <= text.ZOOMS[-1], kept


def test_style_sheet_enlarges_lengths_but_not_thin_borders(text) -> None:
    normal = stylesheet(DARK)
    text.set_zoom(2.0)
    double = stylesheet(DARK)
    assert "font-size: 13px" in normal
    assert "font-size: 26px" in double
    assert normal.count("border: 1px") == double.count("border: 1px")


@pytest.mark.slow
def test_plots_grow_with_the_text_and_hold_the_guidance(assemble, text) -> None:
    panel = assemble("run", "start", "preferences")
    panel.window.resize(1280, 800)
    least = {name: plot.minimumHeight() for name, plot in panel.window.panels.plots.plots.items()}
    panel.window.controllers.preferences.set_text_zoom(2.0)
    plots = panel.window.panels.plots.plots
    assert {name: plot.minimumHeight() for name, plot in plots.items()} == {n: 2 * least[n] for n in least}
    steps, loss = panel.window.panels.first_steps, plots["lossPlot"]
    panel.until(lambda: steps.isVisible() and steps.height() < loss.height(), "the guidance inside the first plot")
