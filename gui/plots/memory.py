"""How much memory is in use on each device, and when training ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt

from gui.units import BYTES_PER_GB

from .device_plot import DevicePlot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.book import SeriesBook
    from core.series import Series
    from gui.theme import Theme

    from .base import Span


LABEL_HEIGHT_PX = 24  # kept free above the lines, for the words "training ended"


class MemoryPlot(DevicePlot):
    """Gigabytes over time, from 0; the end of training is marked, since what follows it is the point."""

    nothing_yet = "No readings yet: a CPU device has them while a run is on it"
    unit = "GB"
    scale = float(BYTES_PER_GB)

    def __init__(self, *, name: str, title: str, theme: Theme) -> None:
        self.end_line = pg.InfiniteLine(angle=90, movable=False)
        self.end_label = pg.TextItem("training ended", anchor=(1, 0))
        super().__init__(name=name, title=title, theme=theme)
        for item in (self.end_line, self.end_label):
            item.setZValue(10)
            item.hide()
            self.canvas.addItem(item, ignoreBounds=True)

    def series(self, book: SeriesBook) -> Mapping[str, Series]:
        """Bytes, by device id."""
        return book.memory

    def say(self, value: float) -> str:
        """`9.1 GB`."""
        return f"{value:.1f} GB" if value >= 1 else f"{value:.2f} GB"

    def _y_span(self) -> Span:
        highest = [float(np.nanmax(line.y)) for line in self._lines.values() if np.isfinite(line.y).any()]
        top = max(highest, default=0.0)
        room = LABEL_HEIGHT_PX / max(self.canvas.view.height(), 2 * LABEL_HEIGHT_PX)
        return -0.02 * top, max(top / (1 - room), 0.1)

    def _draw(self, book: SeriesBook, span: Span, pixels: int) -> None:
        super()._draw(book, span, pixels)
        ended = book.training_ended
        for item in (self.end_line, self.end_label):
            item.setVisible(ended is not None)
        if ended is not None:
            self.end_line.setValue(ended - self.axis(book).origin)

    def _fit_y(self) -> None:
        super()._fit_y()
        self.end_label.setPos(self.end_line.value(), self.canvas.view.viewRange()[1][1])

    def _wear(self, theme: Theme) -> None:
        super()._wear(theme)
        self.end_line.setPen(pg.mkPen(theme.muted, style=Qt.PenStyle.DashLine))
        self.end_label.setColor(theme.muted)
