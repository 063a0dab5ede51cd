"""Marks: the end of training, interruptions, best and newest values, values that are not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt

from core.language import tr, tr_noop
from core.series.min_max_tree import Floats
from core.series.run_series import Interruption
from core.series.series import Axis
from gui.base.formatting import duration
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.plots.items.canvas import Canvas

ENDED, PAUSED = tr_noop("training ended"), tr_noop("training paused")
HEIGHT_PX = 24
"""Height to keep free above the lines in plots with a label, at a scale of 1."""
LOW = 2
"""In a plot lower than this many times that height the label is left out."""
LINE_DEPTH = 10


class EndMark:
    """A mark on one canvas; hidden until `show` gets a position."""

    def __init__(self, canvas: Canvas, *, labelled: bool) -> None:
        self._canvas = canvas
        self.line = pg.InfiniteLine(angle=90, movable=False)
        self.label = pg.TextItem(tr(ENDED), anchor=(1, 0))
        self._labelled = labelled
        for item in (self.line, self.label):
            item.setZValue(LINE_DEPTH)
            item.hide()
            canvas.addItem(item, ignoreBounds=True)

    def show(self, at: float | None) -> None:
        """Mark this position of the x axis; None hides the mark."""
        self.line.setVisible(at is not None)
        self.label.setVisible(at is not None and self._labelled)
        if at is not None:
            self.line.setValue(at)

    @property
    def room_px(self) -> int:
        """Height to keep free above the lines for the label; 0 in a plot that is too low for it."""
        room_px = scaled(HEIGHT_PX)
        return room_px if self._labelled and self._canvas.view.height() >= LOW * room_px else 0

    def set_text(self, text: str) -> None:
        """Set the label of the mark."""
        if text != self.label.toPlainText():
            self.label.setPlainText(text)

    def place(self) -> None:
        """Put the label at the top of the view: left of the line, or right of it if there is no room."""
        (left, right), (_, top) = self._canvas.view.viewRange()
        at = self.line.value()
        room = (at - left) / max(right - left, 1e-9) * self._canvas.pixels / self._canvas.devicePixelRatioF()
        fits = room > self.label.boundingRect().width()
        self.label.setAnchor((1, 0) if fits else (0, 0))
        self.label.setPos(at, top)
        self.label.setVisible(self.line.isVisible() and self.room_px > 0)

    def recolour(self) -> None:
        """Take the colours of the theme."""
        theme = current_theme()
        self.line.setPen(pg.mkPen(theme.muted, style=Qt.PenStyle.DashLine))
        self.label.setColor(theme.muted)


TEXTS = {"paused": tr_noop("paused {time}"), "stopped": tr_noop("stopped {time}")}
DOWN = tr_noop("down {time}")
"""Said of a run that had failed or was lost."""
LABELS_APART_PX = 90
"""Marks nearer to the one before than this have no label."""
MAX_MARKS = 40


class InterruptionMarks:
    """One dashed line for each interruption and each change of settings, with a label if there is room."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self.marks: list[EndMark] = []
        """Created when they are needed; the ones that are not needed are hidden."""

    def recolour(self) -> None:
        """Take the colours of the theme."""
        for mark in self.marks:
            mark.recolour()

    def show(
        self, interruptions: Sequence[Interruption], changes: Mapping[int, tuple[float, str]], axis: Axis
    ) -> None:
        """Mark these interruptions on an axis that has no room for them, and these `RunSeries.changes`."""
        marked: list[tuple[float, Interruption | str]] = [(each.since, each) for each in interruptions]
        marked += [(step if axis.column == "step" else time, words) for step, (time, words) in changes.items()]
        marked.sort(key=itemgetter(0))
        (left, right), width = self._canvas.x_range, self._canvas.pixel_size[0]
        places = axis.place(np.array([at for at, _ in marked])).tolist()
        seen = [(x, each) for x, (_, each) in zip(places, marked, strict=True) if left <= x <= right][:MAX_MARKS]
        while len(self.marks) < len(seen):
            self._add()
        labelled_at, before = -np.inf, None
        for mark, (x, each) in zip(self.marks, seen, strict=False):
            down = None if isinstance(each, str) else tr(TEXTS.get(each.state, DOWN), time=duration(each.duration_s))
            text = down or str(each)
            if x - labelled_at < width and before is not None:  # a pause after which the devices are others
                before.set_text(f"{before.label.toPlainText()} → {text}")
                before.place()
            mark.set_text(text)
            mark.show(x)
            mark.place()
            labelled = x - labelled_at >= LABELS_APART_PX * width
            mark.label.setVisible(labelled)
            labelled_at, before = (x, mark) if labelled else (labelled_at, before)
        for mark in self.marks[len(seen) :]:
            mark.show(None)

    def _add(self) -> None:
        mark = EndMark(self._canvas, labelled=True)
        mark.recolour()
        self.marks.append(mark)


