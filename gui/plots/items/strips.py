"""Strips: a row a device, whose shade is its reading. Readings are folded into columns of equal width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from core.series.device_readings import DeviceSeries
from core.series.min_max_tree import Floats
from gui.base.theme import current_theme
from gui.plots.items.lines import NOTHING, Flags, ViewDrawing

HELD_PERIODS = 3.0
"""A reading holds on for this many of the usual times between two readings; after that there is none."""
RECENT = 64
"""Readings from which the usual time between two is taken."""
STRIP_SHARE, STRIP_PX = 0.78, 22.0
"""Height of a strip: a share of the distance of the rows, and the most in pixels."""
MARK_PX, GAP_PX = 2.0, 1.0
"""Height of the mark under a strip, and of the gap above it: a mark stands out from the panel, not from every strip."""
LEVELS = 256
BGRA = (2, 1, 0, 3)
"""The order in which Qt keeps red, green, blue and opacity."""


class StripFold:
    """Means of one device's readings in columns of equal width.

    Column n covers the unix times from n * width on, whatever is shown, so that a new reading changes the last
    columns only and the others are kept.
    """

    def __init__(self) -> None:
        self.folded = 0
        """Number of columns computed by the last `fold`."""
        self._series: DeviceSeries | None = None
        self._grid = (0.0, 0)
        self._means = NOTHING
        self._complete = 0
        """Columns at the beginning that no later reading can change."""

    def fold(self, series: DeviceSeries, width_s: float, first: int, count: int) -> Floats:
        """Return the means of `count` columns from number `first` on, shape (count,); NaN is a gap."""
        passed = first - self._grid[1]  # the present moves on over the same columns
        if series is not self._series or self._grid[0] != width_s or not 0 <= passed <= self._complete:
            passed = self._complete = 0
        self._series, self._grid, self._means = series, (width_s, first), self._means[passed:]
        kept = min(self._complete - passed, count)
        borders = (first + np.arange(kept, count + 1, dtype=np.float64)) * width_s
        self.folded = count - kept
        self._means = np.concatenate([self._means[:kept], series.held_means(borders, held_s(series.times))])
        newest = float(series.times[-1]) if len(series) else 0.0
        self._complete = int(min(max(newest // width_s - first, 0), count))
        return self._means


def held_s(times: Floats) -> float:
    """Return how many seconds a reading holds on where readings have these times."""
    distances = np.sort(np.diff(times[-RECENT:]))  # numpy's median would import masked arrays first: 15 ms
    usual = float(distances[len(distances) // 2]) if len(distances) else 0.0
    return HELD_PERIODS * max(usual, 1.0)


def column_width_s(span_s: float, pixels: int) -> float:
    """Return the smallest power of two of seconds with which `span_s` has at most `pixels` columns."""
    return float(2.0 ** np.ceil(np.log2(max(span_s, 1e-3) / max(pixels, 1))))


@dataclass(slots=True, kw_only=True)
class StripRow:
    """One strip."""

    percent: Floats
    """The shade of each column, from 0 to 100, shape (columns,); NaN is a gap."""
    marked: Flags | None = None
    """In which columns the device was slowed down; None: in none."""


class HeatStripsItem(ViewDrawing):
    """The strips of a plot from top to bottom; the y axis is the number of rows from the bottom."""

    def __init__(self, plot: pg.PlotItem) -> None:
        super().__init__()
        self.rows: list[StripRow] = []
        self._image = QImage()
        self._left, self._column = 0.0, 1.0
        self._colours = np.zeros((LEVELS, 4), dtype=np.uint8)
        self._mark = QColor()
        self._gap = QColor()
        plot.addItem(self, ignoreBounds=True)

    def recolour(self) -> None:
        """Take the colours of the theme."""
        theme = current_theme()
        ends = np.array([QColor(colour).getRgb() for colour in (theme.idle, theme.busy)], dtype=np.float64)
        share = np.linspace(0, 1, LEVELS)[:, None]
        self._colours = np.round(ends[0] + share * (ends[1] - ends[0])).astype(np.uint8)[:, list(BGRA)]
        self._mark = QColor(theme.bad)
        self._gap = QColor(theme.panel)

    def show_rows(self, rows: list[StripRow], left: float, column: float) -> None:
        """Show strips that begin at the position `left` and whose columns are `column` wide."""
        self.rows, self._left, self._column = rows, left, column
        self._image = _image([row.percent for row in rows], self._colours)
        self.update()

    def clear(self) -> None:
        """Show nothing."""
        if self.rows:
            self.show_rows([], 0.0, 1.0)

    def draw(self, painter: QPainter) -> None:
        """Draw each row of the image as a strip, and the marks over it."""
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        pixel = float(self.pixelHeight() or 1.0)
        height = min(STRIP_SHARE, STRIP_PX * pixel)
        columns = self._image.width()
        for number, row in enumerate(self.rows):
            bottom = len(self.rows) - number - 0.5 - height / 2
            target = QRectF(self._left, bottom, columns * self._column, height)
            painter.drawImage(target, self._image, QRectF(0, number, columns, 1))
            if row.marked is not None:
                for begin, end in _stretches(row.marked):
                    left, width = self._left + begin * self._column, (end - begin) * self._column
                    painter.fillRect(QRectF(left, bottom, width, (MARK_PX + GAP_PX) * pixel), self._gap)
                    painter.fillRect(QRectF(left, bottom, width, MARK_PX * pixel), self._mark)


def _stretches(marked: Flags) -> list[tuple[int, int]]:
    """Return the beginnings and the ends of the marked stretches."""
    edges = np.flatnonzero(np.diff(marked.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _image(rows: Sequence[Floats], colours: NDArray[np.uint8]) -> QImage:
    """Return an image with one pixel a column and row; gaps are transparent."""
    if not rows:
        return QImage()
    percent = np.stack(rows)
    known = np.isfinite(percent)
    levels = np.clip(np.where(known, percent, 0.0) * ((LEVELS - 1) / 100), 0, LEVELS - 1).astype(np.intp)
    pixels = colours[levels]
    pixels[..., 3] = np.where(known, 255, 0)
    height, width = percent.shape
    return QImage(pixels.tobytes(), width, height, 4 * width, QImage.Format.Format_ARGB32).copy()
