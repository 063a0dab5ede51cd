"""What can be done with a run, whatever became of it: begin again from it, or delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from gui.style.icons import glyph

if TYPE_CHECKING:
    from pathlib import Path

    from gui.style.theme import Theme

NO_RUN = "No run is shown. Choose one from the list."


class RunMenu(QMenu):
    """Of one run; each signal carries its folder."""

    again_asked = Signal(str)
    edit_asked = Signal(str)
    copy_asked = Signal(str)
    keep_asked = Signal(str)
    remove_asked = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._run_dir = ""
        self.setToolTipsVisible(True)
        for text, tip, asked in (
            ("Run again", "Start the same at once, on the same devices", self.again_asked),
            ("Duplicate and edit", "Fill the training card with it, and tick its devices", self.edit_asked),
            ("Copy as command", "Copy the line that starts the same from a shell", self.copy_asked),
            ("Keep as setup…", "Keep it by a name, to begin from it another day", self.keep_asked),
            ("Delete…", "Delete its folder, once you have been asked; only a run that is over", self.remove_asked),
        ):
            if asked is self.remove_asked:
                self.addSeparator()  # what cannot be taken back stands by itself
            action = self.addAction(text)
            action.setToolTip(tip)
            action.triggered.connect(lambda _, asked=asked: asked.emit(self._run_dir))

    def show_run(self, run_dir: Path | str) -> None:
        """It is about this run from now on."""
        self._run_dir = str(run_dir)


class RunMenuButton(QToolButton):
    """Unfolds the menu of the run that is looked at."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("runMenuButton")
        self.setAccessibleName("What to do with this run")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setStyleSheet("QToolButton { padding: 5px 6px; } QToolButton::menu-indicator { image: none; }")
        self.run_menu = RunMenu(self)
        self.run_menu.setObjectName("runMenu")
        self.setMenu(self.run_menu)
        self.set_theme(theme)
        self.show_run(None)

    def show_run(self, run_dir: Path | None) -> None:
        """Be about this run; None where none is looked at."""
        self.run_menu.show_run(run_dir or "")
        self.setEnabled(run_dir is not None)
        self.setToolTip("Run again, duplicate, copy as command, keep as setup, delete" if run_dir else NO_RUN)

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.setIcon(glyph("dots", theme.muted, theme.disabled))
