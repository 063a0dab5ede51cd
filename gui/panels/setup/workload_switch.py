"""The switch above the form: a recipe, or a script of the user's own; and beside it the setups that are kept."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QPushButton, QWidget

from .setups_button import SetupsButton


class WorkloadSwitch(QWidget):
    """Two buttons, of which one is pressed."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.recipe = _segment("recipeModeButton", "A recipe", "Train a recipe: what ships, or a file with model()")
        self.script = _segment(
            "scriptModeButton", "Your own script", "Start a training program as it is: nothing in it is changed"
        )
        self.setups = SetupsButton()
        self._group = QButtonGroup(self)
        for button in (self.recipe, self.script):
            self._group.addButton(button)
        self.recipe.setChecked(True)
        self.script.toggled.connect(lambda _: self.changed.emit())  # the other one is the opposite of it
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self.recipe)
        row.addWidget(self.script)
        row.addStretch(1)
        row.addWidget(self.setups)

    @property
    def is_script(self) -> bool:
        """Whether a script is to be started."""
        return self.script.isChecked()

    def show_script(self, *, is_script: bool) -> None:
        """Press one of them."""
        (self.script if is_script else self.recipe).setChecked(True)


def _segment(name: str, text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setObjectName(name)
    button.setToolTip(tip)
    button.setCheckable(True)
    button.setProperty("role", "segment")
    return button