ARROW_PX, CROSS_PX, DOT_PX = 9, 11, 8
DISTANCE_PX = 12
"""Marks nearer to each other than this become one."""
GAP_PX = 6
"""Distance of a text from its dot."""
DEPTH = 12


class EdgeArrows:
    """Arrows at the upper and the lower edge, where values lie beyond it."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self.above, self.below = (_scatter(canvas, symbol, ARROW_PX) for symbol in ("t1", "t"))

    def paint_in(self, colour: str) -> None:
        """Set the colour, `#rrggbb`."""
        for arrows in (self.above, self.below):
            arrows.setBrush(pg.mkBrush(colour))

    def show(self, lines: Sequence[tuple[Floats, Floats]]) -> None:
        """Mark what of these lines lies beyond the visible range; `lines`: positions and heights, shape (n,) each."""
        (left, right), (bottom, top) = self._canvas.x_range, self._canvas.y_range
        step = DISTANCE_PX * self._canvas.pixel_size[0]
        inset = ARROW_PX / 2 * self._canvas.pixel_size[1]
        inside = [(x[(x >= left) & (x <= right)], y[(x >= left) & (x <= right)]) for x, y in lines]
        for arrows, at, places in (
            (self.above, top - inset, [x[y > top] for x, y in inside]),
            (self.below, bottom + inset, [x[y < bottom] for x, y in inside]),
        ):
            every = np.concatenate([*places, np.empty(0)])
            found = every[spread_out_at(every, step)]
            _set_points(arrows, found, np.full(len(found), at))


class Crosses:
    """Crosses where a line ends because its values are not finite. The heights are kept inside the visible range."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self.marks = _scatter(canvas, "x", CROSS_PX)

    def paint_in(self, colour: str) -> None:
        """Set the colour, `#rrggbb`."""
        self.marks.setBrush(pg.mkBrush(colour))

    def show(self, x: Floats, heights: Floats) -> None:
        """Mark these points, shape (n,) each; a height of NaN is at the lower edge."""
        bottom, top = self._canvas.y_range
        inset = CROSS_PX / 2 * self._canvas.pixel_size[1]
        kept = spread_out_at(x, DISTANCE_PX * self._canvas.pixel_size[0])
        heights = np.where(np.isnan(heights[kept]), bottom, heights[kept])
        _set_points(self.marks, x[kept], np.clip(heights, bottom + inset, max(top - inset, bottom + inset)))


class EndLabel:
    """A dot at the end of a line, with a text such as `now 0.33`."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self.dot = _scatter(canvas, "o", DOT_PX)
        self.label = pg.TextItem()
        self.label.setZValue(DEPTH)
        self.label.hide()
        canvas.addItem(self.label, ignoreBounds=True)

    def paint_in(self, colour: str, ground: str) -> None:
        """Set the colour of dot and text, and of the ground behind the text, `#rrggbb`."""
        self.dot.setBrush(pg.mkBrush(colour))
        self.label.setColor(colour)
        self.label.fill = pg.mkBrush(f"{ground}d0")
        self.label.update()

    def show(self, x: float, height: float, text: str) -> None:
        """Show it at this point, or nothing if that is not visible. The text is right of the dot if there is room."""
        (left, right), (bottom, top) = self._canvas.x_range, self._canvas.y_range
        visible = left <= x <= right and bottom <= height <= top  # also False for NaN
        _set_points(self.dot, np.array([x] if visible else []), np.array([height] if visible else []))
        self.label.setVisible(visible)
        if not visible:
            return
        if text != self.label.toPlainText():
            self.label.setPlainText(text)
        width, height_px = self._canvas.pixel_size
        size = self.label.boundingRect()
        to_the_right = x + (GAP_PX + size.width()) * width <= right
        below = height - (GAP_PX + size.height()) * height_px >= bottom
        self.label.setAnchor((0 if to_the_right else 1, 0 if below else 1))
        self.label.setPos(
            x + (GAP_PX if to_the_right else 0) * width, height + (-GAP_PX if below else GAP_PX) * height_px
        )

    def hide(self) -> None:
        """Show nothing."""
        self.show(np.nan, np.nan, "")


def spread_out_at(x: Floats, distance: float) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the indices of one value of `x` in each interval of length `distance`."""
    return np.unique(np.floor(x / max(distance, 1e-300)), return_index=True)[1]


def _scatter(canvas: Canvas, symbol: str, size_px: int) -> pg.ScatterPlotItem:
    marks = pg.ScatterPlotItem(size=size_px, symbol=symbol, pen=None)
    marks.setZValue(DEPTH)
    marks.hide()
    canvas.addItem(marks, ignoreBounds=True)
    return marks


def _set_points(marks: pg.ScatterPlotItem, x: Floats, y: Floats) -> None:
    """Set the points. No points are hidden: painting none costs as much as a curve."""
    if len(x):
        marks.setData(x, y)
    marks.setVisible(len(x) > 0)
