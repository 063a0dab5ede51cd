"""The base class of all plots: a card with a title, a read-out and a drawing area that follows a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QStackedWidget, QVBoxLayout

from core.language import tr
from gui.plots.description import describe
from gui.plots.items.canvas import Canvas
from gui.plots.items.end_mark import ENDED, PAUSED, EndMark
from gui.plots.items.hover import HoverReading, HoverReadout, HoverRow, readout_forms
from gui.style.text_size import scaled
from gui.style.theme import mark
from gui.widgets.compact import compact_button
from gui.widgets.elided_label import ElidedLabel, ReadoutLabel
from gui.widgets.plain_text import PlainLabel

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from core.series.min_max_tree import Floats
    from core.series.run_series import RunSeries
    from core.series.series import Axis, Series
    from gui.plots.items.line import Shown
    from gui.style.theme import Theme

AFTER_END_SHARE = 0.03
"""Minimum share of the training time to show after its end, where the memory is released."""
MANY_LINES = 32
"""With more lines than this, new readings are drawn less often."""
FARTHEST = 1e300
"""Largest absolute end of an axis: computing with the ends of a range must not overflow."""

Span = tuple[float, float]
OpenSpan = tuple[float | None, float | None]
"""A range of unix times; None: to the end of what there is."""


class Plot(QFrame):
    """A card that draws one aspect of a run. `redraw` is called at every tick and returns at once if nothing changed.

    The plot follows its run, showing all of it, until the user pans or zooms.
    """

    follow_changed = Signal(bool)

    unit: ClassVar[str] = ""
    min_height_px: ClassVar[int] = 104
    """Least height at a scale of 1."""
    y_by_hand: ClassVar[bool] = False
    """True if the mouse also moves the y axis, on its labels."""
    labels_end: ClassVar[bool] = False
    """True if the line at the end of training has a label."""

    def __init__(self, *, name: str, title: str, theme: Theme) -> None:
        super().__init__()
        self.setObjectName(name)
        self.setProperty("card", True)
        self.setAccessibleName(tr("{title} plot", title=title))
        self.run_series: RunSeries | None = None
        self.theme = theme
        self.colours: Mapping[str, str] = {}
        self.labels: Mapping[str, str] = {}
        self._follow = True
        self._empty_words = ""
        self._followed: Span | None = None
        self.y_held = False
        """True while the y axis stays as the user moved it."""
        self._is_over = False
        self.min_s = 0.0
        """Minimum seconds between two drawings of new readings."""
        self._start_text = ""
        self._drawn: tuple[object, ...] | None = None
        self._drawn_at = 0.0
        self.canvas = Canvas(y_by_hand=self.y_by_hand)
        self.canvas.setAccessibleName(
            tr("{title} chart. Arrow keys pan, plus and minus zoom, A shows the whole run.", title=title)
        )
        self.crosshair = pg.InfiniteLine(angle=90, movable=False)
        """Where the mouse is in another plot."""
        self.crosshair.hide()
        self.canvas.addItem(self.crosshair, ignoreBounds=True)
        self.end = EndMark(self.canvas, labelled=self.labels_end)
        self.hover = HoverReadout(self.canvas, self.reading_at, theme)
        self._build(title)
        self.canvas.moved_by_hand.connect(lambda: self.set_follow(False))
        self.canvas.y_moved_by_hand.connect(lambda: self._hold_y(True))
        self.canvas.follow_asked.connect(lambda: self.set_follow(True))

    # What subclasses define.

    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """Return the drawn positions and values of each line by name, shape (n,) each."""
        return {name: (line.x, line.y) for name, line in self.lines().items() if len(line.x)}

    def lines(self) -> Mapping[str, Shown]:
        """Return the lines by name."""
        raise NotImplementedError

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the measurements at a position of the x axis; None if there are none."""
        raise NotImplementedError

    def axis_name(self) -> str:
        """Return the quantity on the x axis, one of `RunSeries.axes`."""
        return "time"

    def time_at(self, x: float) -> float | None:
        """Return the unix time of a position of the x axis; None if nothing was measured there."""
        return None if self.run_series is None else self.axis(self.run_series).locate(x)

    def place_time(self, time: float) -> float | None:
        """Return the position of a unix time on the x axis; None if nothing was measured then."""
        return None if self.run_series is None else float(self.axis(self.run_series).place(np.array([time]))[0])

    def shown_times(self) -> OpenSpan:
        """Return the unix times of the ends of the x axis."""
        lo, hi = self.canvas.x_range
        return self.time_at(lo), self.time_at(hi)

    def show_times(self, times: OpenSpan) -> None:
        """Show these unix times on the x axis."""
        if self.run_series is None:
            return
        whole = self._whole_span(self.run_series)
        lo, hi = (
            end if time is None or (place := self.place_time(time)) is None else place
            for time, end in zip(times, whole, strict=True)
        )
        if lo < hi:
            self.canvas.view.setXRange(lo, hi, padding=0)

    def _has_data(self, run_series: RunSeries) -> bool:
        raise NotImplementedError

    def _draw(self, run_series: RunSeries, span: Span, pixels: int) -> None:
        """Give the lines what `run_series` has over `span`, for a width of `pixels`."""
        raise NotImplementedError

    def _apply_theme(self, theme: Theme) -> None:
        """Set the colours of the lines."""
        raise NotImplementedError

    def _readout(self, run_series: RunSeries) -> Sequence[HoverRow]:
        """Return the newest values, for the title."""
        raise NotImplementedError

    def _whole_span(self, run_series: RunSeries) -> Span:
        """Return the full range of the x axis. The marked end of training may be later than the last reading."""
        marked = (
            run_series.training_ended - run_series.started if run_series.training_ended and run_series.started else 0.0
        )
        return 0.0, max(run_series.duration_s, marked * (1 + AFTER_END_SHARE), 1.0)

    def _y_span(self) -> Span | None:
        """Return the range of the y axis that suits the current lines; None keeps the range."""
        raise NotImplementedError

    def _place_marks(self, run_series: RunSeries) -> None:
        """Place what depends on the visible range."""

    def measured(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return what the plot shows, with every measurement, by name."""
        raise NotImplementedError

    # What the window calls.

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self.theme = theme
        self.setMinimumHeight(scaled(self.min_height_px))
        self.canvas.set_theme(theme)
        self.hover.set_theme(theme)
        self.end.set_theme(theme)
        self.crosshair.setPen(pg.mkPen(theme.muted, style=Qt.PenStyle.DotLine))
        self._apply_theme(theme)
        self.invalidate()

    def show_series(
        self, run_series: RunSeries | None, device_colours: Mapping[str, str], device_labels: Mapping[str, str]
    ) -> None:
        """Draw this run from the next `redraw` on. The mappings give colours and labels by device id."""
        is_other = run_series is not self.run_series
        self.run_series, self.colours, self.labels = run_series, device_colours, device_labels
        self._apply_theme(self.theme)
        self.invalidate()
        if is_other:
            self.set_note("")
            self.show_crosshair(None)
            self.set_follow(True)

    def emphasise(self, devices: Collection[str] | None) -> None:
        """Draw the other devices faintly; None, or no device, draws all alike. A plot without devices ignores this."""

    def show_empty_words(self, text: str) -> None:
        """Set the sentence to show while there are no measurements."""
        if text != self._empty_words:
            self._empty_words = text
            self.invalidate()

    def set_note(self, text: str, tone: str = "") -> None:
        """Show a text instead of the read-out (`tone`: good, warn, bad); the empty string removes it."""
        self._note.setText(text)
        mark(self._note, tone=tone)
        self._note.setVisible(bool(text))
        self._values.setVisible(not text)

    def show_training_end(self, *, paused: bool, over: bool) -> None:
        """Label the end of training; `over`: the run does not train any more, even if no event says so."""
        if over != self._is_over:
            self._is_over = over
            self.invalidate()
        self.end.set_text(tr(PAUSED if paused else ENDED))

    def show_crosshair(self, time: float | None) -> None:
        """Mark a unix time; None removes the mark."""
        x = None if time is None or self._stack.currentWidget() is self.empty else self.place_time(time)
        self.crosshair.setVisible(x is not None)
        if x is not None:
            self.crosshair.setValue(x)

    def set_follow(self, follow: bool) -> None:
        """Show all of the run as it grows, or keep the range that the user chose."""
        if follow:
            self._followed = None
            self._hold_y(False)
        if follow != self._follow:
            self._follow = follow
            self.follow_changed.emit(follow)
        self._follow_button.setVisible(not self.shows_all)

    def _hold_y(self, held: bool) -> None:
        """Keep the y axis as it is, or fit it to what is shown of the x axis."""
        self.y_held = held
        self._follow_button.setVisible(not self.shows_all)
        self.invalidate()

    @property
    def follows(self) -> bool:
        """True if the plot shows all of the run as it grows."""
        return self._follow

    @property
    def shows_all(self) -> bool:
        """True if the user has moved neither axis."""
        return self._follow and not self.y_held

    def has_trained(self, run_series: RunSeries) -> bool:
        """Return whether the training of the run has ended. A run that was lost has no event that says so."""
        return self._is_over or run_series.training_ended is not None

    def invalidate(self) -> None:
        """Make the next `redraw` draw even if nothing changed."""
        self._drawn = None

    def describe(self) -> None:
        """Say what the curves show, for a screen reader."""
        self.canvas.setAccessibleDescription(describe(self.curves(), self.labels, self.unit))

    def redraw(self) -> None:
        """Draw if the run, the range or the size has changed since the last drawing.

        New readings alone wait until the last drawing is `min_s` old, or longer with very many lines.
        """
        inputs = self._inputs()
        if self._drawn == inputs:
            return
        now = time.monotonic()
        pause_s = self.min_s * max(1.0, len(self.lines()) / MANY_LINES)
        if self._drawn is not None and self._drawn[1:] == inputs[1:] and now - self._drawn_at < pause_s:
            return
        self._drawn_at = now
        run_series = self.run_series
        if run_series is None or not self._has_data(run_series):
            self._show_empty()
        else:
            self._stack.setCurrentWidget(self.canvas)
            self._follow_x(run_series)
            self._draw(run_series, self.canvas.x_range, self.canvas.pixels)
            self._mark_end(run_series)
            self._fit_y()
            self.end.place()
            self._place_marks(run_series)
            self._values.show_forms(readout_forms(self._readout(run_series), self.theme))
            self.hover.refresh()
            # Otherwise pyqtgraph prepares while it paints, finds that everything has moved, and paints twice.
            self.canvas.scene().prepareForPaint()
        if QAccessible.isActive():
            self.describe()
        self._drawn = self._inputs()

    def _inputs(self) -> tuple[object, ...]:
        """Return everything that the drawing depends on and that changes without a signal."""
        version = self.run_series.version if self.run_series else -1
        return version, self.canvas.view.viewRange(), self.canvas.pixels, self.canvas.view.height()

    def _show_empty(self) -> None:
        for line in self.lines().values():
            line.clear()
        self._values.show_forms(())
        self.empty.setText(self._empty_text())
        self._stack.setCurrentWidget(self.empty)

    def show_start(self, text: str) -> None:
        """Say what the run does while there are no measurements; the empty string: it does not start."""
        if text != self._start_text:
            self._start_text = text
            if self._stack.currentWidget() is self.empty:
                self.empty.setText(self._empty_text())

    def _empty_text(self) -> str:
        if self._start_text and self.run_series is not None:
            return f"{self._start_text[0].upper()}{self._start_text[1:]}"
        return self._empty_words

    def _follow_x(self, run_series: RunSeries) -> None:
        span = self._whole_span(run_series)
        # Compare with the range that was set, not with the visible one: linked plots round each other's ranges.
        if self._follow and span != self._followed:
            self._followed = span
            self.canvas.view.setXRange(*span, padding=0)

    def _mark_end(self, run_series: RunSeries) -> None:
        """Mark the end of training on a time axis only: nothing after it has a step."""
        over_time = self.axis_name() == "time" and run_series.training_ended is not None
        self.end.show(
            run_series.training_ended - self.axis(run_series).origin
            if over_time and run_series.training_ended
            else None
        )

    def _fit_y(self) -> None:
        span = None if self.y_held else self._y_span()
        if span is None:
            return
        lo, hi = (min(max(end, -FARTHEST), FARTHEST) for end in span)
        if [lo, hi] != self.canvas.view.viewRange()[1]:
            self.canvas.view.setYRange(lo, hi, padding=0)

    def axis(self, run_series: RunSeries) -> Axis:
        """Return the x axis of the run."""
        return run_series.axes[self.axis_name()]

    # Layout.

    def _build(self, title: str) -> None:
        self.title = PlainLabel(title)
        self.title.setProperty("role", "title")
        self._unit_label = PlainLabel(self.unit)  # apart from the title, whose letters are capitals
        self._unit_label.setProperty("role", "muted")
        self._unit_label.setVisible(bool(self.unit))
        self._values, self._note = ReadoutLabel(), ElidedLabel()  # text may be cut, numbers may not
        for side_label in (self._values, self._note):
            side_label.setProperty("role", "muted")
            side_label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._note.hide()
        self.empty = PlainLabel()
        self.empty.setProperty("role", "empty")
        self.empty.setWordWrap(True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.canvas)
        self._stack.addWidget(self.empty)
        self._stack.setCurrentWidget(self.empty)
        self._follow_button = self._make_follow_button()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 12, 6)
        layout.setSpacing(4)
        self.header = QHBoxLayout()
        layout.addLayout(self.header)
        layout.addWidget(self._stack, 1)
        self._fill_header()

    def _fill_header(self) -> None:
        self.header.setSpacing(6)
        self.header.addWidget(self.title)
        self.header.addWidget(self._unit_label)
        self.header.addSpacing(6)
        self.header.addWidget(self._values, 1)
        self.header.addWidget(self._note, 1)
        self.header.addWidget(self._follow_button)

    def _make_follow_button(self) -> QPushButton:
        tip = tr("Show the whole run again (double-click, or A)")
        button = compact_button("showAllButton", tr("Show all"), tip, role="flat")
        button.clicked.connect(lambda: self.set_follow(True))
        button.hide()
        return button
