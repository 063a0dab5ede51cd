"""The button with the saved presets: load one, save the current settings, remove one."""

from __future__ import annotations

from PySide6.QtCore import Signal, SignalInstance
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QToolButton

from core.config import presets
from core.config.presets import Preset
from core.language import tr, tr_noop, tr_plural
from core.runs.foreign import owner_of_file
from gui.widgets.plain_text import menu_text, verbatim

NO_PRESETS = tr_noop("No presets yet")


class PresetsButton(QToolButton):
    """Reads the list each time it opens: presets are files that other programs may add or remove."""

    fill_asked = Signal(str)
    """The file of the preset to load."""
    remove_asked = Signal(str)
    keep_asked = Signal()
    """The current settings shall be saved as a preset."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("setupsButton")
        self.setText(f"{tr('Presets')} ")
        self.setAccessibleName(tr("Presets"))
        self.setToolTip(tr("Load a preset, save the current settings as one, or remove one"))
        self.setProperty("compact", True)
        self.setProperty("unfolds", True)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        menu.setObjectName("setupsMenu")
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(self.list_presets)
        self._removing = QMenu(tr("Remove"), menu)
        self.setMenu(menu)

    def list_presets(self) -> None:
        """Update the list."""
        menu = self.menu()
        menu.clear()
        found = presets.read_all(presets.default_root())
        for preset in found:
            _describe(self._offer(menu, preset.name, preset, self.fill_asked), preset)
        if not found:
            menu.addAction(tr(NO_PRESETS)).setEnabled(False)
        menu.addSeparator()
        menu.addAction(tr("Save current settings…"), self.keep_asked.emit)
        if found:
            self._removing.clear()
            menu.addMenu(self._removing)
            for preset in found:
                self._offer(self._removing, f"{preset.name}…", preset, self.remove_asked)

    @staticmethod
    def _offer(menu: QMenu, text: str, preset: Preset, signal: SignalInstance) -> QAction:
        action = menu.addAction(menu_text(text))
        action.triggered.connect(lambda: signal.emit(str(preset.path)))
        return action


def _describe(action: QAction, preset: Preset) -> None:
    owner = owner_of_file(preset.path)
    action.setEnabled(preset.spec is not None)
    action.setToolTip(
        verbatim("\n".join([summary(preset), *([tr("It belongs to {owner}.", owner=owner)] if owner else [])]))
    )


def summary(preset: Preset) -> str:
    """Return what a preset trains, in one line; its problem if it cannot be used."""
    spec = preset.spec
    if spec is None:
        return preset.problem
    devices = tr_plural("{count} device", "{count} devices", len(spec.devices))
    if spec.script is not None:
        what = f"{spec.script.name} {' '.join(spec.script.arguments)}".strip()
    else:
        what = f"{spec.own_recipe.name}, {spec.framework} {spec.strategy}"
    return tr("{what}, on {devices}", what=what, devices=devices)
