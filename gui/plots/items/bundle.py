"""Many lines as one item of a plot: with an item each, more time goes into the items than into the lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF
from PySide6.QtGui import QBrush, QPainter, QPainterPath

from .line import MARK_PX, NOTHING, SMOOTH_EDGES_UP_TO, alone

if TYPE_CHECKING:
    from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

    from core.series.min_max_tree import Floats

FEW = 8
"""Points of a path that are put one by one faster than all at once."""


class LineData:
    """One line of a bundle, one pixel wide. A point without neighbours gets a marker, or it could not be seen.

    `x` and `y` are what is shown now, shape (n,) each.
    """

    def __init__(self) -> None:
        self.x, self.y = NOTHING, NOTHING
        self.highest: float | None = None
        """The greatest finite value; None when there is none."""
        self.pen = pg.mkPen("w")
        self._path: QPainterPath | None = None
        self._finite: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.empty(0, dtype=np.bool_)

    def paint_in(self, colour: str) -> None:
        """Set the colour, `#rrggbb`."""
        self.pen = pg.mkPen(colour, width=1)

    def show(self, x: Floats, y: Floats) -> None:
        """Draw `y` over `x` from the next painting on; NaN is a gap."""
        self.x, self.y, self._path = x, y, None
        self._finite = np.isfinite(y)
        self.highest = float(np.fmax.reduce(y)) if self._finite.any() else None

    def clear(self) -> None:
        """Show nothing."""
        self.show(NOTHING, NOTHING)

    @property
    def path(self) -> QPainterPath:
        """What is to be stroked."""
        if self._path is None:
            x, y = bends(self.x, self.y)
            if len(x) <= FEW and self._finite.all():
                self._path = _path_of_few(x, y)
            else:
                connect = "all" if self._finite.all() else "finite"
                self._path = pg.arrayToQPath(x, y, connect=connect, finiteCheck=False)
        return self._path

    @property
    def lone(self) -> tuple[Floats, Floats]:
        """Where the markers are: positions and values, shape (k,) each."""
        if bool(self._finite.all()) and len(self.x) != 1:
            return NOTHING, NOTHING
        marked = alone(self._finite)
        return self.x[marked], self.y[marked]


class MultiLineItem(pg.GraphicsObject):  # type: ignore[misc]  # pyqtgraph ships no types
    """The lines of a plot, by name; those that came later lie above."""

    def __init__(self, plot: pg.PlotItem) -> None:
        super().__init__()
        self.strands: dict[str, LineData] = {}
        self._marks = pg.ScatterPlotItem(size=MARK_PX, pen=None)
        for item in (self, self._marks):
            plot.addItem(item, ignoreBounds=True)

    def refresh(self) -> None:
        """Paint the lines as they are now."""
        self._show_marks()
        self.update()

    def viewTransformChanged(self) -> None:  # noqa: N802 (pyqtgraph's name)
        """Other parts of the lines are seen."""
        self.prepareGeometryChange()
        super().viewTransformChanged()

    def boundingRect(self) -> QRectF:  # noqa: N802 (Qt's name)
        """All that is seen: what the lines need exactly would have to be found out anew at every drawing."""
        return self.viewRect() or QRectF()  # nothing before it lies in a plot

    def shape(self) -> QPainterPath:
        """Nothing: no line is ever pointed at."""
        return QPainterPath()

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,  # noqa: ARG002 (as Qt calls it)
        widget: QWidget | None = None,  # noqa: ARG002
    ) -> None:
        """Stroke every line."""
        for strand in self.strands.values():
            if len(strand.x):
                painter.setRenderHint(QPainter.RenderHint.Antialiasing, len(strand.x) <= SMOOTH_EDGES_UP_TO)
                painter.setPen(strand.pen)
                painter.drawPath(strand.path)

    def _show_marks(self) -> None:
        lone = [(strand.lone, strand.pen) for strand in self.strands.values()]
        brushes = [QBrush(pen.color()) for (x, _), pen in lone for _ in range(len(x))]
        if brushes:
            x, y = (np.concatenate(columns) for columns in zip(*(each for each, _ in lone), strict=True))
            self._marks.setData(x, y, brush=brushes)
        self._marks.setVisible(bool(brushes))


def bends(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The points without those in the midst of a level stretch, which is drawn the same from its two ends.

    What idles is level for hours. Shape (n,) each -> (m,) each.
    """
    if len(y) < 3:
        return x, y
    rests = y[1:] == y[:-1]
    kept = np.ones(len(y), dtype=np.bool_)
    np.logical_not(rests[1:] & rests[:-1], out=kept[1:-1])
    return x[kept], y[kept]


def _path_of_few(x: Floats, y: Floats) -> QPainterPath:
    path = QPainterPath()
    for at, (across, up) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if at == 0:
            path.moveTo(across, up)
        else:
            path.lineTo(across, up)
    return path
