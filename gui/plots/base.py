"""What every plot has: a card with a title, a read-out and a drawing area, and how it keeps up with a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
)

from gui.plots.items.canvas import Canvas
from gui.plots.items.end_mark import ENDED, EndMark
from gui.plots.items.hover import HoverReading, HoverReadout, HoverRow
from gui.style.theme import mark
from gui.widgets.elided_label import ElidedLabel

from .side_label import SideLabel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.series.min_max_tree import Floats
    from core.series.run_series import RunSeries
    from core.series.series import Axis
    from gui.plots.items.line import Shown
    from gui.style.theme import Theme

AFTER_END_SHARE = 0.03
"""Of the time until the end of training, so much is shown after it at least: there is seen what became of it."""
MANY_LINES = 32
"""More of them are drawn the less often, when it is not urgent."""
FARTHEST = 1e300
"""No axis reaches farther: what computes with the ends of a range must not overflow."""

Span = tuple[float, float]


class Plot(QFrame):
    """A card that draws one aspect of a book; `redraw`, called at every tick, is done at once when nothing changed.

    It follows its run, showing all of it, until it is panned or zoomed by hand.
    """

    follow_changed = Signal(bool)
    axis_changed = Signal()
    """The x axis has come to mean something else."""

    unit: ClassVar[str] = ""
    nothing_yet: ClassVar[str] = "No measurements yet"
    no_book: ClassVar[str] = "Start a run, or choose one"
    y_by_hand: ClassVar[bool] = False
    """Whether the mouse moves the y axis too."""
    tells_end: ClassVar[bool] = False
    """Whether the words "training ended" stand at the line that marks it."""

    def __init__(self, *, name: str, title: str, theme: Theme) -> None:
        super().__init__()
        self.setObjectName(name)
        self.setProperty("card", True)
        self.setAccessibleName(f"{title} plot")
        self.book: RunSeries | None = None
        self.theme = theme
        self.colours: Mapping[str, str] = {}
        self.labels: Mapping[str, str] = {}
        self._follow = True
        self._followed: Span | None = None
        self.resumed: tuple[float, ...] = ()
        """When the run was resumed, unix seconds."""
        self._end_words = ENDED
        self.min_s = 0.0
        """Between two drawings of new readings."""
        self._seen: tuple[object, ...] | None = None
        self._drawn_at = 0.0
        self.canvas = Canvas(y_by_hand=self.y_by_hand)
        self.canvas.setAccessibleName(f"{title}, drawn. Arrows pan, plus and minus zoom, A shows all.")
        self.end = EndMark(self.canvas, words=self.tells_end)
        self.hover = HoverReadout(self.canvas, self.read, theme)
        self._build(title)
        self.canvas.moved_by_hand.connect(lambda: self.set_follow(False))
        self.canvas.follow_asked.connect(lambda: self.set_follow(True))

    # What a kind of plot says about itself.

    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """What is drawn now: by name, positions and values, shape (n,) each."""
        return {name: (line.x, line.y) for name, line in self.lines().items() if len(line.x)}

    def lines(self) -> Mapping[str, Shown]:
        """The lines, by name."""
        raise NotImplementedError

    def read(self, x: float) -> HoverReading | None:
        """What there is at a place of the x axis; None when nothing."""
        raise NotImplementedError

    def axis_name(self) -> str:
        """What the x axis is: `time`, `step` or `epoch`."""
        return "time"

    def _has_something(self, book: RunSeries) -> bool:
        raise NotImplementedError

    def _draw(self, book: RunSeries, span: Span, pixels: int) -> None:
        """Put into the lines what is to be seen of `book` over `span`."""
        raise NotImplementedError

    def _wear(self, theme: Theme) -> None:
        """Give the lines their colours."""
        raise NotImplementedError

    def _readout(self, book: RunSeries) -> Sequence[HoverRow]:
        """The newest values."""
        raise NotImplementedError

    def _whole_span(self, book: RunSeries) -> Span:
        """All there is of the x axis; the end of training, which is marked, may be later than the last reading."""
        marked = book.training_ended - book.started if book.training_ended and book.started else 0.0
        return 0.0, max(book.duration_s, marked * (1 + AFTER_END_SHARE), 1.0)

    def _y_span(self) -> Span | None:
        """What to show of the y axis for the lines as they are; None leaves it."""
        raise NotImplementedError

    def _y_always_fits(self) -> bool:
        return not self.y_by_hand

    # What the window says to a plot.

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.theme = theme
        self.canvas.set_theme(theme)
        self.hover.set_theme(theme)
        self.end.set_theme(theme)
        self._wear(theme)
        self.outdate()

    def show_book(
        self, book: RunSeries | None, device_colours: Mapping[str, str], device_labels: Mapping[str, str]
    ) -> None:
        """Draw this book from the next `redraw` on; the mappings give the devices their colours and names."""
        another = book is not self.book
        self.book, self.colours, self.labels = book, device_colours, device_labels
        self._wear(self.theme)
        self.outdate()
        if another:
            self.set_note("")
            self.set_follow(True)

    def set_note(self, text: str, tone: str = "") -> None:
        """Say something in the place of the read-out (`tone`: good, warn, bad); no text takes it back."""
        self._note.setText(text)
        mark(self._note, tone=tone)
        self._note.setVisible(bool(text))
        self._values.setVisible(not text)

    def show_story(self, end_words: str, resumed: tuple[float, ...]) -> None:
        """What to call the end of training, and when the run was resumed, unix seconds."""
        if (end_words, resumed) != (self._end_words, self.resumed):
            self._end_words, self.resumed = end_words, resumed
            self.end.say(end_words)
            self.outdate()

    def set_follow(self, follow: bool) -> None:
        """Show all of the run as it grows, or stay where the user has gone."""
        if follow:
            self._followed = None
            self.outdate()
        if follow != self._follow:
            self._follow = follow
            self._follow_button.setVisible(not follow)
            self.follow_changed.emit(follow)

    @property
    def follows(self) -> bool:
        """Whether all of the run is shown as it grows."""
        return self._follow

    def outdate(self) -> None:
        """Make the next `redraw` draw, whatever it finds."""
        self._seen = None

    def redraw(self) -> None:
        """Bring the drawing up to date with the book, the range and the size; at once done when it is.

        New readings alone wait until the last drawing is `least_s` old, with very many lines for longer.
        """
        look = self._look()
        if self._seen == look:
            return
        now = time.monotonic()
        pause_s = self.min_s * max(1.0, len(self.lines()) / MANY_LINES)
        if self._seen is not None and self._seen[1:] == look[1:] and now - self._drawn_at < pause_s:
            return
        self._drawn_at = now
        book = self.book
        if book is None or not self._has_something(book):
            self._show_nothing()
        else:
            self._stack.setCurrentWidget(self.canvas)
            self._follow_x(book)
            self._draw(book, self.canvas.x_range, self.canvas.pixels)
            self._mark_end(book)
            self._fit_y()
            self.end.place()
            newest = (row.html(self.theme) for row in self._readout(book))
            self._values.setText("&nbsp;&nbsp;&nbsp; ".join(newest))
            self.hover.refresh()
            # Else pyqtgraph does so while it paints, finds that all has moved, and paints once more.
            self.canvas.scene().prepareForPaint()
        self._seen = self._look()

    def _look(self) -> tuple[object, ...]:
        """All that the drawing depends on and that changes without being announced."""
        version = self.book.version if self.book else -1
        return version, self.canvas.view.viewRange(), self.canvas.pixels, self.canvas.view.height()

    def _show_nothing(self) -> None:
        for line in self.lines().values():
            line.clear()
        self._values.setText("")
        self.empty.setText(self._why_nothing())
        self._stack.setCurrentWidget(self.empty)

    def _why_nothing(self) -> str:
        if self.book is None:
            return self.no_book
        return self.nothing_yet.removesuffix(" yet") if self.book.training_ended else self.nothing_yet

    def _follow_x(self, book: RunSeries) -> None:
        span = self._whole_span(book)
        # Compared with what was asked for, not with what is seen: linked plots round each other's ranges.
        if self._follow and span != self._followed:
            self._followed = span
            self.canvas.view.setXRange(*span, padding=0)

    def _mark_end(self, book: RunSeries) -> None:
        """Only over time: what follows the end of training has no steps."""
        over_time = self.axis_name() == "time" and book.training_ended is not None
        self.end.show(book.training_ended - self.axis(book).origin if over_time and book.training_ended else None)

    def _fit_y(self) -> None:
        if self._follow or self._y_always_fits():
            span = self._y_span()
            if span is None:
                return
            lo, hi = (min(max(end, -FARTHEST), FARTHEST) for end in span)
            if [lo, hi] != self.canvas.view.viewRange()[1]:
                self.canvas.view.setYRange(lo, hi, padding=0)

    def axis(self, book: RunSeries) -> Axis:
        """The x axis, in the book's terms."""
        return book.axes[self.axis_name()]

    # How it is put together.

    def _build(self, title: str) -> None:
        self.title = QLabel(f"{title}  {self.unit}".rstrip())
        self.title.setProperty("role", "title")
        self._values = _beside_title(SideLabel())
        self._note = _beside_title(ElidedLabel())  # words may be cut; numbers may not
        self._note.hide()
        self.empty = QLabel(self.no_book)
        self.empty.setProperty("role", "empty")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.canvas)
        self._stack.addWidget(self.empty)
        self._stack.setCurrentWidget(self.empty)
        self._follow_button = self._make_follow_button()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 12, 6)
        layout.setSpacing(4)
        layout.addLayout(self._header())
        layout.addWidget(self._stack, 1)

    def _header(self) -> QHBoxLayout:
        self.header = QHBoxLayout()
        self.header.setSpacing(6)
        self.header.addWidget(self.title)
        self.header.addSpacing(6)
        self.header.addWidget(self._values, 1)
        self.header.addWidget(self._note, 1)
        self.header.addWidget(self._follow_button)
        return self.header

    def _make_follow_button(self) -> QPushButton:
        button = QPushButton("Show all")
        button.setProperty("role", "flat")
        button.setProperty("compact", True)
        button.setToolTip("Show the whole run again (double-click, or A)")
        button.clicked.connect(lambda: self.set_follow(True))
        button.hide()
        return button


def _beside_title(label: QLabel) -> QLabel:
    label.setProperty("role", "muted")
    label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    return label
