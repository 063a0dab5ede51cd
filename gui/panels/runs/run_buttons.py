"""Start, Pause and Stop, and the small one that saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from gui.style.icons import GAP_PX, SIDE_PX, glyph
from gui.viewmodels.run.pause_button import NO_RUN
from gui.viewmodels.run.run_header import Forcing

from .pause_button import PauseButton
from .save_button import SaveButton

if TYPE_CHECKING:
    from gui.style.theme import Theme

START_KEYS, STOP_KEYS = "Ctrl+Return", "Ctrl+."
FORCE = {
    Forcing.WORKERS: ("Force", "End the workers at once, without waiting for them"),
    Forcing.WAITING: ("Don't wait", "Wait no longer for the devices' memory: training has ended"),
}
"""What the third button says, and what it is for, once there is nothing more to stop."""


class RunButtons(QWidget):
    """Says what is asked for; whether it can be had is told to it."""

    start_asked = Signal()
    stop_asked = Signal()
    force_asked = Signal()
    pause_asked = Signal()
    resume_asked = Signal()
    save_asked = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.start = self._button("startButton", "Start", "primary")
        self.pause = PauseButton(theme)
        self.stop = self._button("stopButton", "Stop", "danger")
        self.save = SaveButton(theme)
        self.start.setShortcut(QKeySequence(START_KEYS))
        self._forces: Forcing | None = None
        self.start.clicked.connect(self.start_asked)
        self.stop.clicked.connect(self._stop_pressed)
        self.pause.pause_asked.connect(self.pause_asked)
        self.pause.resume_asked.connect(self.resume_asked)
        self.save.clicked.connect(self.save_asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        for button in (self.start, self.pause, self.stop, self.save):
            layout.addWidget(button)
        self.set_theme(theme)
        self.allow_start("")
        self.show_stop(can_stop=False, can_force=False, stopping=None)
        self.pause.show_face(NO_RUN)

    def allow_start(self, why_not: str) -> None:
        """Start can be pressed, unless there is a reason against it."""
        self.start.setEnabled(not why_not)
        self.start.setToolTip(why_not or f"Start this training ({START_KEYS})")

    def show_stop(self, *, can_stop: bool, can_force: bool, stopping: Forcing | None) -> None:
        """What the third button does, if anything; `stopping`: what it forces instead."""
        self._forces = stopping
        text, tip = FORCE[stopping] if stopping else ("Stop", "")
        self.stop.setText(text)
        self.stop.setEnabled(can_force if stopping else can_stop)
        self.stop.setShortcut(QKeySequence(STOP_KEYS))  # which a new text takes away
        if stopping:
            self.stop.setToolTip(f"{tip} ({STOP_KEYS})")
        elif can_stop:
            self.stop.setToolTip(f"Stop this run: it is asked first, and made to if it does not ({STOP_KEYS})")
        else:
            self.stop.setToolTip("No run is going on that could be stopped")

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.start.setIcon(glyph("play", theme.on_accent, theme.disabled, gap=GAP_PX))
        self.stop.setIcon(glyph("stop", theme.bad, theme.disabled, gap=GAP_PX))
        self.pause.set_theme(theme)
        self.save.set_theme(theme)

    def _stop_pressed(self) -> None:
        if self._forces is not None:
            self.force_asked.emit()
        else:
            self.stop_asked.emit()

    def _button(self, name: str, text: str, role: str) -> QPushButton:
        button = QPushButton(text)
        button.setObjectName(name)
        button.setIconSize(QSize(SIDE_PX + GAP_PX, SIDE_PX))
        if role:
            button.setProperty("role", role)
        return button
