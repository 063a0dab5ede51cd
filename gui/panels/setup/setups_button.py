"""The button with the setups that are kept: to begin from one, to keep another, to remove one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QToolButton

from core.config import presets

if TYPE_CHECKING:
    from PySide6.QtCore import SignalInstance
    from PySide6.QtGui import QAction

    from core.config.presets import Preset

NONE_YET = "None is kept yet"


class SetupsButton(QToolButton):
    """Its list is read when it is unfolded: setups are files, which others may put there or take away."""

    fill_asked = Signal(str)
    """The file of a setup that is to be chosen."""
    remove_asked = Signal(str)
    keep_asked = Signal()
    """What is chosen now is to be kept."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("setupsButton")
        self.setText("Setups ")
        self.setAccessibleName("Setups that are kept")
        self.setToolTip("Setups that were kept by name: choose one, keep another, or remove one")
        self.setProperty("compact", True)
        self.setProperty("unfolds", True)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        menu.setObjectName("setupsMenu")
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(self.list_setups)
        self._removing = QMenu("Remove", menu)
        self.setMenu(menu)

    def list_setups(self) -> None:
        """Bring the list up to date."""
        menu = self.menu()
        menu.clear()
        found = presets.read_all(presets.default_root())
        for setup in found:
            _tell(self._offer(menu, setup.name, setup, self.fill_asked), setup)
        if not found:
            menu.addAction(NONE_YET).setEnabled(False)
        menu.addSeparator()
        menu.addAction("Keep what is chosen…", self.keep_asked.emit)
        if found:
            self._removing.clear()
            menu.addMenu(self._removing)
            for setup in found:
                self._offer(self._removing, f"{setup.name}…", setup, self.remove_asked)

    @staticmethod
    def _offer(menu: QMenu, text: str, setup: Preset, asked: SignalInstance) -> QAction:
        action = menu.addAction(text)
        action.triggered.connect(lambda: asked.emit(str(setup.path)))
        return action


def _tell(action: QAction, setup: Preset) -> None:
    action.setEnabled(setup.spec is not None)
    action.setToolTip(setup.problem if setup.spec is None else what(setup))


def what(setup: Preset) -> str:
    """What a setup trains, in a line."""
    spec = setup.spec
    if spec is None:
        return setup.problem
    count = f"{len(spec.devices)} device{'' if len(spec.devices) == 1 else 's'}"
    if spec.script is not None:
        return f"{spec.script.name} {' '.join(spec.script.arguments)}".strip() + f", on {count}"
    return f"{spec.own_recipe.name}, {spec.framework} {spec.strategy}, on {count}"
