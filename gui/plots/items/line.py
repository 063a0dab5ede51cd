"""A line of a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from core.series.min_max_tree import Floats

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
        self._marked = marked
        self._style = Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine
        # Not a PlotDataItem: the series has already scaled and reduced the points.
        self._curve = _Curve()
        self._marks = pg.ScatterPlotItem(size=MARK_PX, pen=None)
        for item in (self._curve, self._marks):
            item.setZValue(depth)
            plot.addItem(item, ignoreBounds=True)

    def paint_in(self, colour: str, width: float = 1.0) -> None:
        """Set the colour, `#rrggbb`, and the width in pixels. One pixel is by far the fastest to draw."""
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
