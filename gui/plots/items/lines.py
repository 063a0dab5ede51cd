"""Lines, many lines drawn as one, and bands between two lines."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPen, QPolygonF
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from core.series.min_max_tree import Floats


class Drawing(pg.GraphicsObject):  # type: ignore[misc]  # pyqtgraph ships no types
    """An item of a plot that draws with `draw`."""

    def draw(self, painter: QPainter) -> None:
        """Draw everything."""
        raise NotImplementedError

    def shape(self) -> QPainterPath:
        """Return an empty shape: the mouse reaches what is below."""
        return QPainterPath()

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,  # noqa: ARG002 (as Qt calls it)
        widget: QWidget | None = None,  # noqa: ARG002
    ) -> None:
        """Draw when Qt asks for it."""
        self.draw(painter)


class ViewDrawing(Drawing):
    """Takes up the whole view: to compute the exact bounds at every change would cost more than the drawing."""

    def viewTransformChanged(self) -> None:  # noqa: N802 (pyqtgraph's name)
        """Note that the visible part has changed."""
        self.prepareGeometryChange()
        super().viewTransformChanged()

    def boundingRect(self) -> QRectF:  # noqa: N802 (Qt's name)
        """Return the whole view."""
        return self.viewRect() or QRectF()  # no view before the item is in a plot


NOTHING: Floats = np.empty(0)
MARKS_UP_TO = 50
"""Maximum number of points with a marker each; more would look like a thick line."""
SMOOTH_EDGES_UP_TO = 1500
"""Maximum number of points of a line that is drawn with antialiasing, which is slow."""
MARK_PX = 6


class Shown(Protocol):
    """Anything that shows positions and values, shape (n,) each."""

    x: Floats
    y: Floats

    def clear(self) -> None:
        """Show nothing."""


class _Curve(pg.PlotCurveItem):  # type: ignore[misc]  # pyqtgraph ships no types
    """A curve with precomputed bounds: Qt asks at every change, and pyqtgraph would search all points."""

    ends: tuple[tuple[float | None, float | None], tuple[float | None, float | None]] = ((None, None), (None, None))
    """Minimum and maximum of the positions, and of the finite values; None if there are none."""

    def dataBounds(  # noqa: N802 (pyqtgraph's name)
        self,
        ax: int,
        frac: float = 1.0,  # noqa: ARG002
        orthoRange: tuple[float, float] | None = None,  # noqa: ARG002, N803
    ) -> tuple[float | None, float | None]:
        """Return the bounds along an axis. `frac` and `orthoRange` are never used here."""
        return self.ends[ax]


class LineItem:
    """One curve. A point without neighbours gets a marker to be visible; with `marked`, each point gets one.

    `x` and `y` are the shown points; `y` is the measured value, also on a logarithmic scale.
    """

    def __init__(self, plot: pg.PlotItem, *, depth: int = 0, dashed: bool = False, marked: bool = False) -> None:
        self.x, self.y = NOTHING, NOTHING
        self.width = 1.0
        self._marked = marked
        self._style = Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine
        # Not a PlotDataItem: the series has already scaled and reduced the points.
        self._curve = _Curve()
        self._marks = pg.ScatterPlotItem(size=MARK_PX, pen=None)
        for item in (self._curve, self._marks):
            plot.addItem(item, ignoreBounds=True)
        self.lift(depth)

    def lift(self, depth: int) -> None:
        """Draw the curve above what has a lesser depth."""
        for item in (self._curve, self._marks):
            item.setZValue(depth)

    def paint_in(self, colour: str, width: float = 1.0) -> None:
        """Set the colour, `#rrggbb`, and the width in pixels. One pixel is by far the fastest to draw."""
        self.width = width
        self._curve.setPen(pg.mkPen(colour, width=width, style=self._style))
        # Stroking a wide path takes up to four times as long as its segments, which look the same.
        dashed = self._style is not Qt.PenStyle.SolidLine  # dashes need the whole path
        self._curve.setSegmentedLineMode("auto" if dashed or width <= 1 else "on")
        self._marks.setBrush(pg.mkBrush(colour))

    def show(self, x: Floats, y: Floats, *, logarithmic: bool = False) -> None:
        """Draw `y` over `x`, shape (n,) each; NaN is a gap."""
        self.x, self.y = x, y
        height = np.log10(y) if logarithmic else y
        finite = np.isfinite(height)
        complete = bool(finite.all())
        self._curve.ends = _ends(x, height if complete else height[finite])
        self._curve.setData(
            x,
            height,
            connect="all" if complete else "finite",
            skipFiniteCheck=complete,
            antialias=len(x) <= SMOOTH_EDGES_UP_TO,
        )
        seen = finite if self._marked and len(x) <= MARKS_UP_TO else isolated_points(finite)
        marked = bool(seen.any())
        if marked:
            self._marks.setData(x[seen], height[seen])
        self._marks.setVisible(marked)  # setting and painting no markers would cost as much as the curve

    def clear(self) -> None:
        """Show nothing."""
        if len(self.x):
            self.show(NOTHING, NOTHING)


def _ends(x: Floats, finite: Floats) -> tuple[tuple[float | None, float | None], tuple[float | None, float | None]]:
    """Return minimum and maximum of rising positions and of finite values."""
    if not len(finite):
        return (None, None), (None, None)
    return (float(x[0]), float(x[-1])), (float(finite.min()), float(finite.max()))


def isolated_points(finite: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which points are finite without a finite neighbour, shape (n,) -> (n,)."""
    padded = np.concatenate([[False], finite, [False]])
    found: NDArray[np.bool_] = finite & ~padded[:-2] & ~padded[2:]
    return found


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

    def paint_in(self, colour: str) -> None:
        """Set the colour, `#rrggbb`."""
        self.pen = pg.mkPen(colour, width=1)

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
