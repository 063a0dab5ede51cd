"""The menu of a run: reuse its settings or delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from gui.style.icons import glyph
from gui.widgets.plain_text import verbatim

if TYPE_CHECKING:
    from pathlib import Path

    from gui.style.theme import Theme

NO_RUN = "No run is shown. Select one in the list."


class RunMenu(QMenu):
    """The menu of one run; each signal carries its directory."""

    again_asked = Signal(str)
    edit_asked = Signal(str)
    copy_asked = Signal(str)
    keep_asked = Signal(str)
    remove_asked = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._run_dir = ""
        self.setToolTipsVisible(True)
        for text, tip, signal in (
            ("Run again", "Start a new run with the same settings and devices", self.again_asked),
            ("Duplicate and edit", "Copy its settings into the training card and tick its devices", self.edit_asked),
            ("Copy as command", "Copy the shell command that starts the same run", self.copy_asked),
            ("Save as preset…", "Save its settings under a name", self.keep_asked),
            ("Delete…", "Delete its folder, after a question; only if the run has ended", self.remove_asked),
        ):
            if signal is self.remove_asked:
                self.addSeparator()  # set off: it cannot be undone
            action = self.addAction(text)
            action.setToolTip(verbatim(tip))
            action.triggered.connect(lambda _, signal=signal: signal.emit(self._run_dir))

    def show_run(self, run_dir: Path | str) -> None:
        """Set the run that the menu is about."""
        self._run_dir = str(run_dir)
        for action in self.actions():
            action.setEnabled(bool(self._run_dir))


class RunMenuButton(QToolButton):
    """Opens the menu of the shown run."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("runMenuButton")
        self.setAccessibleName("Actions for this run")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setStyleSheet("QToolButton { padding: 5px 6px; } QToolButton::menu-indicator { image: none; }")
        self.run_menu = RunMenu(self)
        self.run_menu.setObjectName("runMenu")
        self.setMenu(self.run_menu)
        self.set_theme(theme)
        self.show_run(None)

    def show_run(self, run_dir: Path | None) -> None:
        """Set the run that the menu is about; None for no run."""
        self.run_menu.show_run(run_dir or "")
        self.setEnabled(run_dir is not None)
        self.setToolTip("Run again, duplicate, copy as command, save as preset, delete" if run_dir else NO_RUN)

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self.setIcon(glyph("dots", theme.muted, theme.disabled))
