"""How much memory is in use on each device, and when training ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.units import BYTES_PER_GB
from gui.plots.items.end_mark import HEIGHT_PX

from .device_plot import DevicePlot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.series.run_series import RunSeries
    from core.series.series import Series

    from .base import Span


class MemoryPlot(DevicePlot):
    """Gigabytes over time, from 0; the end of training is marked, since what follows it is the point."""

    nothing_yet = "No readings yet: a CPU device has them while a run is on it"
    unit = "GB"
    tells_end = True
    scale = float(BYTES_PER_GB)

    def series(self, book: RunSeries) -> Mapping[str, Series]:
        """Bytes, by device id."""
        return book.memory

    def say(self, value: float) -> str:
        """`9.1 GB`."""
        return f"{value:.1f} GB" if value >= 1 else f"{value:.2f} GB"

    def _y_span(self) -> Span:
        top = max((line.highest for line in self.lines().values() if line.highest is not None), default=0.0)
        room = HEIGHT_PX / max(self.canvas.view.height(), 2 * HEIGHT_PX)
        return -0.02 * top, max(top / (1 - room), 0.1)
