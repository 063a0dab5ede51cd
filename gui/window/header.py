"""The header of the window: buttons, state, name and progress of the shown run, and what became of others meanwhile."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from core.language import tr
from gui.base.text_size import scaled
from gui.base.theme import mark
from gui.features.run.head import ProgressLine, RunButtons, StatePill
from gui.features.runlist.bell import MissedButton
from gui.features.runlist.menu import RunMenuButton
from gui.runs.actions import RunActions
from gui.runs.words import Forcing, RunHeader, run_header
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, title_text, verbatim

MIN_NAME_PX = 96
MIN_OWNER_PX = 40
MIN_RELEASED_PX = 160
WIDE_PX = 1200
"""Width from which on there is room for epoch, bar, result and verdict."""
ENDED = {"tick": "✓ ", "cross": "✕ "}
"""What stands before the name in the title of the window, by the mark of a state: its entry in a task bar tells."""


class HeaderPanel(QWidget):
    """One row; `buttons` emits the user's requests."""

    heading_changed = Signal(str)
    """Name of the shown run, after a sign if it has finished or failed; the empty string for none."""

    run_ended = Signal()
    """The shown run has finished or failed just now."""

    def __init__(self, actions: RunActions) -> None:
        super().__init__()
        self.buttons = RunButtons()
        self._state = StatePill()
        self._state.setObjectName("stateLabel")
        self._name = ElidedLabel(min_px=MIN_NAME_PX, role="heading")
        self._owner = ElidedLabel(min_px=MIN_OWNER_PX, name="ownerLabel")
        mark(self._owner, tone="warn")
        self._what = ElidedLabel(min_px=0, name="descriptionLabel")
        # It gets what the others leave, and at most the width of its text, so that the bar gets the rest.
        self._what.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.progress = ProgressLine()
        self.again = RunMenuButton(actions)
        self._released = ElidedLabel(min_px=MIN_RELEASED_PX)  # must not push the buttons out of the window
        self._released.setObjectName("releasedLabel")
        self.missed = MissedButton()
        self.host = PlainLabel(name="hostLabel", role="pill")
        self.host.hide()
        self._shown: RunHeader | None = None
        self._lay_out()
        self.show_header(run_header(None))

    def show_header(self, header: RunHeader) -> None:
        """Show a header."""
        if header == self._shown:
            return
        before = self._shown
        if before is None or (header.name, header.mark) != (before.name, before.mark):
            title = title_text(header.title or header.name)
            self.heading_changed.emit(f"{ENDED.get(header.mark, '')}{title}")
            if before is not None and header.name == before.name and header.mark in ENDED:
                self.run_ended.emit()
        self._shown = header
        self._show_state(header)
        self._name.setText(header.name)
        self._name.setVisible(bool(header.name))
        self._owner.setText(tr("of {owner}", owner=header.owner))
        self._owner.setAccessibleDescription(
            tr("This run belongs to {owner}.", owner=header.owner) if header.owner else ""
        )
        self._owner.setVisible(bool(header.owner))
        self._what.setText(f"· {header.what}" if header.name and header.what else header.what)
        mark(self._what, role="" if header.name else "muted")
        steady = not header.released
        urgent = header.can_force and header.stopping is Forcing.WORKERS
        self.progress.show_progress(header.epoch, header.fraction, header.detail, urgent=urgent, steady=steady)
        self._show_released(header)
        self._fit()
        self.progress.setToolTip(verbatim(header.saved))
        self.buttons.pause.show_state(header.pause)
        self.buttons.save.show_save(
            can_save=header.can_save, saving=header.saving, saved=header.saved, refusal=header.save_refusal
        )
        self.buttons.show_stop(can_stop=header.can_stop, can_force=header.can_force, stopping=header.stopping)

    def event(self, event: QEvent) -> bool:
        """Limit the description to the width of its text, whenever the text or its font has changed."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._what.setMaximumWidth(self._what.sizeHint().width())
            self._fit()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Show what there is room for."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Leave out epoch and bar where the verdict on the memory, or all others together, need their room."""
        has_verdict = self._shown is not None and bool(self._shown.released)
        self.progress.show_brief(brief=has_verdict and self.width() < scaled(WIDE_PX))
        layout = self.layout()
        assert layout is not None
        others_px = layout.totalMinimumSize().width() - self.progress.minimumSizeHint().width()
        self.progress.show_within(self.width() - others_px)

    def show_host(self, name: str, tone: str, sentence: str) -> None:
        """Name the host whose runs are shown. `tone`: a colour of the theme; `sentence`: on the connection."""
        if (name, tone, sentence) == (self.host.text(), self.host.property("tone"), self.host.accessibleDescription()):
            return
        self.host.setText(name)
        self.host.setAccessibleName(tr("Runs of {host}", host=name))
        self.host.setAccessibleDescription(sentence)
        self.host.setToolTip(verbatim(sentence))
        self.host.show()
        mark(self.host, tone=tone)
        self._fit()

    def show_compact(self, *, compact: bool) -> None:
        """Take less room: the buttons are icons."""
        self.buttons.show_compact(compact=compact)

    def _show_state(self, header: RunHeader) -> None:
        self._state.show_state(header.label, header.mark, header.tone)
        if self._state.toolTip() != verbatim(header.sentence):
            self._state.setToolTip(verbatim(header.sentence))
            self._state.setAccessibleDescription(header.sentence)

    def _show_released(self, header: RunHeader) -> None:
        is_new = header.released != self._released.text()
        self._released.setText(header.released)
        self._released.setVisible(bool(header.released))
        if is_new:
            self._released.setAccessibleName(tr("Memory after training: {released}", released=header.released))
            announce(self._released, header.released)
        if self._released.property("tone") != header.released_tone:
            mark(self._released, tone=header.released_tone)

    def _lay_out(self) -> None:
        hbox(
            self, self.buttons, self.again, 8, self._state, 2, self._name, self._owner, (self._what, 1), 8,
            self.progress, self._released, self.host, self.missed, gap=8, margins=(2, 10, 2, 10),
        )
