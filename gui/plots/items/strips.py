"""Strips: a row a device, whose shade is its reading, in columns of equal width; a band: the parts of a step's time."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from core.diagnosis.step_time import PARTS
from core.language import tr
from core.series.min_max_tree import Floats
from core.series.series import Axis
from core.series.step_times import StepTimes
from gui.base.formatting import percent
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.plots.items.canvas import Canvas
from gui.plots.items.hover import HoverRow
from gui.plots.items.lines import ViewDrawing
from gui.widgets.elided_label import ReadoutLabel
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import named

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
        self._image = _painted(levels, self._colours)
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


def _painted(levels: NDArray[np.uint8], colours: list[int]) -> QImage:
    """Return an image whose dots have these colours, by their numbers, shape (rows, columns)."""
    rows, columns = levels.shape
    image = QImage(levels.tobytes(), columns, rows, columns, QImage.Format.Format_Indexed8)
    image.setColorTable(colours)
    return image.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)  # has its own bytes


BAND_PX, BELOW_PX, COLUMN_PX = 16, 3, 3
"""Height of a band, its distance to the words below it, and the width of its columns."""
PART_COLOURS = (1, 4, 0, 2, 3, 5)
"""The parts of a step have the colours of the first devices, which are easy to distinguish."""
LEAST_SHARES = (0.005, 0.03, 0.06, 0.12, 0.24)
"""Least shares that have words: the smallest for which there is room."""


class StepBand(QWidget):
    """The parts of the time of a step, along the x axis of the canvas above it; and their means there, in words."""

    def __init__(self, canvas: Canvas) -> None:
        super().__init__()
        named(self, "stepBand", tr("Where the time of a step goes"))
        self._canvas, self._image, self.legend = canvas, QImage(), ReadoutLabel()
        vbox(self, scaled(BAND_PX) + BELOW_PX, self.legend)

    def show_times(self, times: StepTimes, axis: Axis) -> None:
        """Show what was measured over the visible range."""
        colours = [*map(current_theme().device_colour, PART_COLOURS), current_theme().idle]
        span, width = self._canvas.x_range, int(self._canvas.view.width())
        shares = times.shares(axis, *span, max(width // COLUMN_PX, 1))
        heights = 1.0 - (np.arange(scaled(BAND_PX))[:, None] + 0.5) / scaled(BAND_PX)  # from top to bottom
        levels = (np.cumsum(shares, axis=0)[:-1, None] < heights).sum(axis=0)
        levels[:, np.isnan(shares[0])] = len(colours)
        self._image = _painted(levels.astype(np.uint8), [*(QColor(each).rgb() for each in colours), 0])
        means = times.shares(axis, *span, 1)[:, 0].tolist()
        rows = [HoverRow(label=name, value=percent(100 * share), colour=colour)
                for name, share, colour in zip((*map(tr, PARTS), tr("rest")), means, colours, strict=True)]
        forms = [[row for row, share in zip(rows, means, strict=True) if share >= least] for least in LEAST_SHARES]
        self.legend.show_forms([[row.spans() for row in form] for form in forms])
        self.setAccessibleDescription(", ".join(row.text for row in forms[0]))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the band below the area of the canvas."""
        view = self._canvas.mapFromScene(self._canvas.view.sceneBoundingRect()).boundingRect()
        QPainter(self).drawImage(QRectF(view.left(), 0, view.width(), scaled(BAND_PX)), self._image)
