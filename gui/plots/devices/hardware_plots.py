"""Plots that are shown on request: temperature, power and clock of the GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyqtgraph as pg

from core.language import tr
from core.series.run_series import RunSeries
from core.series.series import Series
from gui.plots.card import Span
from gui.plots.items.hover import HoverReading, HoverRow
from gui.style.formatting import number
from gui.style.theme import current_theme

from .device_plots import DevicePlot
from .slowdowns import Slowdowns

MARK_PX = 5
"""Width of the mark below a line where its device was slowed down."""


class HardwarePlot(DevicePlot):
    """Readings that only GPUs have. A wide line in the colour of errors lies below where a device was slowed down."""

    min_height_px = 130
    least_bottom: ClassVar[float] = 0.0
    least_top: ClassVar[float]
    """The y axis reaches at least from the one to the other."""

    def __init__(self, *, name: str, title: str) -> None:
        self._slowdowns = Slowdowns()
        super().__init__(name=name, title=title)

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the readings, and below them why devices were slowed down then."""
        reading = super().reading_at(x)
        if reading is None or self.run_series is None:
            return reading
        at = self.axis(self.run_series).locate(reading.x)
        slow = [
            HoverRow(
                label=tr(
                    "{label} slowed down: {reasons}",
                    label=self.labels.get(device, device),
                    reasons=tr(", ").join(map(tr, each.words)),
                ),
                colour=current_theme().bad,
            )
            for device in self.shown(self.run_series)
            for each in self.run_series.slowdowns.get(device, ())
            if each.since <= at <= each.until
        ]
        return HoverReading(x=reading.x, rows=(*reading.rows, *slow))

    def _empty_text(self) -> str:
        devices = self.run_series.utilisation if self.run_series is not None else {}
        if devices and all(device.startswith("cpu:") for device in devices):
            return tr("Only NVIDIA GPUs have these readings.")
        return super()._empty_text()

    def _draw(self, run_series: RunSeries, span: Span, pixels: int) -> None:
        super()._draw(run_series, span, pixels)
        axis = self.axis(run_series)
        column_s = (axis.locate(span[1]) - axis.locate(span[0])) / pixels
        for device, line in self.lines().items():
            if slowed := self._slowdowns.of(run_series, device):
                line.show(line.x, line.y, slowed.at(axis.locate_all(line.x), column_s))

    def _recolour_lines(self) -> None:
        self._multi_line.mark_pen = pg.mkPen(current_theme().bad, width=MARK_PX)
        super()._recolour_lines()

    def _y_span(self) -> Span:
        found = [line.y[np.isfinite(line.y)] for line in self.lines().values()]
        bottom = min((float(y.min()) for y in found if len(y)), default=self.least_bottom)
        top = max((float(y.max()) for y in found if len(y)), default=self.least_top)
        return min(bottom, self.least_bottom), max(1.06 * top, self.least_top)


class TemperaturePlot(HardwarePlot):
    """Degrees Celsius over time."""

    unit = "°C"
    least_bottom = 20.0
    least_top = 100.0

    def readings(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return degrees Celsius by device id."""
        return run_series.temperature

    def format_reading(self, value: float) -> str:
        """Return `67 °C`."""
        return f"{value:.0f} °C"


class PowerPlot(HardwarePlot):
    """Watts over time."""

    unit = "W"
    least_top = 50.0

    def readings(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return watts by device id."""
        return run_series.power

    def format_reading(self, value: float) -> str:
        """Return `402 W`."""
        return f"{value:.0f} W"


class ClockPlot(HardwarePlot):
    """Megahertz of the multiprocessors over time."""

    unit = "MHz"
    least_top = 500.0

    def readings(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return megahertz by device id."""
        return run_series.clock

    def format_reading(self, value: float) -> str:
        """Return `1 980 MHz`."""
        return f"{number(value, 1)} MHz"
