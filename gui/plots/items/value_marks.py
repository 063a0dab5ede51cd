"""Marks at single values: outside the plot, no longer finite, and the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.series.min_max_tree import Floats

    from .canvas import Canvas

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
            found = spread_out(np.concatenate([*places, np.empty(0)]), step)
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


def spread_out(x: Floats, distance: float) -> Floats:
    """Return positions of `x` that are about `distance` apart, shape (n,) -> (m,)."""
    return x[spread_out_at(x, distance)]


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
