"""The switch above the form between a recipe and a script, and the presets beside it."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QPushButton, QWidget

from core.language import tr
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import verbatim

from .presets_button import PresetsButton


class WorkloadSwitch(QWidget):
    """Two buttons, one of them checked."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.recipe = _segment(
            "recipeModeButton", tr("A recipe"), tr("Train a built-in workload or a recipe file with model()")
        )
        self.script = _segment("scriptModeButton", tr("Your own script"), tr("Start a training program unchanged"))
        self.presets = PresetsButton()
        self._group = QButtonGroup(self)
        for button in (self.recipe, self.script):
            self._group.addButton(button)
        self.recipe.setChecked(True)
        self.script.toggled.connect(lambda _: self.changed.emit())  # the recipe button is always the opposite
        hbox(self, self.recipe, self.script, 0, self.presets, gap=4)

    @property
    def is_script(self) -> bool:
        """True if a script is chosen."""
        return self.script.isChecked()

    def show_script(self, *, is_script: bool) -> None:
        """Check one of the buttons."""
        (self.script if is_script else self.recipe).setChecked(True)


def _segment(name: str, text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setObjectName(name)
    button.setToolTip(verbatim(tip))
    button.setCheckable(True)
    button.setProperty("role", "segment")
    return button
