"""The head of the window: the buttons, the state of the run, what it is and how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from gui.style.theme import mark
from gui.viewmodels.run.run_header import Forcing, RunHeader
from gui.widgets.elided_label import ElidedLabel

from .progress import ProgressLine
from .run_buttons import RunButtons
from .run_menu import RunMenuButton

if TYPE_CHECKING:
    from gui.style.theme import Theme


MIN_NAME_PX = 96


class HeaderPanel(QWidget):
    """One row. What its buttons do is said by `buttons`."""

    heading_changed = Signal(str)
    """The name of the run that is shown; empty for none."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.buttons = RunButtons(theme)
        self._state = QLabel()
        self._state.setObjectName("stateLabel")
        self._state.setProperty("role", "pill")
        self._name = ElidedLabel(min_px=MIN_NAME_PX)
        self._name.setProperty("role", "heading")
        self._what = ElidedLabel()
        # As wide as its text; what is left beyond it is for the bar. It is the first to give way, by its stretch.
        self._what.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.progress = ProgressLine()
        self.again = RunMenuButton(theme)
        self._released = QLabel()
        self._released.setObjectName("releasedLabel")
        self._released.setAccessibleName("What became of the memory")
        self._shown: RunHeader | None = None
        self._lay_out()
        self.show_head(RunHeader())

    def show_head(self, head: RunHeader) -> None:
        """Show a run's head."""
        if head == self._shown:
            return
        if self._shown is None or head.name != self._shown.name:
            self.heading_changed.emit(head.name)
        self._shown = head
        self._show_state(head)
        self._name.setText(head.name)
        self._name.setVisible(bool(head.name))
        self._what.setText(f"· {head.what}" if head.name and head.what else head.what)
        mark(self._what, role="" if head.name else "muted")
        steady = not head.released
        urgent = head.can_force and head.stopping is Forcing.WORKERS
        self.progress.show_progress(head.epoch, head.fraction, head.detail, urgent=urgent, steady=steady)
        self._show_released(head)
        self.progress.setToolTip(head.saved)
        self.buttons.pause.show_face(head.pause)
        self.buttons.save.show_save(
            can_save=head.can_save, saving=head.saving, saved=head.saved, refusal=head.save_refusal
        )
        self.buttons.show_stop(can_stop=head.can_stop, can_force=head.can_force, stopping=head.stopping)

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.buttons.set_theme(theme)
        self.again.set_theme(theme)

    def _show_state(self, head: RunHeader) -> None:
        if self._state.text() == head.label and self._state.property("tone") == head.tone:
            return
        self._state.setText(head.label)
        self._state.setToolTip(head.sentence)
        self._state.setAccessibleName("State of the run")
        self._state.setAccessibleDescription(head.sentence)
        mark(self._state, tone=head.tone)

    def _show_released(self, head: RunHeader) -> None:
        self._released.setText(head.released)
        self._released.setVisible(bool(head.released))
        if self._released.property("tone") != head.released_tone:
            mark(self._released, tone=head.released_tone)

    def _lay_out(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(2, 10, 2, 10)
        layout.setSpacing(8)
        layout.addWidget(self.buttons)
        layout.addWidget(self.again)
        layout.addSpacing(8)
        layout.addWidget(self._state)
        layout.addSpacing(2)
        layout.addWidget(self._name)
        layout.addWidget(self._what, 1)
        layout.addSpacing(8)
        layout.addWidget(self.progress)
        layout.addWidget(self._released)
