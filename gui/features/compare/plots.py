"""The base class of plots of several runs, and the plots of their device readings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from core.language import tr, tr_noop, tr_plural
from core.results.curves import AXES, axis_of
from core.series.device_readings import ReadingCurve
from core.series.min_max_tree import Floats
from core.series.series import Axis
from gui.base.colours import faint
from gui.base.formatting import DASH, clock, moment, number
from gui.base.theme import current_theme
from gui.features.compare.reader import ComparedRun, Entry
from gui.plots.card import PlotCard, Span
from gui.plots.items.hover import HoverReading, HoverRow
from gui.plots.items.lines import LineData, MultiLineItem

MAX_POINTS = 16_000
"""Points of all lines of a plot together: with more lines, the columns of each are wider."""
MIN_COLUMNS = 120
NEAREST = 5
"""Lines of which the read-out under the mouse has the values: those nearest to the mouse."""
POSITION = {
    "step": tr_noop("step {place}"), "epoch": tr_noop("epoch {place}"), "samples": tr_noop("sample {place}"),
    "training": tr_noop("{place} of training"), "wall": tr_noop("at {place}"),
}


class ComparedPlot(PlotCard):
    """What the plots of several runs share: the runs, the axis, and a curve for each run or group."""

    show_all_tip: ClassVar[str] = tr_noop("Show the whole runs again (double-click, or A)")

    def __init__(self, *, name: str, title: str) -> None:
        self.entries: tuple[Entry, ...] = ()
        self.axis_name, self.origin, self.metric_name = AXES[0], 0.0, ""
        self._version, self._whole = 0, (0.0, 1.0)
        self._used: set[str] = set()
        """The thin lines that were drawn since they were last cleared."""
        self.drawn: dict[str, tuple[Floats, Floats]] = {}
        """Positions and values of the line of each entry, by its name."""
        chart = tr("{title} chart. Arrow keys pan, plus and minus zoom, A shows the whole runs.", title=title)
        super().__init__(name=name, title=title, chart=chart)
        self.many = MultiLineItem(self.canvas.getPlotItem())

    def show_entries(
        self, entries: Sequence[Entry], *, axis_name: str, origin: float, metric: str, version: int
    ) -> None:
        """Draw these entries. `metric`: decides what the steps count; `origin`: see `axis_of`."""
        if (axis_name, metric) != (self.axis_name, self.metric_name):
            self.set_follow(True)
        self.entries, self.axis_name, self.origin, self.metric_name = tuple(entries), axis_name, origin, metric
        self._version, self._whole = version, self._find_whole()
        self.canvas.bottom.show_kind(axis_name, origin)
        self._followed = None
        self._recolour_lines()  # whose names have another length
        self.invalidate()

    def clear(self) -> None:
        """Forget all runs."""
        self.entries = ()
        self._show_empty()

    def version(self) -> int:
        """Return the version of what was measured."""
        return self._version

    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """Return the drawn positions and values of the line of each entry, by its name."""
        return dict(self.drawn)

    def lines(self) -> Mapping[str, LineData]:
        """Return the thin lines."""
        return self.many.lines

    def axis(self, run: ComparedRun) -> Axis | None:
        """Return the horizontal axis of a run; None if it has no such positions."""
        return axis_of(run.measured, self.axis_name, self.metric_name, self.origin)

    def columns(self, pixels: int, lines: int) -> int:
        """Return how many columns a line has, so that all together stay below `MAX_POINTS`."""
        return max(min(pixels, MAX_POINTS // max(lines, 1)), MIN_COLUMNS)

    def show_crosshair(self, x: float | None) -> None:
        """Mark a position; None removes the mark."""
        self.crosshair.setVisible(x is not None and self._stack.currentWidget() is self.canvas)
        if x is not None:
            self.crosshair.setValue(x)

    def whole_span(self) -> Span:
        """Return the range from the first step of training to the last; of dates, from the first to the last."""
        return self._whole

    def _find_whole(self) -> Span:
        ends = [self._ends(run) for entry in self.entries for run in entry.runs]
        known = [each for each in ends if each is not None]
        if not known:
            return 0.0, 1.0
        hi = max(last for _, last in known)
        lo = min(first for first, _ in known) if self.axis_name == "wall" else 0.0
        return lo, hi if hi > lo else lo + 1.0

    def _ends(self, run: ComparedRun) -> Span | None:
        """Return the positions of the first and the last measurement of a run."""
        axis, measured = self.axis(run), run.measured.series.metrics.get(self.metric_name)
        if axis is None or measured is None or not len(measured):
            return None if axis is None else run.guide.ends(axis)
        along = measured.steps if axis.column == "step" else measured.times
        first, last = axis.place(along[[0, -1]]).tolist()
        return first, last

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the values of the lines nearest to the mouse, from top to bottom; a line may end before a position."""
        found = [(entry, *at) for entry in self.entries if (at := self._nearest(entry, x)) is not None]
        if not found:
            return None
        level = self.canvas.pointed_y
        mouse = (sum(self.canvas.y_range) / 2) if level is None else level
        known = [each for each in found if np.isfinite(each[2])]
        near = sorted(known, key=lambda each: abs(self.height_of(each[2]) - mouse))[:NEAREST]
        rows = [
            HoverRow(label=entry.name, value=self.value_text(value) + self.range_text(entry, at), colour=entry.colour)
            for entry, at, value in sorted(near, key=lambda each: -each[2])
        ]
        rows += [
            HoverRow(label=entry.name, value=DASH, colour=entry.colour)
            for entry, _, value in found
            if not np.isfinite(value)
        ][: NEAREST - len(rows)]
        place = min((at for _, at, _ in found), key=lambda at: abs(at - x))
        left = len(found) - len(rows)
        more = [HoverRow(label=tr_plural("and {count} more line", "and {count} more lines", left))]
        shown = (HoverRow(label=self._position_text(place)), *rows, *more[: left > 0])
        return HoverReading(x=place, rows=shown)

    def height_of(self, value: float) -> float:
        """Return the position of a value on the y axis."""
        return value

    def value_text(self, value: float) -> str:
        """Return a value as the read-out shows it."""
        raise NotImplementedError

    def range_text(self, entry: Entry, x: float) -> str:  # noqa: ARG002 (as subclasses use it)
        """Return what the read-out says about the band of a group at one of its points; the empty string: nothing."""
        return ""

    def _nearest(self, entry: Entry, x: float) -> tuple[float, float] | None:
        """Return the point of a line that is nearest to a position; None beyond its ends."""
        places, values = self.drawn.get(entry.name, (np.empty(0), np.empty(0)))
        known = np.flatnonzero(np.isfinite(values))
        reach = 3 * self.canvas.pixel_size[0]
        if not len(known) or not places[known[0]] - reach <= x <= places[known[-1]] + reach:
            return None
        at = int(np.argmin(np.abs(places - x)))
        return float(places[at]), float(values[at])

    def _position_text(self, x: float) -> str:
        match self.axis_name:
            case "training":
                place = clock(x)
            case "wall":
                place = moment(self.origin + x, time.time())
            case "epoch":
                place = number(x, 0.01)
            case _:
                place = number(round(x), 1)
        return tr(POSITION[self.axis_name], place=place)

    def thin_line(self, name: str, colour: str, *, is_faint: bool = False) -> LineData:
        """Return a thin line, made new if there is none of this name."""
        line = self.many.lines.get(name)
        if line is None:
            line = self.many.lines[name] = LineData()
        line.faint = is_faint
        self._used.add(name)
        wanted = faint(colour, current_theme()) if is_faint else colour
        if line.pen.color().name() != wanted:
            line.paint_in(wanted)
        return line

    def clear_thin_lines(self) -> None:
        """Begin to draw the thin lines anew."""
        self._used.clear()
        self.drawn.clear()

    def show_thin_lines(self) -> None:
        """Show the thin lines that were drawn since `clear_thin_lines`, and delete the others."""
        for gone in self.many.lines.keys() - self._used:
            del self.many.lines[gone]
        self.many.refresh()

    def _show_empty(self) -> None:
        self.clear_thin_lines()
        self.show_thin_lines()
        super()._show_empty()


