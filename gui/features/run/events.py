"""What happened in a run: the tab Events, and the card about a failure, which lies over the first plot."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QListView, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from core.config.finding import FIND_LARGEST
from core.config.validation import remedies, smaller_batch, with_blocking
from core.devices.names import join_labels
from core.diagnosis.causes import OF_MEMORY, Cause
from core.diagnosis.evidence import Place
from core.diagnosis.failures import failure_of
from core.diagnosis.timeline import MAX_ENTRIES, Timeline, TimelineEntry
from core.language import join_sentences, tr, tr_noop
from core.runs.facts import RunFacts
from core.schema.spec import RunSpec
from gui.base.formatting import day
from gui.base.icons import glyph
from gui.base.painting import Index, draw_elided, paint_card, paint_empty, paint_row_background
from gui.base.theme import current_theme, mark
from gui.widgets.buttons import compact_button, compact_check, icon_button, push_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.fields import row_of
from gui.widgets.layouts import hbox, vbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, monospaced, named, verbatim

SPOKEN = {"warn": tr_noop("{time}, Warning: {text}"), "bad": tr_noop("{time}, Error: {text}")}
"""What a screen reader hears before a row that is marked by a sign and a colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One row."""

    when: str
    """`18:03:12`; the empty string for the heading of a day."""
    text: str
    """In one line."""
    tone: str
    """`warn`, `bad`, or the empty string."""
    whole: str
    """Everything in the text, on several lines where it has them."""
    copied: str
    """The row as it is copied, with its date."""
    is_epoch: bool = False

    @property
    def is_day(self) -> bool:
        """Whether it is the heading of a day."""
        return not self.when

    @property
    def spoken(self) -> str:
        """The row for a screen reader."""
        if self.is_day:
            return self.text
        return tr(SPOKEN.get(self.tone, "{time}, {text}"), time=self.when, text=self.text)


def _row(entry: TimelineEntry) -> EventRow:
    then, text = time.localtime(entry.time), " ".join(entry.text.splitlines())
    return EventRow(
        when=time.strftime("%H:%M:%S", then),
        text=text,
        tone=entry.tone,
        whole=entry.text,
        copied=f"{time.strftime('%Y-%m-%d %H:%M:%S', then)}  {text}",
        is_epoch=entry.is_epoch,
    )


SLACK_ROWS = 500
"""Epochs that are removed at a time: removing single rows would move all others each time."""
ROW = Qt.ItemDataRole.UserRole + 1
"""Item data: the row."""
SIDE_PX, GAP_PX, ABOVE_PX = 6, 8, 3
SIGN_SHARE = 0.85
"""Size of the sign over the height of the text."""
SIGNS = {"warn": "warning", "bad": "failed"}
"""The icons that mark rows, besides their colour."""


class EventModel(QAbstractListModel):
    """Appends what is new, and removes the oldest epochs above as many as the run keeps."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: list[EventRow] = []
        self._timeline: Timeline | None = None
        self._day = ""
        """The day of the last row, or at first of now: entries of today need no heading."""
        self._count = 0
        """Entries of the timeline that have been taken."""
        self._epochs = 0
        """Number of rows with the numbers of an epoch."""
        self._shows_epochs = True

    def show_timeline(self, timeline: Timeline | None) -> bool:
        """Show a run from its first entry, or what is new in it. Return whether rows were added or removed."""
        if timeline is not self._timeline:
            self._timeline = timeline
            self._read_again()
            return True
        rows = self._new_rows()
        if not rows:
            return False
        self.beginInsertRows(QModelIndex(), len(self._rows), len(self._rows) + len(rows) - 1)
        self._rows += rows
        self.endInsertRows()
        if self._epochs > MAX_ENTRIES + SLACK_ROWS:
            self._remove_oldest_epochs(self._epochs - MAX_ENTRIES)
        if len(self._rows) > 2 * (MAX_ENTRIES + SLACK_ROWS):  # a run of very many warnings
            self._read_again()
        return True

    def show_epochs(self, *, shown: bool) -> None:
        """Show the numbers of the epochs, or hide them."""
        if shown is not self._shows_epochs:
            self._shows_epochs = shown
            self._read_again()

    def _read_again(self) -> None:
        self.beginResetModel()
        self._count, self._epochs, self._day = 0, 0, day(time.time())
        self._rows = self._new_rows()
        self.endResetModel()

    def _new_rows(self) -> list[EventRow]:
        if self._timeline is None or self._timeline.count == self._count:
            return []
        new, rows = self._timeline.newest(self._timeline.count - self._count), list[EventRow]()
        self._count = self._timeline.count
        for entry in (each for each in new if self._shows_epochs or not each.is_epoch):
            today = day(entry.time)
            if today != self._day:
                self._day = today
                rows.append(EventRow(when="", text=today, tone="", whole=today, copied=today))
            rows.append(_row(entry))
        self._epochs += sum(row.is_epoch for row in rows)
        return rows

    def _remove_oldest_epochs(self, count: int) -> None:
        first = 0
        while count:
            while not self._rows[first].is_epoch:
                first += 1
            end = first
            while end < len(self._rows) and self._rows[end].is_epoch and end - first < count:
                end += 1
            self.beginRemoveRows(QModelIndex(), first, end - 1)
            del self._rows[first:end]
            self.endRemoveRows()
            count -= end - first
            self._epochs -= end - first

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:  # noqa: B008, N802 (Qt's)
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return a row, its text for a screen reader, or its tooltip."""
        row = self._rows[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return f"{row.when}  {row.text}".lstrip()
            case Qt.ItemDataRole.AccessibleTextRole:
                return row.spoken
            case Qt.ItemDataRole.ToolTipRole:
                return verbatim(row.whole)
            case _:
                return row if role == ROW else None


class EventList(QListView):
    """Follows the newest row until the user scrolls up. Ctrl+C copies the selected rows, with their dates.

    `controls` is laid out in the heading of the card.
    """

    def __init__(self) -> None:
        super().__init__()
        named(self, "eventList", tr("Events of the run"))
        self.setUniformItemSizes(True)
        self.setSelectionMode(QListView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self._empty_words = ""
        self._delegate = EventDelegate(self)
        self.setItemDelegate(self._delegate)
        self._events = EventModel(self)
        self.setModel(self._events)
        self._timeline: Timeline | None = None
        self._follows = True
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self.verticalScrollBar().rangeChanged.connect(lambda *_: self._to_end() if self._follows else None)
        self.epochs_box = compact_check(
            "epochsShownBox", tr("Epochs"), tr("Show the numbers of each epoch among the events"), checked=True
        )
        self.epochs_box.toggled.connect(self._show_epochs)
        self.controls = row_of(self.epochs_box)
        self._add_menu()

    def show_timeline(self, timeline: Timeline | None) -> None:
        """Show what happened in a run; call again when there is more. None: no run."""
        follows = self._follows or timeline is not self._timeline
        self._timeline = timeline
        if self._events.show_timeline(timeline) and follows:
            self._follows = True
            self._to_end()

    def show_empty_words(self, text: str) -> None:
        """Set the text of an empty list."""
        if text != self._empty_words:
            self._empty_words = text
            self.viewport().update()

    def _show_epochs(self, shown: bool) -> None:
        self._events.show_epochs(shown=shown)
        self._follows = True
        self._to_end()

    def copy(self) -> None:
        """Copy the selected rows."""
        rows = sorted(index.row() for index in self.selectedIndexes())
        texts = [self._events.index(row).data(ROW).copied for row in rows]
        if texts:
            QGuiApplication.clipboard().setText("\n".join(texts))

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Paint a text in an empty list."""
        handled = super().viewportEvent(event)
        if event.type() == QEvent.Type.Paint and not self._events.rowCount():
            paint_empty(self, self._empty_words, SIDE_PX, ABOVE_PX)
        return handled

    def _on_scrolled(self, value: int) -> None:
        self._follows = value >= self.verticalScrollBar().maximum()

    def _to_end(self) -> None:
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    def _add_menu(self) -> None:
        for text, key, act in (
            (tr("Copy"), QKeySequence.StandardKey.Copy, self.copy),
            (tr("Select all"), QKeySequence.StandardKey.SelectAll, self.selectAll),
        ):
            action = QAction(text, self)
            action.setShortcut(QKeySequence(key))
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            action.triggered.connect(act)
            self.addAction(action)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)


