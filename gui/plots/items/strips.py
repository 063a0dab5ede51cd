"""Strips: a row a device, whose shade is its reading, in columns of equal width."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from core.series.min_max_tree import Floats
from gui.base.theme import current_theme
from gui.plots.items.lines import ViewDrawing

STRIP_SHARE, STRIP_PX = 0.78, 22.0
"""Height of a strip: a share of the distance of the rows, and the most in pixels."""
MARK_PX, GAP_PX = 2.0, 1.0
"""Height of the mark under a strip, and of the gap above it: a mark stands out from the panel, not from every strip."""
SHADES = 64
"""The first colour of the table is that of a gap; after the shades are the panel's and that of the mark."""


def column_width_s(span_s: float, pixels: int) -> float:
    """Return the smallest power of two of seconds with which `span_s` has at most `pixels` columns."""
    return float(2.0 ** np.ceil(np.log2(max(span_s, 1e-3) / max(pixels, 1))))


def shade(share: float) -> QColor:
    """Return the colour of a strip at a share of its scale, from 0 to 1."""
    low, high = (np.array(QColor(colour).getRgb()) for colour in (current_theme().idle, current_theme().busy))
    return QColor(*map(round, (low + share * (high - low)).tolist()))


class HeatStripsItem(ViewDrawing):
    """The strips of a plot from top to bottom; the y axis is the number of rows from the bottom."""

    def __init__(self, plot: pg.PlotItem) -> None:
        super().__init__()
        self.percent: Floats = np.empty((0, 0))
        self.marked: NDArray[np.bool_] = np.empty((0, 0), dtype=np.bool_)
        self._image = QImage()
        self._left, self._column = 0.0, 1.0
        self._colours: list[int] = []
        plot.addItem(self, ignoreBounds=True)

    def recolour(self) -> None:
        """Take the colours of the theme for the next strips."""
        others = QColor(current_theme().panel).rgb(), QColor(current_theme().bad).rgb()
        self._colours = [0, *(shade(number / (SHADES - 1)).rgb() for number in range(SHADES)), *others]

    def show_rows(self, percent: Floats, marked: NDArray[np.bool_], left: float, column: float) -> None:
        """Show strips that begin at the position `left` and whose columns are `column` wide.

        `percent`: the shade of each, NaN is a gap; `marked`: where its device was slowed down; shape (rows, columns).
        """
        self.percent, self.marked, self._left, self._column = percent, marked, left, column
        shades = np.where(np.isfinite(percent), 1 + np.clip(percent, 0, 100) * ((SHADES - 1) / 100), 0)
        levels = np.concatenate([shades, marked * (SHADES + 1), marked * (SHADES + 2)]).astype(np.uint8)
        rows, columns = levels.shape
        image = QImage(levels.tobytes(), columns, rows, columns, QImage.Format.Format_Indexed8)
        image.setColorTable(self._colours)
        self._image = image.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)  # has its own bytes
        self.update()

    def clear(self) -> None:
        """Show nothing."""
        if len(self.percent):
            self.show_rows(self.percent[:0], self.marked[:0], 0.0, 1.0)

    def draw(self, painter: QPainter) -> None:
        """Draw each row of the image as a strip, and the marks over it."""
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        pixel, count, columns = float(self.pixelHeight() or 1.0), len(self.percent), self._image.width()
        height = min(STRIP_SHARE, STRIP_PX * pixel)
        for part, high in enumerate((height, (MARK_PX + GAP_PX) * pixel, MARK_PX * pixel)):
            for row in range(count) if not part or self.marked.any() else ():
                target = QRectF(self._left, count - row - 0.5 - height / 2, columns * self._column, high)
                painter.drawImage(target, self._image, QRectF(0, part * count + row, columns, 1))
