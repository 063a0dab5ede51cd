"""The plots of device readings over time: memory, temperature, power and clock."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QSize

from core.devices.device import own_id
from core.language import tr, tr_noop
from core.series.device_readings import DeviceSeries, Slowdown
from core.series.min_max_tree import Floats
from core.series.run_series import RunSeries
from core.series.series import Axis, Series
from core.text import BYTES_PER_GB
from gui.base.formatting import DASH, clock, gigabytes, number
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.plots.card import Span
from gui.plots.items.canvas import TOP_MARGIN_PX
from gui.plots.items.hover import HoverReading, HoverRow
from gui.plots.items.lines import NOTHING, Flags, LineData, MultiLineItem
from gui.plots.items.margin_labels import WIDEST, MarginLabel, MarginLabels
from gui.plots.items.strips import HeatStripsItem, StripFold, StripRow, column_width_s
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
LINES, STRIPS = "lines", "strips"
ROW_PX, LEAST_ROW_PX, LEAST_ROWS, MAX_ROWS = 13, 10, 7, 12
"""Height that a strip with its name gets, the least that it can do with, and how few and how many strips get it."""
HEAD_PX, AXIS_PX = 46, 26
"""Height of the head with the edges of the card, and of the axis."""
WIDEST_SIZE = "100.0 of 100 GB"
"""A size for which there is room beside the strips of the present."""
PRESENT_S = 900.0
"""Seconds of the present readings that are shown; zooming out shows the last hour."""
MAX_PX = 16_777_215
"""The maximum height of a widget that has none, as Qt has it."""
SILENT_S = 10.0
"""Seconds after which the last reading of a device is not its present one."""


class DevicePlot(Plot):
    """Readings of the devices over the time of the run: lines, or strips, whose shade is the reading.

    The present readings are strips over the last minutes. CPU devices beside GPUs of the same machine are left out
    there, and the devices of hosts that are folded.
    """

    scale = 1.0
    """Divisor of a reading."""
    present_unit: ClassVar[str] = ""
    """What stands in the place of the unit beside the title of the present readings."""

    def __init__(self, *, name: str, title: str) -> None:
        self.form = LINES
        """What is drawn now: `LINES` or `STRIPS`."""
        self.sizes: Mapping[str, int] | None = None
        """By device id, the bytes of its memory while the present readings are shown; None while those of a run are."""
        self._left_out: frozenset[str] = frozenset()
        self.folds: dict[str, StripFold] = {}
        """By device id."""
        self.strips: HeatStripsItem | None = None
        """Created when it is first drawn."""
        self._beside: dict[str, float | None] = {}
        """What stands beside the strips, by device id."""
        self._now = 0.0
        super().__init__(name=name, title=title)
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

    def shade_ends(self, device: str, shown: Mapping[str, DeviceSeries]) -> Span:  # noqa: ARG002 (as subclasses do)
        """Return the scaled readings of a device that have the first and the last shade of a strip."""
        return 0.0, 100.0

    def show_present(self, sizes: Mapping[str, int] | None, left_out: frozenset[str] = frozenset()) -> None:
        """Show the present readings; None: those of a run."""
        if (sizes, left_out) != (self.sizes, self._left_out):
            self.sizes, self._left_out = sizes, left_out
            self.canvas.bottom.show_kind("time")
            self._unit_label.setText(self.unit if sizes is None else tr(self.present_unit) or self.unit)
            self.setMaximumHeight(MAX_PX)
            self._recolour_lines()
            self.invalidate()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height that suits the present readings once they are drawn."""
        hint = super().sizeHint()
        return hint if self.maximumHeight() == MAX_PX else QSize(hint.width(), self.maximumHeight())

    def axis(self, run_series: RunSeries) -> Axis:
        """Return the x axis: of the present readings, the seconds from now on, or from when the user began to look."""
        return super().axis(run_series) if self.sizes is None else Axis(column="time", origin=self._now)

    def whole_span(self) -> Span:
        """Return the full range of the x axis."""
        return super().whole_span() if self.sizes is None else (-PRESENT_S, 0.0)

    def prepare(self) -> None:
        """Move on to the present, unless the user looks at a part of the past, which then has times of day."""
        if self.sizes is not None:
            self._now = time.time() if self.follows else self._now
            self.canvas.bottom.show_kind(*(("ago",) if self.follows else ("wall", self._now)))

    def lines(self) -> dict[str, LineData]:
        """Return the lines by device id."""
        return self._multi_line.lines

    def shown(self, run_series: RunSeries) -> dict[str, DeviceSeries]:
        """Return the readings in the order of the device list, those of devices that are not in it last."""
        readings = self.readings(run_series)
        listed = [device for device in self.colours if device in readings]
        if self.sizes is not None:
            left_out = self._left_out | _cpus_beside_gpus(list(self.colours))
            return {device: readings[device] for device in listed if device not in left_out}
        return {device: readings[device] for device in dict.fromkeys([*listed, *readings])}

    def slowdowns(self, run_series: RunSeries, device: str) -> SlowdownTimes | None:
        """Return the slowdowns of a device; None if it had none."""
        found = run_series.slowdowns.get(device)
        if not found:
            return None
        times = self._slowdowns.setdefault(device, SlowdownTimes())
        times.update(found)
        return times

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the time and the nearest reading of each device."""
        if self.run_series is None or not self.is_filled():
            return None
        axis = self.axis(self.run_series)
        points = {device: series.nearest(axis, x) for device, series in self.shown(self.run_series).items()}
        found = {device: point for device, point in points.items() if point is not None}
        times = [point.time - axis.origin for point in found.values()]
        at = min(times, key=lambda time: abs(time - x))
        rows = (self._row(device, point.value) for device, point in found.items())
        then = clock(at) if self.sizes is None else time.strftime("%H:%M:%S", time.localtime(axis.locate(at)))
        return HoverReading(x=at, rows=(HoverRow(label=then), *rows))

    def measured(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return the readings of each device, by its label and id."""
        return {f"{self.labels.get(each, each)} {each}": series for each, series in self.readings(run_series).items()}

    def is_filled(self) -> bool:
        """Return whether the run has a reading."""
        run_series = self.run_series
        return run_series is not None and any(each.min is not None for each in self.shown(run_series).values())

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Draw a line or a strip for each device."""
        self._set_form(self.wanted_form(self._shown))
        shown, axis = self.shown(self._shown), self.axis(self._shown)
        self._match_lines(shown if self.form == LINES else {})
        if self.form == STRIPS:
            self._draw_strips(shown, axis, span, pixels)
        else:
            self._take_height(self.min_height_px, 2 * self.min_height_px)
            for device, series in shown.items():
                x, y = series.view(axis, *span, pixels)
                self.lines()[device].show(x, y if self.scale == 1 else y / self.scale)
            if self.strips is not None:
                self.strips.clear()
        self._multi_line.refresh()
        super().draw_lines(span, pixels)

    def wanted_form(self, run_series: RunSeries) -> str:  # noqa: ARG002 (as a subclass uses it)
        """Return `LINES` or `STRIPS`."""
        return LINES if self.sizes is None else STRIPS

    def _set_form(self, form: str) -> None:
        if form != self.form:
            self.form = form
            self.canvas.left.setStyle(showValues=form == LINES)
            self.canvas.left.setGrid(255 if form == LINES else False)

    def _draw_strips(self, shown: Mapping[str, DeviceSeries], axis: Axis, span: Span, pixels: int) -> None:
        if self.strips is None:
            self.strips = HeatStripsItem(self.canvas.getPlotItem())
            self.strips.recolour()
        for gone in self.folds.keys() - shown.keys():
            del self.folds[gone]
        self._beside = self._values_beside(shown)
        begin, end = axis.locate(span[0]), axis.locate(span[1])
        width = column_width_s(end - begin, pixels)
        first = int(begin // width)
        count = int(end // width) + 1 - first
        rows = []
        for device, series in shown.items():
            low, high = self.shade_ends(device, shown)
            means = self.folds.setdefault(device, StripFold()).fold(series, width, first, count)
            slowed = self.slowdowns(self._shown, device)
            marked = slowed.columns(width, first, count) if slowed is not None else None
            shades = (means / self.scale - low) * (100.0 / (high - low)) if high > low else means * math.nan
            rows.append(StripRow(percent=shades, marked=marked))
        around, count = HEAD_PX + AXIS_PX * self.canvas.bottom.isVisible(), min(len(rows), MAX_ROWS)
        self._take_height(around + LEAST_ROW_PX * count, around + ROW_PX * max(count, LEAST_ROWS))
        self.strips.show_rows(rows, first * width - axis.origin, width)

    def _take_height(self, least_px: int, most_px: int) -> None:
        """Take these heights of the present readings, at a scale of 1; those of a run take what there is."""
        is_present = self.sizes is not None
        self.setMinimumHeight(scaled(least_px if is_present else max(least_px, self.min_height_px)))
        self.setMaximumHeight(scaled(most_px) if is_present else MAX_PX)

    def _values_beside(self, shown: Mapping[str, DeviceSeries]) -> dict[str, float | None]:
        """Return the present reading of each device."""
        return {
            device: series.last if len(series) and self._now - series.times[-1] < SILENT_S else None
            for device, series in shown.items()
        }

    def _match_lines(self, shown: Mapping[str, DeviceSeries]) -> None:
        """Create a line for each shown device and delete the others."""
        lines = self.lines()
        for device in [device for device in lines if device not in shown]:
            del lines[device]
        for device in shown:
            if device not in lines:
                lines[device] = LineData()
                lines[device].paint_in(self._colour(device))

    def _show_empty(self) -> None:
        if self.strips is not None:
            self.strips.clear()
        super()._show_empty()

    def _describe(self, values: Mapping[str, float | None]) -> None:
        """Describe the value of each device for a screen reader."""
        text = ", ".join(self._row(device, value).text for device, value in values.items())
        if text != self.canvas.accessibleDescription():
            self.canvas.setAccessibleDescription(text)

    def place_marks(self) -> None:
        """Name the devices at the ends of their lines, or beside their strips."""
        super().place_marks()
        if self.form == STRIPS:
            self._describe(self._beside)
            places = {device: len(self._beside) - number - 0.5 for number, device in enumerate(self._beside)}
            numbers = [MarginLabel(y=places[each], text=self.said(each, value)) for each, value in self._beside.items()]
            self.margin.show_labels([self._label(*each) for each in places.items()], numbers, spread=False)
            return
        shown, (_, right) = self.shown(self._shown), self.canvas.x_range
        self._describe({device: series.last for device, series in shown.items()})
        ends = {device: line.value_before(right) for device, line in self.lines().items()}
        labels = [self._label(device, value) for device in shown if (value := ends.get(device)) is not None]
        self.margin.show_labels((), labels if len(labels) > 1 else (), spread=True)

    def said(self, device: str, value: float | None) -> str:  # noqa: ARG002 (as a subclass uses it)
        """Return a reading as it stands beside a strip."""
        return self.format_reading(value / self.scale) if value is not None and math.isfinite(value) else DASH

    def _label(self, device: str, y: float) -> MarginLabel:
        return MarginLabel(y=y, text=self.labels.get(device, device), colour=self._colour(device))

    def _recolour_lines(self) -> None:
        if self.strips is not None:
            self.strips.recolour()
        self.margin.recolour()
        self.margin.make_room(self.labels.values(), WIDEST if self.sizes is None else WIDEST_SIZE)
        self.canvas.getPlotItem().setContentsMargins(0, TOP_MARGIN_PX, self.margin.width_px, 0)
        for device, line in self.lines().items():
            line.paint_in(self._colour(device))
        self._multi_line.refresh()

    def _colour(self, device: str) -> str:
        colour = self.colours.get(device)
        if colour is None:
            known = list(self.readings(self.run_series)) if self.run_series else []
            colour = current_theme().device_colour(known.index(device) if device in known else 0)
        return colour

    def _row(self, device: str, value: float | None) -> HoverRow:
        reading = DevicePlot.said(self, device, value)
        return HoverRow(label=self.labels.get(device, device), value=reading, colour=self._colour(device))

    def readout(self) -> list[HoverRow]:
        """Return the newest values, for the heading."""
        shown = self.shown(self._shown)
        if self.form == STRIPS or len(shown) > READOUTS_UP_TO:
            return []
        return [self._row(device, series.last) for device, series in shown.items()]

    def _y_span(self) -> Span:
        if self.form == STRIPS and self.strips is not None:
            return 0.0, float(max(len(self.strips.rows), 1))
        return self._line_span()

    def _line_span(self) -> Span:
        """Return the range of the y axis that suits the lines."""
        raise NotImplementedError


def _cpus_beside_gpus(devices: Sequence[str]) -> frozenset[str]:
    """Return the ids of the CPU devices of machines that have a GPU."""
    own = {device: own_id(device) for device in devices}
    cpus = {device for device, each in own.items() if each.startswith(CPU_PREFIX)}
    with_gpus = {device.removesuffix(each) for device, each in own.items() if device not in cpus}
    return frozenset(device for device in cpus if device.removesuffix(own[device]) in with_gpus)


class MemoryPlot(DevicePlot):
    """Gigabytes over time, from 0. A label marks the end of training, after which the memory is released."""

    quantity, unit = "memory", "GB"
    present_unit = tr_noop("% of its own")
    labels_end = True
    scale = float(BYTES_PER_GB)

    def shade_ends(self, device: str, shown: Mapping[str, DeviceSeries]) -> Span:  # noqa: ARG002 (its own size)
        """Return none and all of the memory of a device; a device of unknown size has no shade."""
        return 0.0, (self.sizes or {}).get(device, 0) / self.scale

    def said(self, device: str, value: float | None) -> str:
        """Return `41.8 of 80 GB`."""
        size = (self.sizes or {}).get(device)
        if value is None or not math.isfinite(value) or not size:
            return super().said(device, value)
        total = gigabytes(size).removesuffix(".0")
        return tr("{used} of {total} GB", used=gigabytes(value), total=total)

    def readout(self) -> list[HoverRow]:
        """Return the newest values, or the sum of the present ones of the devices whose size is known."""
        if self.sizes is None:
            return super().readout()
        known = [(used, size) for each, used in self._beside.items()
                 if used is not None and math.isfinite(used) and (size := self.sizes.get(each))]
        if not known:
            return []
        used, total = (gigabytes(sum(column)) for column in zip(*known, strict=True))
        return [HoverRow(label="", value=tr("{used} of {total} GB", used=used, total=total))]

    def format_reading(self, value: float) -> str:
        """Return `9.1 GB`."""
        return f"{value:.1f} GB" if value >= 1 else f"{value:.2f} GB"

    def _line_span(self) -> Span:
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

    def shade_ends(self, device: str, shown: Mapping[str, DeviceSeries]) -> Span:  # noqa: ARG002 (one scale for all)
        """Return zero and the highest reading of all devices."""
        return 0.0, max((each.max or 0.0 for each in shown.values()), default=0.0)

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

    def _line_span(self) -> Span:
        found = [line.y[np.isfinite(line.y)] for line in self.lines().values()]
        bottom = min((float(y.min()) for y in found if len(y)), default=self.least_bottom)
        top = max((float(y.max()) for y in found if len(y)), default=self.least_top)
        return min(bottom, self.least_bottom), max(1.06 * top, self.least_top)


class TemperaturePlot(HardwarePlot):
    """Degrees Celsius over time."""

    quantity, unit = "temperature", "°C"
    present_unit = tr_noop("°C, 30 to 90")
    least_bottom = 20.0
    least_top = 100.0

    def shade_ends(self, device: str, shown: Mapping[str, DeviceSeries]) -> Span:  # noqa: ARG002 (as cards are built)
        """Return the temperatures of an idle and of a hot GPU."""
        return 30.0, 90.0


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