class EventDelegate(QStyledItemDelegate):
    """Paints the time, a sign where something is wrong, and the text, cut with an ellipsis."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002, N802 (Qt's name)
        """Return the same size for all rows."""
        return QSize(120, option.fontMetrics.height() + 2 * ABOVE_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        row: EventRow = index.data(ROW)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_row_background(painter, option)
        painter.setFont(option.font)
        line: QRect = option.rect.adjusted(SIDE_PX, 0, -SIDE_PX, 0)
        if row.is_day:
            draw_elided(painter, line, row.text, current_theme().muted)
        else:
            draw_elided(painter, line, row.when, current_theme().muted)
            line.setLeft(line.left() + option.fontMetrics.horizontalAdvance("00:00:00") + 2 * GAP_PX)
            colour = getattr(current_theme(), row.tone) if row.tone else current_theme().text
            if row.tone:
                side = round(option.fontMetrics.height() * SIGN_SHARE)
                sign = QRect(line.left(), line.center().y() - side // 2, side, side)
                glyph(SIGNS[row.tone], colour, colour, side=side).paint(painter, sign)
                line.setLeft(sign.right() + GAP_PX)
            draw_elided(painter, line, row.text, colour)
        painter.restore()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """A failure, ready to be shown."""

    title: str
    sentence: str
    place: Place | None
    """None if it is not known."""
    lines: tuple[str, ...]
    changes: tuple[tuple[RunSpec, str], ...]
    """What may help: the spec of this run with a change, and the change in words, such as `batch 48`.

    An unchanged spec stands for a measurement of the largest batch that fits, fewer devices for a resume on these.
    """
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
    found = [with_blocking(spec)] if failure.cause is Cause.ACCESS and spec is not None else []
    if failure.cause in OF_MEMORY and spec is not None:
        found = [smaller_batch(spec), *remedies(spec).values(), (spec, tr(FIND_LARGEST)) if spec.recipe else None]
    rest = tuple(each for each in facts.devices if each not in facts.faults)
    if facts.faults and rest and facts.checkpoint is not None and spec is not None and spec.recipe is not None:
        on_rest = tr("resume on {devices}", devices=join_labels([labels.get(each, each) for each in rest]))
        found = [(replace(spec, devices=rest), on_rest), *found]
    return FailureView(
        title=failure.title,
        sentence=join_sentences([failure.sentence, failure.others]),
        place=failure.place,
        lines=failure.lines,
        changes=tuple(filter(None, found)),
        can_run_again=spec is not None and failure.cause is not Cause.HEAD_LOST,
        rank=failure.rank,
        sought=failure.lines[-1].strip() if failure.lines else "",
    )


class FailureCard(QFrame):
    """Shows one failure. After it was closed it stays hidden until there is another, or another run."""

    change_asked = Signal(object)
    """The training card shall be filled with this spec; see `FailureView.changes`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("failureCard")
        self.shown: FailureView | None = None
        self.title = PlainLabel(name="failureTitle", role="heading", wraps=True, selectable=True)
        mark(self.title, tone="bad")
        self.sentence = PlainLabel(name="failureSentence", wraps=True, selectable=True)
        self.place = PlainLabel(name="failurePlace", wraps=True, selectable=True)
        self.lines = [ElidedLabel() for _ in range(3)]
        self._has_details = False
        """Whether there are a place or lines; `fit` may hide them."""
        self.close_button = icon_button("cross", "failureCloseButton", tr("Dismiss this message"), tr("Dismiss"))
        self.close_button.clicked.connect(self.hide)
        self.log_button = push_button("failureLogButton", tr("Show it in the log"), tr("Show the log at this error"))
        at_line = tr("Open the file at this line")
        self.editor_button = compact_button("failureEditorButton", tr("Open in editor"), at_line, role="link")
        again = tr("Start a new run with the same settings")
        self.again_button = push_button("failureAgainButton", tr("Run again"), again)
        self._lay_out()
        self.hide()

    def show_failure(self, view: FailureView | None, *, is_own: bool = False) -> None:
        """Show a failure; None hides the card. One that was closed stays hidden. `is_own`: its file can be opened."""
        if view == self.shown:
            return
        self.shown = view
        if view is None:
            self.hide()
            return
        self.title.setText(view.title)
        self.sentence.setText(view.sentence)
        self.place.show_text(str(view.place or ""))
        for label, line in zip(self.lines, (*view.lines, "", "", ""), strict=False):
            label.show_text(line)
        self._has_details = bool(view.place or view.lines)
        self._details.setVisible(self._has_details)
        tip = tr("Do this with the settings of the run")
        buttons = [compact_button("failureChangeButton", words, tip, role="link",
                                  does=partial(self.change_asked.emit, changed))
                   for changed, words in view.changes if is_own or words != tr(FIND_LARGEST)]
        self._helps, before = QWidget(), self._helps
        hbox(self._helps, PlainLabel(tr("Try:")), *(named(each, tight=True) for each in buttons), 0, gap=10)
        self._layout.replaceWidget(before, self._helps)
        before.deleteLater()
        for one, other in pairwise([self.close_button, *buttons]):
            QWidget.setTabOrder(one, other)  # as on the screen
        self._helps.setVisible(bool(buttons))
        self.log_button.setVisible(bool(view.sought))
        self.editor_button.setVisible(is_own and view.place is not None)
        self.again_button.setVisible(view.can_run_again)
        self.setAccessibleName(view.title)
        self.setAccessibleDescription(view.spoken)
        self.show()
        self.raise_()
        announce(self, view.spoken, urgent=True)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the card in the colour of failures."""
        paint_card(self, current_theme().bad_soft, current_theme().bad)

    def fit(self, width: int, height: int) -> None:
        """Leave out place and lines, which the tab Error has too, if the card would be higher than `height`."""
        layout = self.layout()
        assert layout is not None
        details_px = self._details.sizeHint().height() + layout.spacing()
        rest = layout.totalHeightForWidth(width) - (details_px if self._details.isVisibleTo(self) else 0)
        self._details.setVisible(self._has_details and rest + details_px <= height)

    def _lay_out(self) -> None:
        self._details, self._helps, place = QWidget(), QWidget(), row_of(self.place, self.editor_button, shares=(1, 0))
        vbox(self._details, place, 4, *self.lines, gap=1, margins=(0, 0, 0, 4))
        for label in self.lines:
            monospaced(label)
        self._layout = layout = vbox(self, gap=5, margins=(16, 10, 10, 12))
        head = hbox(layout, (self.title, 1), gap=5)
        head.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        for part in (self.sentence, self._details):
            layout.addWidget(part)
        layout.addSpacing(3)
        layout.addWidget(self._helps)
        hbox(layout, self.log_button, self.again_button, 0, gap=8)
