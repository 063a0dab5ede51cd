"""A band between a lower and an upper line of a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from .drawing import Drawing
from .line import NOTHING

if TYPE_CHECKING:
    from core.series.min_max_tree import Floats

ALPHA = 76
"""Opacity out of 255, faint enough for the lines on top."""


class _Area(Drawing):
    """The polygons of a band, one per interval without a gap."""

    def __init__(self) -> None:
        super().__init__()
        self.polygons: list[QPolygonF] = []
        self.colour = QColor()
        self.edges = QPen(Qt.PenStyle.NoPen)

    def show_polygons(self, polygons: list[QPolygonF]) -> None:
        self.prepareGeometryChange()
        self.polygons = polygons
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802 (Qt's name)
        """Return the area in data coordinates."""
        whole = QRectF()
        for polygon in self.polygons:
            whole = whole.united(polygon.boundingRect())
        return whole

    def draw(self, painter: QPainter) -> None:
        """Fill the polygons, and draw their edges."""
        painter.setPen(self.edges)
        painter.setBrush(self.colour)
        for polygon in self.polygons:
            painter.drawPolygon(polygon)


class BandItem:
    """`x` and `y` are the shown points: all positions with the lower values, then all with the upper values."""

    def __init__(self, plot: pg.PlotItem, *, depth: int = 0) -> None:
        self.x, self.y = NOTHING, NOTHING
        self._area = _Area()
        self._area.setZValue(depth)
        plot.addItem(self._area, ignoreBounds=True)

    def paint_in(self, colour: str, *, outlined: bool = False) -> None:
        """Set the colour, `#rrggbb`; it is painted with `ALPHA`, and where `outlined`, its edges without."""
        self._area.edges = pg.mkPen(colour) if outlined else QPen(Qt.PenStyle.NoPen)
        self._area.colour = QColor(colour)
        self._area.colour.setAlpha(ALPHA)
        self._area.update()

    def show(self, x: Floats, low: Floats, high: Floats, *, logarithmic: bool = False) -> None:
        """Fill from `low` to `high` over `x`, shape (n,) each; NaN is a gap."""
        self.x, self.y = np.concatenate([x, x]), np.concatenate([low, high])
        floor, ceiling = (np.log10(low), np.log10(high)) if logarithmic else (low, high)
        seen = np.flatnonzero(np.isfinite(floor) & np.isfinite(ceiling))
        stretches = np.split(seen, np.flatnonzero(np.diff(seen) > 1) + 1)
        self._area.show_polygons([_polygon(x[each], floor[each], ceiling[each]) for each in stretches if len(each) > 1])

    def clear(self) -> None:
        """Show nothing."""
        if len(self.x):
            self.show(NOTHING, NOTHING, NOTHING)


def _polygon(x: Floats, low: Floats, high: Floats) -> QPolygonF:
    polygon: QPolygonF = pg.functions.arrayToQPolygonF(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]))
    return polygon
