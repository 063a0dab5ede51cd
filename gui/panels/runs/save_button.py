"""The small button that has a checkpoint written now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QPushButton

from gui.style.icons import glyph

if TYPE_CHECKING:
    from gui.style.theme import Theme

KEYS = "Ctrl+S"
SIDE_PX = 15
NOTHING = "No run is going on whose state could be saved"


class SaveButton(QPushButton):
    """A sign alone: it is seldom needed, and checkpoints are written without it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("saveButton")
        self.setAccessibleName("Save now")
        self.setProperty("role", "flat")
        self.setStyleSheet("QPushButton { padding: 5px 6px; }")
        self.setIconSize(QSize(SIDE_PX, SIDE_PX))
        self.setShortcut(QKeySequence(KEYS))
        self.set_theme(theme)
        self.show_save(can_save=False, saving=False, saved="")

    def show_save(self, *, can_save: bool, saving: bool, saved: str, refusal: str = "") -> None:
        """Whether it can be pressed; `saved`: what the last checkpoint is, in some words; `refusal`: why not."""
        self.setEnabled(can_save and not saving)
        if refusal:
            what = refusal
        elif saving:
            what = "A checkpoint is being written"
        else:
            what = f"Save now: write a checkpoint, and go on ({KEYS})" if can_save else NOTHING
        self.setToolTip(f"{what}\n{saved}" if saved else what)

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.setIcon(glyph("save", theme.muted, theme.disabled, side=SIDE_PX))
