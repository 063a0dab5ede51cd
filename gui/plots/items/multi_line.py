"""Many lines as one item of a plot: one item per line would cost more than the drawing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QPainter, QPainterPath

from .drawing import ViewDrawing
from .line import MARK_PX, NOTHING, SMOOTH_EDGES_UP_TO, isolated_points

if TYPE_CHECKING:
    from core.series.min_max_tree import Floats

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
SMOOTH_TOGETHER_UP_TO = 4 * SMOOTH_EDGES_UP_TO
"""Maximum number of points of all lines with antialiasing: a hundred noisy lines would take ten times as long."""
FEW = 8
"""Up to this many points, adding points one by one is faster than building a path from an array."""


class LineData:
    """One line of a `MultiLineItem`, one pixel wide. A point without neighbours gets a marker to be visible.

    `x` and `y` are the shown points, shape (n,) each.
    """

    def __init__(self) -> None:
        self.x, self.y = NOTHING, NOTHING
        self.highest: float | None = None
        """The largest finite value; None if there is none."""
        self.pen = pg.mkPen("w")
        self.faint = False
        """True if it is painted below the others."""
        self._marked: Flags | None = None
        self._path: QPainterPath | None = None
        self._finite: Flags = np.empty(0, dtype=np.bool_)

    def paint_in(self, colour: str, *, dashed: bool = False) -> None:
        """Set the colour, `#rrggbb`, and whether the line is dashed, which takes longer to draw."""
        self.pen = pg.mkPen(colour, width=1, style=Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine)

    def show(self, x: Floats, y: Floats, marked: Flags | None = None) -> None:
        """Draw `y` over `x` at the next painting; NaN is a gap. `marked`: which points have a wide mark below them."""
        self.x, self.y, self._path = x, y, None
        self._marked = marked if marked is not None and marked.any() else None
        self._finite = np.isfinite(y)
        self.highest = float(np.fmax.reduce(y)) if self._finite.any() else None

    def clear(self) -> None:
        """Show nothing."""
        self.show(NOTHING, NOTHING)

    @property
    def path(self) -> QPainterPath:
        """The path to stroke, built on first use."""
        if self._path is None:
            x, y = drop_constant_points(*drop_further_gaps(self.x, self.y, self._finite))
            complete = bool(np.isfinite(y).all())
            if len(x) <= FEW and complete:
                self._path = _short_path(x, y)
            else:
                connect = "all" if complete else "finite"
                self._path = pg.arrayToQPath(x, y, connect=connect, finiteCheck=False)
        return self._path

    @property
    def marked_path(self) -> QPainterPath | None:
        """The path of the marked points; None if there are none."""
        if self._marked is None:
            return None
        beside = self._marked.copy()  # with the neighbours of each, so that a single point is a stretch
        beside[1:] |= self._marked[:-1]
        beside[:-1] |= self._marked[1:]
        path: QPainterPath = pg.arrayToQPath(
            self.x, np.where(beside, self.y, np.nan), connect="finite", finiteCheck=False
        )
        return path

    def value_before(self, x: float) -> float | None:
        """Return the last finite value up to a position; None if there is none."""
        found = np.flatnonzero(self._finite & (self.x <= x))
        return float(self.y[found[-1]]) if len(found) else None

    @property
    def isolated(self) -> tuple[Floats, Floats]:
        """Positions and values of the markers, shape (k,) each."""
        if bool(self._finite.all()) and len(self.x) != 1:
            return NOTHING, NOTHING
        marked = isolated_points(self._finite)
        return self.x[marked], self.y[marked]


class MultiLineItem(ViewDrawing):
    """The lines of a plot by name; later lines are painted on top."""

    def __init__(self, plot: pg.PlotItem) -> None:
        super().__init__()
        self.lines: dict[str, LineData] = {}
        self.mark_pen = pg.mkPen("w")
        """For the marks below lines."""
        self._marks = pg.ScatterPlotItem(size=MARK_PX, pen=None)
        for item in (self, self._marks):
            plot.addItem(item, ignoreBounds=True)

    def refresh(self) -> None:
        """Repaint the lines after a change."""
        self._show_marks()
        self.update()

    def draw(self, painter: QPainter) -> None:
        """Stroke each line, the faint ones first, over its marks."""
        few = sum(len(line.x) for line in self.lines.values()) <= SMOOTH_TOGETHER_UP_TO
        for line in self.lines.values():
            if (marked := line.marked_path) is not None:
                painter.setPen(self.mark_pen)
                painter.drawPath(marked)
        for line in sorted(self.lines.values(), key=lambda line: not line.faint):
            if len(line.x):
                smooth = few and len(line.x) <= SMOOTH_EDGES_UP_TO
                painter.setRenderHint(QPainter.RenderHint.Antialiasing, smooth)
                painter.setPen(line.pen)
                painter.drawPath(line.path)

    def _show_marks(self) -> None:
        isolated = [(line.isolated, line.pen) for line in self.lines.values()]
        brushes = [QBrush(pen.color()) for (x, _), pen in isolated for _ in range(len(x))]
        if brushes:
            x, y = (np.concatenate(columns) for columns in zip(*(each for each, _ in isolated), strict=True))
            self._marks.setData(x, y, brush=brushes)
        self._marks.setVisible(bool(brushes))


def drop_further_gaps(x: Floats, y: Floats, finite: Flags) -> tuple[Floats, Floats]:
    """Drop gaps at the ends, and all of adjacent gaps but one: a path takes long for each. Shape (n,) -> (m,) each."""
    if finite.all():
        return x, y
    kept = finite.copy()
    kept[1:] |= finite[:-1]
    known = np.flatnonzero(finite)
    last = int(known[-1]) + 1 if len(known) else 0
    return x[:last][kept[:last]], y[:last][kept[:last]]


def drop_constant_points(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Drop the inner points of constant stretches, which look the same without them. Shape (n,) -> (m,) each.

    The readings of an idle device are constant for hours.
    """
    if len(y) < 3:
        return x, y
    is_constant = y[1:] == y[:-1]
    kept = np.ones(len(y), dtype=np.bool_)
    np.logical_not(is_constant[1:] & is_constant[:-1], out=kept[1:-1])
    return x[kept], y[kept]


def _short_path(x: Floats, y: Floats) -> QPainterPath:
    path = QPainterPath()
    for index, (px, py) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if index == 0:
            path.moveTo(px, py)
        else:
            path.lineTo(px, py)
    return path
