"""The card about a failed run. It lies over the first plot until it is closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from core.config.validation import smaller_batch
from core.diagnosis.failures import Cause, failure_of
from core.language import tr
from core.runs.facts import RunFacts
from core.schema.spec import RunSpec
from gui.base.painting import paint_card
from gui.base.theme import current_theme, mark
from gui.widgets.buttons import icon_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox, vbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, monospaced, named


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """A failure, ready to be shown."""

    title: str
    sentence: str
    place: str
    """`train.py, line 34, in loss()`; the empty string if it is not known."""
    lines: tuple[str, ...]
    smaller: RunSpec | None
    """The spec of this run with a smaller batch; None if that would not help."""
    smaller_words: str
    """`batch 48`."""
    can_run_again: bool
    rank: int
    """The rank whose log has the error."""
    sought: str
    """A line to look for in that log."""

    @property
    def spoken(self) -> str:
        """The title and the sentence, for a screen reader."""
        return f"{self.title}. {self.sentence}"


def failure_view(
    facts: RunFacts, spec: RunSpec | None, *, log_end: str, labels: Mapping[str, str]
) -> FailureView | None:
    """Return what to show about a failed run; None for a run that did not fail.

    `log_end`: the end of its log; `labels`: names of the devices by id.
    """
    failure = failure_of(facts, spec, log_end=log_end, labels=labels)
    if failure is None or (spec is None and facts.supervisor is None):  # without a spec it could not start
        return None
    found = smaller_batch(spec) if spec is not None and failure.cause in SMALLER_HELPS else None
    smaller, words = found or (None, "")
    return FailureView(
        title=failure.title,
        sentence=failure.sentence,
        place=str(failure.place) if failure.place is not None else "",
        lines=failure.lines,
        smaller=smaller,
        smaller_words=words,
        can_run_again=spec is not None and failure.cause is not Cause.HEAD_LOST,
        rank=failure.rank,
        sought=failure.lines[-1].strip() if failure.lines else "",
    )


SMALLER_HELPS = frozenset({Cause.DEVICE_MEMORY, Cause.HOST_MEMORY})
"""Causes for which a smaller batch is offered."""


class FailureCard(QFrame):
    """Shows one failure. After it was closed it stays hidden until there is another, or another run."""

    smaller_asked = Signal(object)
    """The `RunSpec` with a smaller batch is to be filled into the form."""
    log_asked = Signal(int, str)
    """The log of a rank is to be shown at the last line that contains this text."""
    again_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("failureCard")
        self._shown: FailureView | None = None
        self._smaller: RunSpec | None = None
        self.title = PlainLabel(name="failureTitle", role="heading", wraps=True, selectable=True)
        mark(self.title, tone="bad")
        self.sentence = PlainLabel(name="failureSentence", wraps=True, selectable=True)
        self.place = PlainLabel(name="failurePlace", wraps=True, selectable=True)
        self.lines = [ElidedLabel() for _ in range(3)]
        self._has_details = False
        """Whether there are a place or lines; `fit` may hide them."""
        smaller = tr("Fill the training card with these settings and a smaller batch")
        self.smaller_button = _button("failureSmallerButton", "", smaller)
        self.log_button = _button("failureLogButton", tr("Show it in the log"), tr("Show the log at this error"))
        self.again_button = _button("failureAgainButton", tr("Run again"), tr("Start a new run with the same settings"))
        self.close_button = icon_button("cross", "failureCloseButton", tr("Dismiss this message"), tr("Dismiss"))
        self.close_button.clicked.connect(self.hide)
        self.smaller_button.clicked.connect(lambda: self.smaller_asked.emit(self._smaller))
        self.log_button.clicked.connect(self._ask_log)
        self.again_button.clicked.connect(self.again_asked)
        self._lay_out()
        self.hide()

    def show_failure(self, view: FailureView | None) -> None:
        """Show a failure; None hides the card. A failure that was closed stays hidden."""
        if view == self._shown:
            return
        self._shown = view
        if view is None:
            self.hide()
            return
        self._smaller = view.smaller
        self.title.setText(view.title)
        self.sentence.setText(view.sentence)
        self.place.setText(view.place)
        self.place.setVisible(bool(view.place))
        for label, line in zip(self.lines, (*view.lines, "", "", ""), strict=False):
            label.setText(line)
            label.setVisible(bool(line))
        self._has_details = bool(view.place or view.lines)
        self._details.setVisible(self._has_details)
        self.smaller_button.setText(tr("Try {settings}", settings=view.smaller_words))
        self.smaller_button.setVisible(view.smaller is not None)
        self.log_button.setVisible(bool(view.sought))
        self.again_button.setVisible(view.can_run_again)
        self.setAccessibleName(view.title)
        self.setAccessibleDescription(view.spoken)
        self.show()
        self.raise_()
        announce(self, view.spoken, urgent=True)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the card in the colour of failures."""
        paint_card(self, current_theme().bad_soft, current_theme().bad)

    def _ask_log(self) -> None:
        if self._shown is not None:
            self.log_asked.emit(self._shown.rank, self._shown.sought)

    def fit(self, width: int, height: int) -> None:
        """Leave out place and lines, which the tab Error has too, if the card would be higher than `height`."""
        layout = self.layout()
        assert layout is not None
        details_px = self._details.sizeHint().height() + layout.spacing()
        rest = layout.totalHeightForWidth(width) - (details_px if self._details.isVisibleTo(self) else 0)
        self._details.setVisible(self._has_details and rest + details_px <= height)

    def _lay_out(self) -> None:
        self._details = QWidget()
        vbox(self._details, self.place, 4, *self.lines, gap=1, margins=(0, 0, 0, 4))
        for label in self.lines:
            monospaced(label)
        layout = vbox(self, gap=5, margins=(16, 10, 10, 12))
        head = hbox(layout, (self.title, 1), gap=5)
        head.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        for part in (self.sentence, self._details):
            layout.addWidget(part)
        layout.addSpacing(3)
        hbox(layout, self.smaller_button, self.log_button, self.again_button, 0, gap=8)


def _button(name: str, text: str, tip: str) -> QPushButton:
    button = named(QPushButton(text), name, tip=tip)
    button.setAutoDefault(False)
    return button
