"""What the plots with one line for each device share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gui.plots.items.bundle import LineData, MultiLineItem
from gui.plots.items.hover import HoverReading, HoverRow
from gui.style.formatting import clock

from .base import Plot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.series.run_series import RunSeries
    from core.series.series import Series
    from gui.style.theme import Theme

    from .base import Span

READOUTS_UP_TO = 4
"""Devices whose newest values have room beside the title."""


class DevicePlot(Plot):
    """Readings of the devices over the time of the run, one colour a device."""

    nothing_yet = "No readings yet"
    scale = 1.0
    """What a reading is divided by."""

    def __init__(self, *, name: str, title: str, theme: Theme) -> None:
        super().__init__(name=name, title=title, theme=theme)
        self._bundle = MultiLineItem(self.canvas.getPlotItem())
        self.set_theme(theme)

    def series(self, book: RunSeries) -> Mapping[str, Series]:
        """The readings to draw, by device id."""
        raise NotImplementedError

    def say(self, value: float) -> str:
        """A scaled reading as text, with its unit."""
        raise NotImplementedError

    def lines(self) -> dict[str, LineData]:
        """The lines, by device id."""
        return self._bundle.strands

    def read(self, x: float) -> HoverReading | None:
        """The time, and each device's reading nearest to it."""
        if self.book is None or not self._has_something(self.book):
            return None
        axis = self.axis(self.book)
        points = {device: series.nearest(axis, x) for device, series in self.series(self.book).items()}
        found = {device: point for device, point in points.items() if point is not None}
        times = [point.time - axis.origin for point in found.values()]
        at = min(times, key=lambda time: abs(time - x))
        rows = (self._row(device, point.value) for device, point in found.items())
        return HoverReading(x=at, rows=(HoverRow(label=clock(at)), *rows))

    def _has_something(self, book: RunSeries) -> bool:
        return any(series.min is not None for series in self.series(book).values())

    def _draw(self, book: RunSeries, span: Span, pixels: int) -> None:
        shown = self.series(book)
        self._match_lines(shown)
        axis = self.axis(book)
        for device, series in shown.items():
            x, y = series.view(axis, *span, pixels)
            self.lines()[device].show(x, y if self.scale == 1 else y / self.scale)
        self._bundle.refresh()

    def _match_lines(self, shown: Mapping[str, Series]) -> None:
        """Have a line for every device that is shown, and no other."""
        lines = self.lines()
        for device in [device for device in lines if device not in shown]:
            del lines[device]
        for device in shown:
            if device not in lines:
                lines[device] = LineData()
                lines[device].paint_in(self._colour(device))

    def _wear(self, theme: Theme) -> None:  # noqa: ARG002 (the colours may be the window's own)
        for device, line in self.lines().items():
            line.paint_in(self._colour(device))
        self._bundle.refresh()

    def _colour(self, device: str) -> str:
        place = list(self.series(self.book)).index(device) if self.book and device in self.series(self.book) else 0
        return self.colours.get(device) or self.theme.device_colour(place)

    def _row(self, device: str, value: float | None) -> HoverRow:
        reading = self.say(value / self.scale) if value is not None and np.isfinite(value) else "\u2013"
        return HoverRow(label=self.labels.get(device, device), value=reading, colour=self._colour(device))

    def _readout(self, book: RunSeries) -> list[HoverRow]:
        shown = self.series(book)
        if len(shown) > READOUTS_UP_TO:
            return []
        return [self._row(device, series.last) for device, series in shown.items()]
