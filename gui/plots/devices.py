"""The plots of device readings over time: memory, temperature, power and clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyqtgraph as pg

from core.devices.device import own_id
from core.language import tr
from core.series.device_readings import DeviceSeries, Slowdown
from core.series.min_max_tree import Floats
from core.series.run_series import RunSeries
from core.series.series import Series
from core.text import BYTES_PER_GB
from gui.base.colours import faint
from gui.base.formatting import DASH, clock, number
from gui.base.theme import current_theme
from gui.plots.card import Span
from gui.plots.items.canvas import TOP_MARGIN_PX
from gui.plots.items.hover import HoverReading, HoverRow
from gui.plots.items.lines import NOTHING, Flags, LineData, MultiLineItem
from gui.plots.items.margin_labels import MarginLabel, MarginLabels
from gui.plots.run_plot import Plot


class SlowdownTimes:
    """The slowdowns of one device, in order of time."""

    def __init__(self) -> None:
        self._known: tuple[object, ...] = ()
        self._since, self._until = NOTHING, NOTHING

    def update(self, slowdowns: Sequence[Slowdown]) -> None:
        """Take these slowdowns; of the same list, only the last may have become longer since the last call."""
        known = (id(slowdowns), len(slowdowns), slowdowns[0].since, slowdowns[-1].until)
        if known != self._known:
            self._known = known
            self._since = np.array([each.since for each in slowdowns])
            self._until = np.array([each.until for each in slowdowns])

    def at(self, times: Floats, slack_s: float = 0.0) -> Flags:
        """Return which of these unix times are in a slowdown, or nearer to one than the slack."""
        last = np.searchsorted(self._since - slack_s, times, side="right") - 1
        found: Flags = (last >= 0) & (times <= self._until[np.maximum(last, 0)] + slack_s)
        return found

    def columns(self, width_s: float, first: int, count: int) -> Flags:
        """Return which columns have a slowdown; column n covers the unix times from n * width on."""
        begin = np.clip(np.floor_divide(self._since, width_s) - first, 0, count).astype(np.intp)
        end = np.clip(np.floor_divide(self._until, width_s) - first + 1, 0, count).astype(np.intp)
        changes = np.bincount(begin, minlength=count + 1) - np.bincount(end, minlength=count + 1)
        found: Flags = np.cumsum(changes)[:count] > 0
        return found


READOUTS_UP_TO = 4
"""Maximum number of devices whose newest values fit beside the title."""
CPU_PREFIX = "cpu:"
NO_DEVICES: frozenset[str] = frozenset()


class DevicePlot(Plot):
    """Readings of the devices over the time of the run, one colour per device, with its name at the end of its line.

    While the present readings are shown, devices that are not ticked are faint. CPU devices beside GPUs of the same
    machine are left out, and the devices of hosts that are folded.
    """

    quantity: ClassVar[str]
    """What it draws: the attribute of `RunSeries` that has the readings."""
    scale = 1.0
    """Divisor of a reading."""

    def __init__(self, *, name: str, title: str) -> None:
        super().__init__(name=name, title=title)
        self._ticked: frozenset[str] | None = None
        self._folded: frozenset[str] = NO_DEVICES
        self._slowdowns: dict[str, SlowdownTimes] = {}
        self._multi_line = MultiLineItem(self.canvas.getPlotItem())
        self.margin = MarginLabels(self.canvas)
        self.recolour()

    def readings(self, run_series: RunSeries) -> Mapping[str, DeviceSeries]:
        """Return the readings to draw, by device id."""
        found: Mapping[str, DeviceSeries] = getattr(run_series, self.quantity)
        return found

    def format_reading(self, value: float) -> str:
        """Return a scaled reading with its unit."""
        return f"{value:.0f} {self.unit}"

    def emphasise(self, devices: Collection[str] | None, folded: Collection[str] = NO_DEVICES) -> None:
        """Draw the other devices faintly; None, or no device, draws all alike. None also draws all that are left out.

        `folded`: devices that are not drawn unless they are ticked.
        """
        chosen = None if devices is None else frozenset(devices), frozenset(folded)
        if chosen != (self._ticked, self._folded):
            self._ticked, self._folded = chosen
            self._recolour_lines()
            self.invalidate()

    def lines(self) -> dict[str, LineData]:
        """Return the lines by device id."""
        return self._multi_line.lines

    def shown(self, run_series: RunSeries) -> dict[str, DeviceSeries]:
        """Return the readings in the order of the device list, those of devices that are not in it last."""
        readings = self.readings(run_series)
        listed = [device for device in self.colours if device in readings]
        ordered = [*listed, *(device for device in readings if device not in self.colours)]
        if self._ticked is not None:
            left_out = self._folded | _cpus_beside_gpus(ordered)
            ordered = [each for each in ordered if each not in left_out or each in self._ticked]
        return {device: readings[device] for device in ordered}

    def slowdowns(self, run_series: RunSeries, device: str) -> SlowdownTimes | None:
        """Return the slowdowns of a device; None if it had none."""
        found = run_series.slowdowns.get(device)
        if not found:
            return None
        times = self._slowdowns.setdefault(device, SlowdownTimes())
        times.update(found)
        return times

    def is_faint(self, device: str) -> bool:
        """Return whether other devices are ticked and this one is not."""
        return bool(self._ticked) and device not in (self._ticked or ())

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the time and the nearest reading of each device, those that are not faint first."""
        if self.run_series is None or not self.is_filled():
            return None
        axis = self.axis(self.run_series)
        points = {device: series.nearest(axis, x) for device, series in self.shown(self.run_series).items()}
        found = {device: point for device, point in points.items() if point is not None}
        times = [point.time - axis.origin for point in found.values()]
        at = min(times, key=lambda time: abs(time - x))
        rows = (self._row(device, found[device].value) for device in sorted(found, key=self.is_faint))
        return HoverReading(x=at, rows=(HoverRow(label=clock(at)), *rows))

    def measured(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return the readings of each device, by its label and id."""
        return {f"{self.labels.get(each, each)} {each}": series for each, series in self.readings(run_series).items()}

    def is_filled(self) -> bool:
        """Return whether the run has a reading."""
        run_series = self.run_series
        return run_series is not None and any(each.min is not None for each in self.shown(run_series).values())

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Draw a line for each device."""
        shown, axis = self.shown(self._shown), self.axis(self._shown)
        self._match_lines(shown)
        for device, series in shown.items():
            x, y = series.view(axis, *span, pixels)
            self.lines()[device].show(x, y if self.scale == 1 else y / self.scale)
        self._multi_line.refresh()
        super().draw_lines(span, pixels)

    def _match_lines(self, shown: Mapping[str, DeviceSeries]) -> None:
        """Create a line for each shown device and delete the others."""
        lines = self.lines()
        for device in [device for device in lines if device not in shown]:
            del lines[device]
        for device in shown:
            if device not in lines:
                lines[device] = LineData()
                self._paint(device, lines[device])

    def _describe(self, values: Mapping[str, float | None]) -> None:
        """Describe the value of each device for a screen reader."""
        text = ", ".join(self._row(device, value).text for device, value in values.items())
        if text != self.canvas.accessibleDescription():
            self.canvas.setAccessibleDescription(text)

    def place_marks(self) -> None:
        """Name the devices at the ends of their lines."""
        super().place_marks()
        shown, (_, right) = self.shown(self._shown), self.canvas.x_range
        self._describe({device: series.last for device, series in shown.items()})
        ends = {device: line.value_before(right) for device, line in self.lines().items()}
        order = [device for device in sorted(shown, key=self.is_faint) if device in ends]
        labels = [self._label(device, value) for device in order if (value := ends[device]) is not None]
        self.margin.show_labels((), labels if len(labels) > 1 else (), spread=True)

    def _label(self, device: str, y: float) -> MarginLabel:
        name, colour = self.labels.get(device, device), self._colour(device)
        return MarginLabel(y=y, text=name, colour=colour, strong=not self.is_faint(device))

    def _recolour_lines(self) -> None:
        self.margin.recolour()
        self.margin.make_room(self.labels.values())
        self.canvas.getPlotItem().setContentsMargins(0, TOP_MARGIN_PX, self.margin.width_px, 0)
        for device, line in self.lines().items():
            self._paint(device, line)
        self._multi_line.refresh()

    def _paint(self, device: str, line: LineData) -> None:
        line.faint = self.is_faint(device)
        line.paint_in(self._colour(device))

    def _colour(self, device: str) -> str:
        colour = self.colours.get(device)
        if colour is None:
            known = list(self.readings(self.run_series)) if self.run_series else []
            colour = current_theme().device_colour(known.index(device) if device in known else 0)
        return faint(colour, current_theme()) if self.is_faint(device) else colour

    def _row(self, device: str, value: float | None) -> HoverRow:
        reading = self.format_reading(value / self.scale) if value is not None and np.isfinite(value) else DASH
        return HoverRow(label=self.labels.get(device, device), value=reading, colour=self._colour(device))

    def readout(self) -> list[HoverRow]:
        """Return the newest values, for the heading."""
        shown = self.shown(self._shown)
        if len(shown) > READOUTS_UP_TO:
            return []
        return [self._row(device, series.last) for device, series in shown.items()]


def _cpus_beside_gpus(devices: Sequence[str]) -> frozenset[str]:
    """Return the ids of the CPU devices of machines that have a GPU."""
    own = {device: own_id(device) for device in devices}
    cpus = {device for device, each in own.items() if each.startswith(CPU_PREFIX)}
    with_gpus = {device.removesuffix(each) for device, each in own.items() if device not in cpus}
    return frozenset(device for device in cpus if device.removesuffix(own[device]) in with_gpus)


class MemoryPlot(DevicePlot):
    """Gigabytes over time, from 0. A label marks the end of training, after which the memory is released."""

    quantity, unit = "memory", "GB"
    labels_end = True
    scale = float(BYTES_PER_GB)

    def format_reading(self, value: float) -> str:
        """Return `9.1 GB`."""
        return f"{value:.1f} GB" if value >= 1 else f"{value:.2f} GB"

    def _y_span(self) -> Span:
        top = max((line.highest for line in self.lines().values() if line.highest is not None), default=0.0)
        room = self.end.room_px / max(self.canvas.view.height(), 1.0)
        return -0.02 * top, max(top / (1 - room), 0.1)


MARK_PX = 5
"""Width of the mark below a line where its device was slowed down."""


class HardwarePlot(DevicePlot):
    """Readings that only GPUs have. A wide line in the colour of errors lies below where a device was slowed down."""

    min_height_px = 130
    least_bottom: ClassVar[float] = 0.0
    least_top: ClassVar[float]
    """The y axis reaches at least from the one to the other."""

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the readings, and below them why devices were slowed down then."""
        reading = super().reading_at(x)
        if reading is None or self.run_series is None:
            return reading
        at, slow = self.axis(self.run_series).locate(reading.x), []
        for device in self.shown(self.run_series):
            label = self.labels.get(device, device)
            for each in self.run_series.slowdowns.get(device, ()):
                if each.since <= at <= each.until:
                    reasons = tr(", ").join(map(tr, each.words))
                    text = tr("{label} slowed down: {reasons}", label=label, reasons=reasons)
                    slow.append(HoverRow(label=text, colour=current_theme().bad))
        return HoverReading(x=reading.x, rows=(*reading.rows, *slow))

    def _empty_text(self) -> str:
        devices = self.run_series.utilisation if self.run_series is not None else {}
        if devices and all(device.startswith("cpu:") for device in devices):
            return tr("Only NVIDIA GPUs have these readings.")
        return super()._empty_text()

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Also mark where devices were slowed down."""
        super().draw_lines(span, pixels)
        axis = self.axis(self._shown)
        column_s = (axis.locate(span[1]) - axis.locate(span[0])) / pixels
        for device, line in self.lines().items():
            if slowed := self.slowdowns(self._shown, device):
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

    quantity, unit = "temperature", "°C"
    least_bottom = 20.0
    least_top = 100.0


class PowerPlot(HardwarePlot):
    """Watts over time."""

    quantity, unit = "power", "W"
    least_top = 50.0


class ClockPlot(HardwarePlot):
    """Megahertz of the multiprocessors over time."""

    quantity, unit = "clock", "MHz"
    least_top = 500.0

    def format_reading(self, value: float) -> str:
        """Return `1 980 MHz`."""
        return f"{number(value, 1)} MHz"
