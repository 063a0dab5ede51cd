"""The buttons of a run: Start, Pause or Resume, Stop or Force, Save."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QWidget

from core.language import tr, tr_noop
from gui.style.icons import GAP_PX, ButtonIcon
from gui.style.theme import mark
from gui.viewmodels.run.pause_button import PauseButtonState, no_run
from gui.viewmodels.run.run_header import Forcing
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import verbatim
from gui.widgets.steady_button import SteadyButton

START_KEYS, PAUSE_KEYS, STOP_KEYS, SAVE_KEYS = "Ctrl+Return", "Ctrl+P", "Ctrl+.", "Ctrl+S"
LONGEST_TEXTS = (tr_noop("Pausing…"), tr_noop("Start over"))
"""Longest texts of the pause button."""
SAVE_ICON_PX = 15
CANNOT_SAVE = tr_noop("There is no active run to save")
FORCE = {
    Forcing.WORKERS: (tr_noop("Force"), tr_noop("Kill the processes of this run now")),
    Forcing.WAITING: (
        tr_noop("Skip the check"),
        tr_noop("Stop waiting for the memory of the devices: training has ended"),
    ),
}
"""Text and purpose of the stop button while it forces something."""


class RunButtons(QWidget):
    """Emits what the user requests; the caller enables the buttons."""

    start_asked = Signal()
    stop_asked = Signal()
    force_asked = Signal()
    pause_asked = Signal()
    resume_asked = Signal()
    save_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.start = self._button("startButton", tr("Start"), "primary")
        self.pause = PauseButton()
        self.stop = self._button("stopButton", tr("Stop"), "danger")
        self.save = SaveButton()
        self.start.setShortcut(QKeySequence(START_KEYS))
        self._forces: Forcing | None = None
        self._compact = False
        self._proposes_start = True
        self.start.clicked.connect(self.start_asked)
        self.stop.clicked.connect(self._on_stop_pressed)
        self.pause.pause_asked.connect(self.pause_asked)
        self.pause.resume_asked.connect(self.resume_asked)
        self.save.clicked.connect(self.save_asked)
        hbox(self, self.start, self.pause, self.stop, self.save, gap=8)
        self._start_icon = ButtonIcon(self.start, "play", "on_accent", gap=GAP_PX)
        ButtonIcon(self.stop, "stop", "bad", gap=GAP_PX)
        self.allow_start("")
        self.show_stop(can_stop=False, can_force=False, stopping=None)
        self.pause.show_state(no_run())

    def show_compact(self, *, compact: bool) -> None:
        """Show the buttons as icons, or with their texts."""
        self._compact = compact
        self.start.show_compact(compact)
        self.pause.show_compact(compact)
        self._show_stop_text()

    def allow_start(self, why_not: str, *, is_proposed: bool = True) -> None:
        """Enable Start, or disable it for a reason. `is_proposed`: whether it is what the user most likely wants."""
        if is_proposed is not self._proposes_start:
            self._proposes_start = is_proposed
            mark(self.start, role="primary" if is_proposed else "")
            self._start_icon.show("play", "on_accent" if is_proposed else "text", gap=GAP_PX)
        self.start.setEnabled(not why_not)
        self.start.setToolTip(verbatim(why_not or tr("Start this training ({keys})", keys=START_KEYS)))

    def show_stop(self, *, can_stop: bool, can_force: bool, stopping: Forcing | None) -> None:
        """Set what the stop button does; `stopping`: what it forces instead of stopping."""
        self._forces = stopping
        text, tip = map(tr, FORCE[stopping]) if stopping else (tr("Stop"), "")
        self.stop.setText(text)
        self._show_stop_text()
        self.stop.setEnabled(can_force if stopping else can_stop)
        self.stop.setShortcut(QKeySequence(STOP_KEYS))  # setText removes the shortcut
        if stopping:
            self.stop.setToolTip(verbatim(f"{tip} ({STOP_KEYS})"))
        elif can_stop:
            self.stop.setToolTip(tr("Stop this run (graceful first, then forced) ({keys})", keys=STOP_KEYS))
        else:
            self.stop.setToolTip(tr("There is no active run to stop"))

    def _show_stop_text(self) -> None:
        """Keep the text while the button forces something: its icon says only that it stops."""
        self.stop.show_compact(self._compact and self._forces is None)

    def _on_stop_pressed(self) -> None:
        if self._forces is not None:
            self.force_asked.emit()
        else:
            self.stop_asked.emit()

    def _button(self, name: str, text: str, role: str) -> SteadyButton:
        button = SteadyButton(text)
        button.setObjectName(name)
        if role:
            button.setProperty("role", role)
        return button


class PauseButton(SteadyButton):
    """Pauses or resumes a run. Its width fits its longest text, so that nothing moves."""

    pause_asked = Signal()
    resume_asked = Signal()

    def __init__(self) -> None:
        super().__init__(tr(LONGEST_TEXTS[0]))
        self.setObjectName("pauseButton")
        self._resumes: bool | None = None
        self._icon = ButtonIcon(self, "pause", "text", gap=GAP_PX)
        self.clicked.connect(self._on_pressed)

    def show_state(self, state: PauseButtonState) -> None:
        """Show the text, tooltip and action of the button."""
        if self.text() != state.text:
            self.setText(state.text)
            self.setShortcut(QKeySequence(PAUSE_KEYS))  # setText removes the shortcut
        self.setEnabled(state.enabled)
        self.setToolTip(verbatim(f"{state.tip} ({PAUSE_KEYS})" if state.enabled else state.tip))
        if state.resumes is not self._resumes:
            self._resumes = state.resumes
            self._icon.show("resume" if state.resumes else "pause", "text", gap=GAP_PX)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return a width for the longest text."""
        hint = super().sizeHint()
        if self._compact:
            return hint
        metrics = self.fontMetrics()
        longest_px = max(metrics.horizontalAdvance(tr(text)) for text in LONGEST_TEXTS)
        extra_px = longest_px - metrics.horizontalAdvance(self.text())
        return QSize(hint.width() + max(extra_px, 0), hint.height())

    def _on_pressed(self) -> None:
        if self._resumes:
            self.resume_asked.emit()
        else:
            self.pause_asked.emit()


class SaveButton(SteadyButton):
    """Writes a checkpoint now. An icon only: checkpoints are also written without it."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("saveButton")
        self.setAccessibleName(tr("Save now"))
        self.setProperty("role", "flat")
        self.setStyleSheet("QPushButton { padding: 5px 6px; }")
        self.setShortcut(QKeySequence(SAVE_KEYS))
        ButtonIcon(self, "save", side=SAVE_ICON_PX)
        self.show_save(can_save=False, saving=False, saved="")

    def show_save(self, *, can_save: bool, saving: bool, saved: str, refusal: str = "") -> None:
        """Enable or disable the button; `saved`: the last checkpoint in words; `refusal`: why saving is impossible."""
        self.setEnabled(can_save and not saving)
        if refusal:
            what = refusal
        elif saving:
            what = tr("Writing a checkpoint")
        else:
            what = (
                tr("Save now: write a checkpoint and continue ({keys})", keys=SAVE_KEYS)
                if can_save
                else tr(CANNOT_SAVE)
            )
        self.setToolTip(verbatim(f"{what}\n{saved}" if saved else what))