def origin_of(runs: Sequence[ComparedRun]) -> float:
    """Return the unix time at which the axis of dates begins: midnight before the first run."""
    starts = [run.measured.series.started for run in runs if run.measured.series.started]
    if not starts:
        return 0.0
    then = time.localtime(min(starts))
    begun = time.mktime((then.tm_year, then.tm_mon, then.tm_mday, 0, 0, 0, 0, 0, -1))
    return begun if math.isfinite(begun) else 0.0


Readings = Callable[[ComparedRun], ReadingCurve]


class ComparedReadingsPlot(ComparedPlot):
    """The readings of the devices of several runs, one line for each run."""

    min_height_px = 110

    def __init__(self, name: str, title: str, unit: str, readings: Readings, top: float | None = None) -> None:
        """`readings`: returns the curve of a run; `top`: the upper end of the y axis, None for the highest reading."""
        self._readings, self._unit, self._top = readings, unit, top
        super().__init__(name=name, title=title)
        self._unit_label.setText(unit)
        self._unit_label.show()
        self.recolour()

    def is_filled(self) -> bool:
        """Return whether a run has readings."""
        return any(len(self._readings(run)) for entry in self.entries for run in entry.runs)

    def draw_lines(self, span: Span, pixels: int) -> None:
        """Draw a line for each run."""
        count = sum(len(entry.runs) for entry in self.entries)
        columns = self.columns(pixels, count)
        borders = np.linspace(*span, columns + 1)
        self.clear_thin_lines()
        for entry in self.entries:
            for place, run in enumerate(entry.runs):
                axis = self.axis(run)
                if axis is None or not len(self._readings(run)):
                    continue
                values = self._readings(run).means(run.guide.times_of(axis, borders))
                name = entry.name if not place else f"{entry.name} run {place + 1}"
                self.thin_line(name, entry.colour, is_faint=place > 0).show(borders[1:], values)
                if not place:
                    self.drawn[entry.name] = borders[1:], values
        self.show_thin_lines()

    def value_text(self, value: float) -> str:
        """Return a reading with its unit."""
        return f"{value:.0f}\u2009{self._unit}" if self._top else f"{value:.1f} {self._unit}"

    def _y_span(self) -> Span:
        top = self._top or max((line.highest or 0.0 for line in self.many.lines.values()), default=0.0) or 1.0
        return -0.02 * top, 1.04 * top

    def _recolour_lines(self) -> None:
        """Do nothing: the lines get their colours when they are drawn."""
