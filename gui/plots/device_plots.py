"""Plots with one line per device: utilisation and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from core.units import BYTES_PER_GB
from gui.plots.items.end_mark import HEIGHT_PX
from gui.plots.items.hover import HoverReading, HoverRow
from gui.plots.items.multi_line import LineData, MultiLineItem
from gui.style.formatting import clock

from .base import Plot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.series.run_series import RunSeries
    from core.series.series import Series
    from gui.style.theme import Theme

    from .base import Span

READOUTS_UP_TO = 4
"""Maximum number of devices whose newest values fit beside the title."""


class DevicePlot(Plot):
    """Readings of the devices over the time of the run, one colour per device."""

    no_data_yet = "No readings yet"
    scale = 1.0
    """Divisor of a reading."""

    def __init__(self, *, name: str, title: str, theme: Theme) -> None:
        super().__init__(name=name, title=title, theme=theme)
        self._multi_line = MultiLineItem(self.canvas.getPlotItem())
        self.set_theme(theme)

    def readings(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return the readings to draw, by device id."""
        raise NotImplementedError

    def format_reading(self, value: float) -> str:
        """Return a scaled reading with its unit."""
        raise NotImplementedError

    def lines(self) -> dict[str, LineData]:
        """Return the lines by device id."""
        return self._multi_line.lines

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the time and the nearest reading of each device."""
        if self.run_series is None or not self._has_data(self.run_series):
            return None
        axis = self.axis(self.run_series)
        points = {device: series.nearest(axis, x) for device, series in self._ordered(self.run_series).items()}
        found = {device: point for device, point in points.items() if point is not None}
        times = [point.time - axis.origin for point in found.values()]
        at = min(times, key=lambda time: abs(time - x))
        rows = (self._row(device, point.value) for device, point in found.items())
        return HoverReading(x=at, rows=(HoverRow(label=clock(at)), *rows))

    def _ordered(self, run_series: RunSeries) -> dict[str, Series]:
        """Return the readings in the order of the device list, those of devices that are not in it last."""
        readings = self.readings(run_series)
        listed = [device for device in self.colours if device in readings]
        return {device: readings[device] for device in [*listed, *(each for each in readings if each not in listed)]}

    def measured(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return the readings of each device, by its label and id."""
        return {f"{self.labels.get(each, each)} {each}": series for each, series in self.readings(run_series).items()}

    def _has_data(self, run_series: RunSeries) -> bool:
        return any(series.min is not None for series in self.readings(run_series).values())

    def _draw(self, run_series: RunSeries, span: Span, pixels: int) -> None:
        shown = self._ordered(run_series)
        self._match_lines(shown)
        axis = self.axis(run_series)
        for device, series in shown.items():
            x, y = series.view(axis, *span, pixels)
            self.lines()[device].show(x, y if self.scale == 1 else y / self.scale)
        self._multi_line.refresh()

    def _match_lines(self, shown: Mapping[str, Series]) -> None:
        """Create a line for each shown device and delete the others."""
        lines = self.lines()
        for device in [device for device in lines if device not in shown]:
            del lines[device]
        for device in shown:
            if device not in lines:
                lines[device] = LineData()
                lines[device].paint_in(self._colour(device))

    def _apply_theme(self, theme: Theme) -> None:  # noqa: ARG002 (`_colour` reads self.theme)
        for device, line in self.lines().items():
            line.paint_in(self._colour(device))
        self._multi_line.refresh()

    def _colour(self, device: str) -> str:
        place = (
            list(self.readings(self.run_series)).index(device)
            if self.run_series and device in self.readings(self.run_series)
            else 0
        )
        return self.colours.get(device) or self.theme.device_colour(place)

    def _row(self, device: str, value: float | None) -> HoverRow:
        reading = self.format_reading(value / self.scale) if value is not None and np.isfinite(value) else "\u2013"
        return HoverRow(label=self.labels.get(device, device), value=reading, colour=self._colour(device))

    def _readout(self, run_series: RunSeries) -> list[HoverRow]:
        shown = self._ordered(run_series)
        if len(shown) > READOUTS_UP_TO:
            return []
        return [self._row(device, series.last) for device, series in shown.items()]


class UtilisationPlot(DevicePlot):
    """Percent over time. The y axis always shows 0 to 100, so that an idle device looks idle."""

    unit = "%"

    def readings(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return percent by device id."""
        return run_series.utilisation

    def format_reading(self, value: float) -> str:
        """Return `82 %`."""
        return f"{value:.0f}\u2009%"

    def _y_span(self) -> Span:
        return -2.0, 104.0  # so that a line at 0 or at 100 is fully visible


class MemoryPlot(DevicePlot):
    """Gigabytes over time, from 0. A label marks the end of training, after which the memory is released."""

    no_data_yet = "No readings yet (CPU devices are read while a run uses them)"
    unit = "GB"
    labels_end = True
    scale = float(BYTES_PER_GB)

    def readings(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return bytes by device id."""
        return run_series.memory

    def format_reading(self, value: float) -> str:
        """Return `9.1 GB`."""
        return f"{value:.1f} GB" if value >= 1 else f"{value:.2f} GB"

    def _y_span(self) -> Span:
        top = max((line.highest for line in self.lines().values() if line.highest is not None), default=0.0)
        room = HEIGHT_PX / max(self.canvas.view.height(), 2 * HEIGHT_PX)
        return -0.02 * top, max(top / (1 - room), 0.1)
