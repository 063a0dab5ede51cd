"""How busy each device is, in percent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .device_plot import DevicePlot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.series.run_series import RunSeries
    from core.series.series import Series

    from .base import Span


class UtilisationPlot(DevicePlot):
    """Percent over time, always from 0 to 100, so that idle looks idle."""

    unit = "%"

    def series(self, book: RunSeries) -> Mapping[str, Series]:
        """Percent, by device id."""
        return book.utilisation

    def say(self, value: float) -> str:
        """`82 %`."""
        return f"{value:.0f}\u2009%"

    def _y_span(self) -> Span:
        return -2.0, 104.0  # the line at 0 or at 100 is seen whole
