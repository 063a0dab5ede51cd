"""The base class of all plots: a card with a heading, a read-out, a drawing area, and a description in words."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QFrame, QStackedWidget, QWidget

from core.language import join_sentences, tr, tr_noop
from core.series.min_max_tree import Floats
from gui.base.text_size import scaled
from gui.base.theme import current_theme, look, mark
from gui.plots.items.canvas import Canvas
from gui.plots.items.hover import HoverReading, HoverReadout, HoverRow, readout_forms
from gui.plots.items.lines import Shown
from gui.widgets.buttons import compact_button
from gui.widgets.elided_label import ElidedLabel, ReadoutLabel
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, named

MAX_CURVES = 8
"""Curves that are described; the others are counted."""
CURVE = tr_noop("{name} goes from {first} to {last}, with {lowest} as the lowest value and {highest} as the highest.")
LEVEL = tr_noop("{name} stays at {last}.")
MORE = tr_noop("{count} more curves are not described.")
NOTHING = tr_noop("Nothing is drawn.")


def describe(curves: Mapping[str, tuple[Floats, Floats]], labels: Mapping[str, str], unit: str) -> str:
    """Return a sentence on each curve: its first, last, lowest and highest finite value.

    `curves`: positions and values of each curve, shape (n,) each; `labels`: what to call a curve, by its name.
    """
    sentences = []
    for name, (_, values) in list(curves.items())[:MAX_CURVES]:
        finite = values[np.isfinite(values)]
        if not len(finite):
            continue
        names, parts = ("first", "last", "lowest", "highest"), (finite[0], finite[-1], finite.min(), finite.max())
        words = {part: f"{float(value):.3g} {unit}".strip() for part, value in zip(names, parts, strict=True)}
        form = LEVEL if words["lowest"] == words["highest"] else CURVE
        sentences.append(tr(form, name=labels.get(name, name), **words))
    left = len(curves) - MAX_CURVES
    if left > 0:
        sentences.append(tr(MORE, count=left))
    return join_sentences(sentences) or tr(NOTHING)


MANY_LINES = 32
"""With more lines than this, new readings are drawn less often."""
FARTHEST = 1e300
"""Largest absolute end of an axis: computing with the ends of a range must not overflow."""

Span = tuple[float, float]


class PlotCard(QFrame):
    """A card with curves. `redraw` is called at every tick and returns at once if nothing changed.

    It shows the whole horizontal range until the user pans or zooms.
    """

    follow_changed = Signal(bool)

    unit: ClassVar[str] = ""
    min_height_px: ClassVar[int] = 104
    """Least height at a scale of 1."""
    y_by_hand: ClassVar[bool] = False
    """True if the mouse also moves the y axis, on its labels."""
    show_all_tip: ClassVar[str] = ""
    """What the button that shows everything again does."""

    def __init__(self, *, name: str, title: str, chart: str) -> None:
        """`chart`: how a screen reader names the drawing area, with its keys."""
        super().__init__()
        named(self, name, tr("{title} plot", title=title), card=True)
        self.labels: Mapping[str, str] = {}
        """What to call a line, by its name."""
        self.follows = True
        """Whether it shows all of the run as it grows."""
        self._empty_words = ""
        self._followed: Span | None = None
        self.y_held = False
        """True while the y axis stays as the user moved it."""
        self.min_s = 0.0
        """Minimum seconds between two drawings of new readings."""
        self._drawn: tuple[object, ...] | None = None
        self._drawn_at = 0.0
        self.canvas = named(Canvas(y_by_hand=self.y_by_hand), spoken=chart)
        self.crosshair = pg.InfiniteLine(angle=90, movable=False)
        """Where the mouse is in another plot."""
        self.crosshair.hide()
        self.canvas.addItem(self.crosshair, ignoreBounds=True)
        self.hover = HoverReadout(self.canvas, self.reading_at)
        self._build(title)
        look.changed.connect(self.recolour)
        self.canvas.moved_by_hand.connect(lambda: self.set_follow(False))
        self.canvas.y_moved_by_hand.connect(lambda: self._hold_y(True))
        self.canvas.follow_asked.connect(lambda: self.set_follow(True))

    # What subclasses define.

    def lines(self) -> Mapping[str, Shown]:
        """Return the lines by name."""
        raise NotImplementedError

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the measurements at a position of the x axis; None if there are none."""
        raise NotImplementedError

    def version(self) -> int:
        """Return a number that is another one when there is something new to draw."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Do what is due before each drawing."""

    def is_filled(self) -> bool:
        """Return whether there is something to draw."""
        raise NotImplementedError

    def whole_span(self) -> Span:
        """Return the full range of the x axis."""
        raise NotImplementedError

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Give the lines what there is over `span`, for a width of `pixels`."""
        raise NotImplementedError

    def place_marks(self) -> None:
        """Place what depends on the visible range."""

    def readout(self) -> Sequence[HoverRow]:
        """Return the newest values, for the heading; nothing where they stand elsewhere."""
        return ()

    def _recolour_lines(self) -> None:
        """Set the colours of the lines."""
        raise NotImplementedError

    def _y_span(self) -> Span | None:
        """Return the range of the y axis that suits the current lines; None keeps the range."""
        raise NotImplementedError

    def _empty_text(self) -> str:
        return self._empty_words

    # What the window calls.

    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """Return the drawn positions and values of each line by name, shape (n,) each."""
        return {name: (line.x, line.y) for name, line in self.lines().items() if len(line.x)}

    def recolour(self) -> None:
        """Take the colours of the theme, and the size of the text."""
        self.setMinimumHeight(scaled(self.min_height_px))
        self.canvas.recolour()
        self.hover.recolour()
        self.crosshair.setPen(pg.mkPen(current_theme().muted, style=Qt.PenStyle.DotLine))
        self._recolour_lines()
        self.invalidate()

    def show_empty_words(self, text: str) -> None:
        """Set the sentence to show while there are no measurements."""
        if text != self._empty_words:
            self._empty_words = text
            self.invalidate()

    def set_note(self, text: str, tone: str = "") -> None:
        """Show a text instead of the read-out (`tone`: good, warn, bad); the empty string removes it."""
        self._note.show_text(text)
        mark(self._note, tone=tone)
        self._values.setVisible(not text)

    def set_follow(self, follow: bool) -> None:
        """Show all of the run as it grows, or keep the range that the user chose."""
        if follow:
            self._followed = None
            self._hold_y(False)
        if follow != self.follows:
            self.follows = follow
            self.follow_changed.emit(follow)
        self._follow_button.setVisible(not self.shows_all)

    def _hold_y(self, held: bool) -> None:
        """Keep the y axis as it is, or fit it to what is shown of the x axis."""
        self.y_held = held
        self._follow_button.setVisible(not self.shows_all)
        self.invalidate()

    @property
    def shows_all(self) -> bool:
        """True if the user has moved neither axis."""
        return self.follows and not self.y_held

    def invalidate(self) -> None:
        """Make the next `redraw` draw even if nothing changed."""
        self._drawn = None

    def describe(self) -> None:
        """Say what the curves show, for a screen reader."""
        self.canvas.setAccessibleDescription(describe(self.curves(), self.labels, self.unit))

    def is_due(self) -> bool:
        """Return whether what is shown, the range or the size has changed since the last drawing.

        New readings alone wait until the last drawing is `min_s` old, or longer with very many lines.
        """
        inputs = self._inputs()
        if self._drawn is None or self._drawn[1:] != inputs[1:]:
            return True
        pause_s = self.min_s * max(1.0, len(self.lines()) / MANY_LINES)
        return self._drawn != inputs and time.monotonic() - self._drawn_at >= pause_s

    def redraw(self) -> None:
        """Draw if it `is_due`."""
        if not self.is_due():
            return
        self._drawn_at = time.monotonic()
        self.prepare()
        filled = self.is_filled()
        self._stack.setCurrentWidget(self.canvas if filled else self._empty_page)
        size = self._size()  # may change while the lines are drawn for it
        if filled:
            self._show_lines()
        else:
            self._show_empty()
        if QAccessible.isActive():
            self.describe()
        self._drawn = self.version(), self.canvas.view.viewRange(), size

    def _inputs(self) -> tuple[object, ...]:
        """Return everything that the drawing depends on and that changes without a signal."""
        return self.version(), self.canvas.view.viewRange(), self._size()

    def _size(self) -> tuple[int, float]:
        return self.canvas.pixels, self.canvas.view.height()

    def _show_lines(self) -> None:
        self._follow_x()
        self.draw_lines(self.canvas.x_range, self.canvas.pixels)
        self._fit_y()
        self.place_marks()
        self._values.show_forms(readout_forms(self.readout()))
        self.hover.refresh()
        # Otherwise pyqtgraph prepares while it paints, finds that everything has moved, and paints twice.
        self.canvas.scene().prepareForPaint()

    def _show_empty(self) -> None:
        for line in self.lines().values():
            line.clear()
        self._values.show_forms(())
        self.empty.setText(self._empty_text())

    def _follow_x(self) -> None:
        span = self.whole_span()
        # Compare with the range that was set, not with the visible one: linked plots round each other's ranges.
        if self.follows and span != self._followed:
            self._followed = span
            self.canvas.view.setXRange(*span, padding=0)

    def _fit_y(self) -> None:
        span = None if self.y_held else self._y_span()
        if span is None:
            return
        lo, hi = (min(max(end, -FARTHEST), FARTHEST) for end in span)
        if [lo, hi] != self.canvas.view.viewRange()[1]:
            self.canvas.view.setYRange(lo, hi, padding=0)

    # Layout.

    def _build(self, title: str) -> None:
        self.title = PlainLabel(title, role="title")
        self._unit_label = PlainLabel(self.unit, role="muted")
        self._unit_label.setVisible(bool(self.unit))
        self._values, self._note = ReadoutLabel(), ElidedLabel()  # text may be cut, numbers may not
        for side_label in (self._values, self._note):
            side_label.setProperty("role", "muted")
            side_label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._note.hide()
        self.empty = PlainLabel(role="empty", wraps=True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty_page = QWidget()
        self._under_empty = vbox(self._empty_page, 0, self.empty, gap=8)
        self._under_empty.addStretch(1)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.canvas)
        self._stack.addWidget(self._empty_page)
        self._stack.setCurrentWidget(self._empty_page)
        self._follow_button = compact_button("showAllButton", tr("Show all"), tr(self.show_all_tip), role="flat")
        self._follow_button.clicked.connect(lambda: self.set_follow(True))
        self._follow_button.hide()
        self.column = vbox(self, gap=4, margins=(12, 8, 12, 6))
        parts = (self.title, self._unit_label, 6, (self._values, 1), (self._note, 1), self._follow_button)
        self.header = hbox(self.column, *parts, gap=6)
        self.column.addWidget(self._stack, 1)
