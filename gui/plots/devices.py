"""The plots of device readings over time: memory, temperature, power and clock."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QSize

from core.language import tr, tr_noop, tr_plural
from core.series.device_readings import DeviceSeries, ReadingCurve, Slowdown
from core.series.min_max_tree import Floats
from core.series.run_series import RunSeries
from core.series.series import Axis, Series
from core.text import BYTES_PER_GB
from gui.base.formatting import DASH, clock, gigabytes, number
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.plots.card import Span as Ends
from gui.plots.items.canvas import TOP_MARGIN_PX
from gui.plots.items.hover import HoverReading, HoverRow
from gui.plots.items.lines import Flags, LineData, MultiLineItem
from gui.plots.items.margin_labels import WIDEST, MarginLabel, MarginLabels
from gui.plots.items.strips import HeatStripsItem, column_width_s, shade
from gui.plots.run_plot import Plot
from gui.widgets.plain_text import ColouredLabel, Span

READOUTS_UP_TO = 4
"""Maximum number of devices whose newest values fit beside the title."""
LINES, STRIPS = "lines", "strips"
ROW_PX, LEAST_ROW_PX, LEAST_ROWS, MAX_ROWS = 13, 10, 7, 12
"""Height that a strip with its name gets, the least that it can do with, and how few and how many strips get it."""
HEAD_PX, AXIS_PX = 46, 26
"""Height of the head with the edges of the card, and of the axis."""
LEGEND = 6
"""Number of the last shade in the legend."""
DIGITS, FIGURE_SPACE = 3, "\u2007"
"""Digits for which there is room in a column of numbers, and the space that is as wide as a digit."""
WIDEST_SIZE = "100 %  100.0 of 100 GB"
"""A size for which there is room beside the strips of the present."""
PRESENT_S = 900.0
"""Seconds of the present readings that are shown; zooming out shows the last hour."""
MAX_PX = 16_777_215
"""The maximum height of a widget that has none, as Qt has it."""
SILENT_S = 10.0
"""Seconds after which the last reading of a device is not its present one."""


def slowed_at(slowdowns: Sequence[Slowdown], times: Floats, slack_s: float = 0.0) -> Flags:
    """Return which of these unix times, shape (n,), are in a slowdown, or nearer to one than the slack."""
    if not slowdowns:
        return np.zeros(len(times), dtype=np.bool_)
    since, until = np.array([(each.since, each.until) for each in slowdowns]).T
    last = np.searchsorted(since - slack_s, times, side="right") - 1
    found: Flags = (last >= 0) & (times <= until[np.maximum(last, 0)] + slack_s)
    return found


class DevicePlot(Plot):
    """Readings of the devices: lines, or strips, whose shade is the reading.

    Present readings are strips over the last minutes, unless the user chose lines.
    """

    scale = 1.0
    """Divisor of a reading."""
    strip_unit: ClassVar[str] = ""
    """What stands in the place of the unit beside the title of strips."""
    shade_ends: ClassVar[Ends | None] = 0.0, 100.0
    """The scaled readings with the first and the last shade of a strip; None: 0 and the highest of all devices."""
    marks_lines: ClassVar[bool] = False
    """Whether lines are marked where their device was slowed down, as strips always are."""

    def __init__(self, *, name: str, title: str) -> None:
        self.form = LINES
        """What is drawn now: `LINES` or `STRIPS`."""
        self.chosen: str | None = None
        """The form that the user chose; None: what suits."""
        self._beside: dict[str, float | None] = {}
        """What stands beside the strips, by device id."""
        self._now = 0.0
        super().__init__(name=name, title=title)
        plot, self.margin = self.canvas.getPlotItem(), MarginLabels(self.canvas)
        self._multi_line, self.strips = MultiLineItem(plot), HeatStripsItem(plot)
        self.legend = ColouredLabel()
        self.legend.setProperty("role", "muted")
        self.header.insertWidget(2, self.legend)
        self.recolour()

    def readings(self, run_series: RunSeries) -> Mapping[str, DeviceSeries]:
        """Return the readings to draw, by device id."""
        found: Mapping[str, DeviceSeries] = getattr(run_series, self.quantity)
        return found

    def format_reading(self, value: float) -> str:
        """Return a scaled reading with its unit."""
        return f"{value:.0f} {self.unit}"

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height that suits the present readings once they are drawn."""
        hint = super().sizeHint()
        return hint if self.maximumHeight() == MAX_PX else QSize(hint.width(), self.maximumHeight())

    def axis(self, run_series: RunSeries) -> Axis:
        """Return the x axis: of the present readings, the seconds from now on, or from when the user began to look."""
        return Axis(column="time", origin=self._now) if self.present else super().axis(run_series)

    def whole_span(self) -> Ends:
        """Return the full range of the x axis."""
        return (-PRESENT_S, 0.0) if self.present else super().whole_span()

    def prepare(self) -> None:
        """Move on to the present, unless the user looks at a part of the past, which then has times of day."""
        if self.follows:
            self._now = time.time()
        kind = "time" if not self.present else "ago" if self.follows else "wall"
        self.canvas.bottom.show_kind(kind, self._now if kind == "wall" else 0.0)

    def lines(self) -> dict[str, LineData]:
        """Return the lines by device id."""
        return self._multi_line.lines

    def shown(self, run_series: RunSeries) -> dict[str, DeviceSeries]:
        """Return the readings in the order of the device list, those of devices that are not in it last."""
        readings = self.readings(run_series)
        devices = self.present or dict.fromkeys([*self.colours, *readings])
        return {device: readings[device] for device in devices if device in readings}

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
        then = time.strftime("%H:%M:%S", time.localtime(axis.locate(at))) if self.present else clock(at)
        return HoverReading(x=at, rows=(HoverRow(label=then), *rows))

    def measured(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return the readings of each device, by its label and id."""
        return {f"{self.labels.get(each, each)} {each}": series for each, series in self.readings(run_series).items()}

    def is_due(self) -> bool:
        """Return whether it is due, as is the first reading of all that were silent, at once: dashes stand for them."""
        is_silent = self.form == STRIPS and {*self._beside.values()} == {None}
        values = self._values_beside(self.shown(self._shown)) if is_silent else {}
        return super().is_due() or {None, *values.values()} != {None}

    def is_filled(self) -> bool:
        """Return whether the run has a reading."""
        shown = self.shown(self.run_series) if self.run_series is not None else {}
        return any(np.isfinite(each.values).any() for each in shown.values())

    def draw_lines(self, span: Ends, pixels: int) -> None:
        """Draw a line or a strip for each device."""
        self._set_form(self.chosen or self.usual_form(self._shown))
        shown, axis, slowdowns = self.shown(self._shown), self.axis(self._shown), self._shown.slowdowns
        begin, end = axis.locate(span[0]), axis.locate(span[1])
        self.legend.setVisible(self.form == STRIPS)
        self.lines().clear()
        if self.form == STRIPS:
            self._draw_strips(shown, axis, begin, end, pixels)
        else:
            self.strips.clear()
            self._take_height(self.min_height_px, 2 * self.min_height_px)
            for device, series in shown.items():
                x, y = series.view(axis, *span, pixels)
                slowed = slowdowns.get(device, ()) if self.marks_lines else ()
                self.lines()[device] = line = LineData()
                line.paint_in(self._colour(device))
                line.show(x, y / self.scale, slowed_at(slowed, axis.locate_all(x), (end - begin) / pixels))
        self._multi_line.refresh()
        super().draw_lines(span, pixels)

    def usual_form(self, run_series: RunSeries) -> str:  # noqa: ARG002 (as a subclass uses it)
        """Return the form that suits: `LINES` or `STRIPS`."""
        return STRIPS if self.present else LINES

    def _set_form(self, form: str) -> None:
        if form != self.form:
            self.form = form
            self.canvas.left.setStyle(showValues=form == LINES)
            self.canvas.left.setGrid(255 if form == LINES else False)
            self._unit_label.setText((form == STRIPS and tr(self.strip_unit)) or self.unit)

    def _draw_strips(
        self, shown: Mapping[str, DeviceSeries], axis: Axis, begin: float, end: float, pixels: int
    ) -> None:
        """Draw a strip for each device, between these unix times."""
        self._beside = self._values_beside(shown)
        width = column_width_s(end - begin, pixels)
        borders = np.arange(begin // width, end // width + 2) * width  # the same ones whatever is shown
        low, high = self.shade_ends or (0.0, max((each.max or 0.0 for each in shown.values()), default=0.0))
        colours = [Span("\u2586", shade(number / LEGEND).name()) for number in range(LEGEND + 1)]
        self.legend.show_groups([[Span(f"  {low:.0f} "), *colours, Span(f" {high:.0f}")]])
        shades = [ReadingCurve(each.times, each.means / self.full(device), each).means(borders)
                  for device, each in shown.items()]
        middles, slowdowns = borders[:-1] + width / 2, self._shown.slowdowns
        marked = [slowed_at(slowdowns.get(device, ()), middles, width / 2) for device in shown]
        around, count = HEAD_PX + AXIS_PX * self.canvas.bottom.isVisible(), min(len(shown), MAX_ROWS)
        self._take_height(around + LEAST_ROW_PX * count, around + ROW_PX * max(count, LEAST_ROWS))
        percent = (np.array(shades) - low) * (100 / ((high - low) or math.nan))
        self.strips.show_rows(percent, np.array(marked), borders[0] - axis.origin, width)

    def full(self, device: str) -> float:  # noqa: ARG002 (as a subclass uses it)
        """Return the divisor of a reading in a strip."""
        return self.scale

    def _take_height(self, least_px: int, most_px: int) -> None:
        """Take these heights of the present readings, at a scale of 1; those of a run take what there is."""
        self.setMinimumHeight(scaled(least_px if self.present else max(least_px, self.min_height_px)))
        self.setMaximumHeight(scaled(most_px) if self.present else MAX_PX)

    def _values_beside(self, shown: Mapping[str, DeviceSeries]) -> dict[str, float | None]:
        """Return the present reading of each device."""
        return {
            device: series.last if len(series) and self._now - series.times[-1] < SILENT_S else None
            for device, series in shown.items()
        }

    def _show_empty(self) -> None:
        self.strips.clear()
        self.legend.hide()
        self.setMaximumHeight(MAX_PX)
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
            texts = {each: self.said(each, value) for each, value in self._beside.items()}
            indents = {each: FIGURE_SPACE * (DIGITS - len(text.split()[0])) for each, text in texts.items()}
            numbers = [MarginLabel(y=places[each], text=indents[each] + text) for each, text in texts.items()]
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
        self.strips.recolour()
        self.margin.recolour()
        self.margin.make_room(self.labels.values(), WIDEST_SIZE if self.present else WIDEST)
        self.canvas.getPlotItem().setContentsMargins(0, TOP_MARGIN_PX, self.margin.width_px, 0)

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

    def _y_span(self) -> Ends:
        return (0.0, float(max(len(self.strips.percent), 1))) if self.form == STRIPS else self._line_span()

    def _line_span(self) -> Ends:
        """Return the range of the y axis that suits the lines."""
        raise NotImplementedError


class MemoryPlot(DevicePlot):
    """Gigabytes over time, from 0. A label marks the end of training, after which the memory is released."""

    quantity, unit = "memory", "GB"
    strip_unit = tr_noop("% of its own")
    labels_end = True
    scale = float(BYTES_PER_GB)

    def full(self, device: str) -> float:
        """Return a hundredth of the memory of a device; a device of unknown size has no shade."""
        return self.present.get(device, 0) / 100 or math.nan

    def said(self, device: str, value: float | None) -> str:
        """Return `52 %  41.8 of 80 GB`."""
        size = self.present.get(device)
        if value is None or not math.isfinite(value) or not size:
            return super().said(device, value)
        percent, total = 100 * value / size, gigabytes(size).removesuffix(".0")
        sizes = tr("{used} of {total} GB", used=gigabytes(value), total=total)
        return f"{percent:.0f}\u2009%  {sizes}"

    def readout(self) -> list[HoverRow]:
        """Return the newest values, or the sum of the present ones of the devices whose size is known."""
        if self.form == LINES:
            return super().readout()
        known = [(used, size) for each, used in self._beside.items()
                 if used is not None and math.isfinite(used) and (size := self.present.get(each))]
        if not known:
            return []
        used, total = (gigabytes(sum(column)) for column in zip(*known, strict=True))
        return [HoverRow(label="", value=tr("{used} of {total} GB", used=used, total=total))]

    def format_reading(self, value: float) -> str:
        """Return `9.1 GB`."""
        return f"{value:.1f} GB" if value >= 1 else f"{value:.2f} GB"

    def _line_span(self) -> Ends:
        top = max((line.highest for line in self.lines().values() if line.highest is not None), default=0.0)
        room = self.end.room_px / max(self.canvas.view.height(), 1.0)
        return -0.02 * top, max(top / (1 - room), 0.1)


MARK_PX = 5
"""Width of the mark below a line where its device was slowed down."""


class HardwarePlot(DevicePlot):
    """Readings that only GPUs have. A wide line in the colour of errors lies below where a device was slowed down."""

    min_height_px = 130
    shade_ends: ClassVar[Ends | None] = None
    marks_lines = True
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

    def readout(self) -> list[HoverRow]:
        """Return the newest values, or beside strips how many devices are marked."""
        if self.form == LINES:
            return super().readout()
        slowed = int(self.strips.marked.any(axis=1).sum())
        some = tr_plural("{count} GPU slowed down", "{count} GPUs slowed down", slowed)
        return [HoverRow(label=some if slowed else tr("no GPU slowed down"))]

    def _empty_text(self) -> str:
        devices = self.run_series.utilisation if self.run_series is not None else {}
        if devices and all(device.startswith("cpu:") for device in devices):
            return tr("Only NVIDIA GPUs have these readings.")
        return super()._empty_text()

    def _recolour_lines(self) -> None:
        self._multi_line.mark_pen = pg.mkPen(current_theme().bad, width=MARK_PX)
        super()._recolour_lines()

    def _line_span(self) -> Ends:
        found = [line.y[np.isfinite(line.y)] for line in self.lines().values()]
        bottom = min((float(y.min()) for y in found if len(y)), default=self.least_bottom)
        top = max((float(y.max()) for y in found if len(y)), default=self.least_top)
        return min(bottom, self.least_bottom), max(1.06 * top, self.least_top)


class TemperaturePlot(HardwarePlot):
    """Degrees Celsius over time."""

    quantity, unit = "temperature", "°C"
    shade_ends = 30.0, 90.0  # an idle and a hot GPU
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
