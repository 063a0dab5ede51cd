"""The plot of the loss or another metric: every step faint, the exponential mean bold, validation dashed.

If several ranks measure the metric, the line is their mean and a faint band reaches from minimum to maximum.
Arrows mark values outside the plot, crosses where the metric became NaN or infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gui.plots.items.band import BandItem
from gui.plots.items.hover import HoverReading, HoverRow
from gui.plots.items.interruption_marks import InterruptionMarks
from gui.plots.items.line import LineItem
from gui.plots.items.value_marks import Crosses, EdgeArrows, EndLabel
from gui.style.formatting import clock, number

from .base import Plot
from .loss_controls import LossControls
from .ranks import at_step, combine, mean_of, of_ranks, own_name
from .y_range import fitting_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.series.min_max_tree import Floats
    from core.series.run_series import RunSeries
    from core.series.series import Axis, Series
    from gui.style.theme import Theme

    from .base import OpenSpan, Span

VALIDATION = "val_"
RANKS_MEAN = "train, mean of ranks"
NOW, LAST = "now {value}", "last {value}"
"""Labels at the end of the line: while the run trains, and after its end."""
END_ROOM_SHARE = 0.01
"""Room to the right of the last measurement, for the dot that marks it."""
MARK_REACH_PX = 8
"""Largest distance of the mouse from an arrow or a cross that it explains."""


class LossPlot(Plot):
    """One family of metrics, such as `loss` and `val_loss`, over steps, epochs or the time of training.

    The time of training begins with the first step and leaves out the interruptions of the run. Start-up and memory
    watch are in the plots of the devices alone.
    """

    y_by_hand = True

    def __init__(self, *, name: str, title: str, theme: Theme) -> None:
        super().__init__(name=name, title=title, theme=theme)
        self.controls = LossControls()
        self.header.insertWidget(0, self.controls.metric_box)
        self.header.insertWidget(3, self.controls)
        self.controls.changed.connect(self._apply_controls)
        self._shown_of = self.controls.family, self.controls.axis, self.controls.logarithmic
        plot = self.canvas.getPlotItem()
        self._spread, self._validation_spread = BandItem(plot, depth=-2), BandItem(plot, depth=-1)
        self._every = LineItem(plot)
        self._mean = LineItem(plot, depth=2)
        self._validation = LineItem(plot, depth=4, dashed=True, marked=True)
        self.arrows, self.crosses = EdgeArrows(self.canvas), Crosses(self.canvas)
        self.newest, self.interruptions = EndLabel(self.canvas), InterruptionMarks(self.canvas)
        self.set_theme(theme)
        self._apply_controls()

    def lines(self) -> Mapping[str, LineItem | BandItem]:
        """Return the lines by name: the metric, its mean, its validation values, and the spread over ranks."""
        family = self.controls.family
        return {
            family: self._every,
            f"{family} (mean)": self._mean,
            VALIDATION + family: self._validation,
            f"{family} (spread)": self._spread,
            f"{VALIDATION}{family} (spread)": self._validation_spread,
        }

    def axis_name(self) -> str:
        """Return the quantity on the x axis: `step`, `epoch` or `training`."""
        return self.controls.axis

    def time_at(self, x: float) -> float | None:
        """Return the unix time at which the step at a position was measured; None beyond the first and the last."""
        if self.run_series is None or not any(lines := self._train_and_validation(self.run_series)):
            return None
        axis, guide = self.axis(self.run_series), _guide(*lines)
        if axis.column == "step":
            return _between(axis.locate(x), guide.steps, guide.times)
        return _between(axis.locate(x), guide.times, guide.times)

    def place_time(self, time: float) -> float | None:
        """Return the position of the step measured at a unix time; None before the first and after the last."""
        if self.run_series is None or not any(lines := self._train_and_validation(self.run_series)):
            return None
        axis, guide = self.axis(self.run_series), _guide(*lines)
        column = _between(time, guide.times, guide.steps if axis.column == "step" else guide.times)
        return None if column is None else float(axis.place(np.array([column]))[0])

    def show_times(self, times: OpenSpan) -> None:
        """Show the steps measured in this range of unix times; keep what is shown if there are none."""
        if self.run_series is not None and any(lines := self._train_and_validation(self.run_series)):
            first, last = _guide(*lines).times[[0, -1]]
            if (times[0] is None or times[0] < last) and (times[1] is None or times[1] > first):
                super().show_times(times)

    def reading_at(self, x: float) -> HoverReading | None:
        """Return the nearest step with its epoch, time and value, and the nearest validation."""
        if self.run_series is None:
            return None
        axis = self.axis(self.run_series)
        train, validation = self._train_and_validation(self.run_series)
        if not train and not validation:
            return None
        found = [(ranks is train, ranks, self._nearest(ranks, axis, x)) for ranks in (train, validation) if ranks]
        step, time = found[0][2]
        place = axis.place(np.array([step if axis.column == "step" else time]))
        rows = [row for is_train, ranks, (near, _) in found for row in self._rows(is_train, ranks, near)]
        return HoverReading(
            x=float(place[0]),
            rows=(
                HoverRow(label=self._position_text(step, time)),
                *rows,
                *self._outside_rows(x),
                *self._break_rows(train, axis, x),
            ),
        )

    def _nearest(self, ranks: list[Series], axis: Axis, x: float) -> tuple[int, float]:
        """Return the nearest step and the time at which a rank reached it, in unix seconds."""
        points = [point for series in ranks if (point := series.nearest(axis, x)) is not None]
        wanted = axis.locate(x)
        nearest = min(points, key=lambda point: abs((point.step if axis.column == "step" else point.time) - wanted))
        return nearest.step, nearest.time

    def _rows(self, is_train: bool, ranks: list[Series], step: int) -> list[HoverRow]:
        """Return the value of one step, and the mean there."""
        values = [point.value for point in at_step(ranks, step)]
        value = _value_text(values[0] if len(values) == 1 else mean_of(values), 5)
        numbers = [each for each in values if np.isfinite(each)]
        if len(numbers) > 1:
            value += f" ({min(numbers):.4g} to {max(numbers):.4g})"
        if not is_train:
            at = f"{value} at step {number(step, 1)}"
            return [HoverRow(label="validation", value=at, colour=self.theme.validation)]
        rows = [HoverRow(label="train" if len(ranks) == 1 else RANKS_MEAN, value=value, colour=self.theme.train)]
        weight = self.controls.smoothing
        means = [mean for series in ranks if weight and (mean := series.mean_at(step, weight)) is not None]
        if np.isfinite(mean_of(means)):
            rows.append(HoverRow(label="train mean", value=f"{mean_of(means):.5g}", colour=self.theme.train))
        return rows

    def _outside_rows(self, x: float) -> list[HoverRow]:
        """Return the value that lies farthest outside the plot at the arrow near this position, if there is one."""
        reach, (bottom, top) = MARK_REACH_PX * self.canvas.pixel_size[0], self.canvas.y_range
        heights = np.concatenate([np.empty(0), *(y for _, y in self._heights(x - reach, x + reach))])
        outside = heights[(heights > top) | (heights < bottom)]
        if not len(outside):
            return []
        farthest = outside[np.argmax(np.maximum(outside - top, bottom - outside))]
        value = 10**farthest if self.controls.logarithmic else farthest
        where = "above the plot" if farthest > top else "below the plot"
        return [HoverRow(label=where, value=f"{value:.5g}", colour=self.theme.muted)]

    def _break_rows(self, ranks: list[Series], axis: Axis, x: float) -> list[HoverRow]:
        """Return what became of the metric at the cross near this position, if there is one."""
        reach = MARK_REACH_PX * self.canvas.pixel_size[0]
        rows, name = [], self.controls.family.replace("_", " ")
        for series in ranks:
            for index in series.breaks(axis, x - reach, x + reach)[:1]:
                became = "NaN" if np.isnan(series.values[index]) else "infinite"
                which = name if len(ranks) == 1 else f"{name} of one rank"
                text = f"{which} became {became} at step {number(float(series.steps[index]), 1)}"
                rows.append(HoverRow(label=text, colour=self.theme.bad))
        return rows[:1]

    def _position_text(self, step: int, time: float) -> str:
        assert self.run_series is not None
        axes = self.run_series.axes
        seconds = clock(float(axes["training"].place(np.array([time]))[0]))
        epoch = f"epoch {step / axes['epoch'].unit:.2f} \u00b7 " if "epoch" in axes else ""
        return f"step {number(step, 1)} \u00b7 {epoch}{seconds}"

    def measured(self, run_series: RunSeries) -> Mapping[str, Series]:
        """Return the metric and its validation values, of each rank."""
        metrics, family = run_series.metrics, self.controls.family
        shown = {family, VALIDATION + family}
        return {name: series for name, series in metrics.items() if own_name(name, metrics) in shown}

    def _train_and_validation(self, run_series: RunSeries) -> tuple[list[Series], list[Series]]:
        """Return the training series and the validation series of each rank."""
        family = self.controls.family
        return of_ranks(run_series.metrics, family), of_ranks(run_series.metrics, VALIDATION + family)

    def _has_data(self, run_series: RunSeries) -> bool:
        families = _families(run_series)
        self.controls.offer_families(families)
        self.title.setVisible(families == ["loss"])
        self.controls.offer_epochs("epoch" in run_series.axes)
        return self.axis_name() in run_series.axes and any(
            series.min is not None for ranks in self._train_and_validation(run_series) for series in ranks
        )

    def _empty_text(self) -> str:
        measured = self.run_series is not None and any(self._train_and_validation(self.run_series))
        if self.run_series is None or not measured or self.axis_name() not in self.run_series.axes:
            return super()._empty_text()
        name = self.controls.family.replace("_", " ")
        return f"All {name} values {'of this run' if self.run_series.training_ended else 'so far'} are NaN or infinite"

    def _whole_span(self, run_series: RunSeries) -> Span:
        lo, hi = self._training_span(run_series)
        return lo, hi + END_ROOM_SHARE * (hi - lo)

    def _training_span(self, run_series: RunSeries) -> Span:
        """Return the range from the beginning of training to its last measurement."""
        axis, every = (
            self.axis(run_series),
            [series for ranks in self._train_and_validation(run_series) for series in ranks],
        )
        if axis.column == "time":
            first, last = axis.origin, max(float(series.times[-1]) for series in every)
            lo, hi = axis.place(np.array([first, last]))
            return float(lo), float(hi) or 1.0
        last = max(float(series.steps[-1]) for series in every)
        lo, hi = axis.place(np.array([0.0, max(last, 1.0)]))
        return float(lo), float(hi)

    def _draw(self, run_series: RunSeries, span: Span, pixels: int) -> None:
        train, validation = self._train_and_validation(run_series)
        smoothing = self.controls.smoothing
        if len(train) > 1:
            self._every.clear()
            self._draw_ranks(train, self._mean, self._spread, run_series=run_series, span=span, pixels=pixels)
        else:
            self._spread.clear()
            self._draw_one(train, run_series, span, pixels, self._every)
            self._draw_mean(train if smoothing else [], run_series, span, pixels)
        if len(validation) > 1:
            self._draw_ranks(
                validation, self._validation, self._validation_spread, run_series=run_series, span=span, pixels=pixels
            )
        else:
            self._validation_spread.clear()
            self._draw_one(validation, run_series, span, pixels, self._validation)

    def _draw_one(self, ranks: list[Series], run_series: RunSeries, span: Span, pixels: int, line: LineItem) -> None:
        axis, log = self.axis(run_series), self.controls.logarithmic
        if ranks:
            line.show(*ranks[0].view(axis, *span, pixels, positive=log), logarithmic=log)
        else:
            line.clear()

    def _draw_mean(self, ranks: list[Series], run_series: RunSeries, span: Span, pixels: int) -> None:
        log = self.controls.logarithmic
        if ranks:
            x, y = ranks[0].smooth(self.axis(run_series), *span, pixels, self.controls.smoothing)
            self._mean.show(x, np.where(y > 0, y, np.nan) if log else y, logarithmic=log)
        else:
            self._mean.clear()

    def _draw_ranks(
        self, ranks: list[Series], line: LineItem, band: BandItem, *, run_series: RunSeries, span: Span, pixels: int
    ) -> None:
        log = self.controls.logarithmic
        weight = self.controls.smoothing if line is self._mean else 0.0
        found = combine(ranks, self.axis(run_series), span, pixels, weight, positive=log)
        line.show(found.x, found.mean, logarithmic=log)
        band.show(found.x, found.low, found.high, logarithmic=log)

    def _y_span(self) -> Span | None:
        return fitting_range(
            [y for _, y in self._heights(*self.canvas.x_range)], ignore_outliers=self.controls.ignores_outliers
        )

    def _heights(self, lo: float, hi: float) -> list[tuple[Floats, Floats]]:
        """Return the positions and heights of all lines over [lo, hi], shape (n,) each."""
        every = [(x[(x >= lo) & (x <= hi)], y[(x >= lo) & (x <= hi)]) for x, y in self.curves().values()]
        return [(x, np.log10(y)) for x, y in every] if self.controls.logarithmic else every

    def _place_marks(self, run_series: RunSeries) -> None:
        train, _ = self._train_and_validation(run_series)
        axis = self.axis(run_series)
        self.arrows.show(self._heights(*self.canvas.x_range))
        self.crosses.show(*self._breaks(train, axis))
        self._place_newest(train, axis, over=run_series.training_ended is not None)
        self.interruptions.show(run_series.interruptions if axis.column == "time" else (), axis)

    def _breaks(self, ranks: list[Series], axis: Axis) -> tuple[Floats, Floats]:
        """Return where values become NaN or infinite, and the heights of the values before, shape (n,) each."""
        x, heights = [np.empty(0)], [np.empty(0)]
        for series in ranks:
            at = series.breaks(axis, *self.canvas.x_range)
            x.append(axis.place((series.steps if axis.column == "step" else series.times)[at]))
            heights.append(np.where(at > 0, series.values[at - 1], np.nan))
        height = np.concatenate(heights)
        if self.controls.logarithmic:
            height = np.log10(np.where(height > 0, height, np.nan))
        return np.concatenate(x), height

    def _place_newest(self, ranks: list[Series], axis: Axis, *, over: bool) -> None:
        """Label the end of the line: the mean if it is drawn, else the last value."""
        newest = mean_of(self._newest(ranks))
        if not np.isfinite(newest) or (self.controls.logarithmic and newest <= 0):
            self.newest.hide()
            return
        guide = _guide(ranks)
        last = (guide.steps if axis.column == "step" else guide.times)[-1:]
        height = np.log10(newest) if self.controls.logarithmic else newest
        text = LAST.format(value=f"{newest:.3g}") if over else NOW.format(value=f"{newest:.3g}")
        self.newest.show(float(axis.place(last)[0]), float(height), text)

    def _newest(self, ranks: list[Series]) -> list[float]:
        """Return the mean, or without smoothing the value, of the last step of each rank."""
        weight = self.controls.smoothing
        found = (series.mean_at(int(series.steps[-1]), weight) if weight else series.last for series in ranks)
        return [value for value in found if value is not None]

    def _readout(self, run_series: RunSeries) -> list[HoverRow]:
        train, validation = self._train_and_validation(run_series)
        rows = []
        newest = self._newest(train)
        if newest:
            is_mean = self.controls.smoothing > 0 or len(train) > 1
            value = mean_of(newest) if len(newest) > 1 else newest[0]
            if not np.isfinite(value):
                is_mean, value = False, train[0].last or value
            label = "train mean" if is_mean else "train"
            rows.append(HoverRow(label=label, value=_value_text(value, 4), colour=self.theme.train))
        last = [series.last for series in validation if series.last is not None]
        if last:
            value = last[0] if len(last) == 1 else mean_of(last)
            rows.append(HoverRow(label="validation", value=_value_text(value, 4), colour=self.theme.validation))
        return rows

    def _apply_theme(self, theme: Theme) -> None:
        smoothed = self.controls.smoothing > 0
        self._every.paint_in(theme.train_faint if smoothed else theme.train)
        self._mean.paint_in(theme.train, width=2)
        self._validation.paint_in(theme.validation, width=1.5)
        self._spread.paint_in(theme.train)
        self._validation_spread.paint_in(theme.validation)
        self.arrows.paint_in(theme.muted)
        self.crosses.paint_in(theme.bad)
        self.newest.paint_in(theme.train, theme.panel)
        self.interruptions.set_theme(theme)

    def _apply_controls(self) -> None:
        """Apply the controls. Another metric or another axis is shown whole."""
        self.canvas.bottom.show_kind(self.axis_name())
        self.canvas.left.show_logarithmic(self.controls.logarithmic)
        self._apply_theme(self.theme)
        shown_of = self.controls.family, self.controls.axis, self.controls.logarithmic
        if shown_of != self._shown_of:
            self._shown_of = shown_of
            self.set_follow(True)
        self.invalidate()


def _families(run_series: RunSeries) -> list[str]:
    """Return the metrics without validation twins and other ranks: the loss first, then other losses."""
    names = {own_name(name, run_series.metrics).removeprefix(VALIDATION): None for name in run_series.metrics}
    if not names.keys() - {"learning_rate"}:
        names = {"loss": None, **names}
    return sorted(names, key=lambda name: (name != "loss", "loss" not in name, name == "learning_rate"))


def _guide(*lines: list[Series]) -> Series:
    """Return the series that has come farthest."""
    return max((series for ranks in lines for series in ranks), key=lambda series: float(series.steps[-1]))


def _between(at: float, known: Floats, wanted: Floats) -> float | None:
    """Interpolate `wanted`, shape (n,), at a place among `known`, which does not decrease; None outside it."""
    return float(np.interp(at, known, wanted)) if known[0] <= at <= known[-1] else None


def _value_text(value: float, digits: int) -> str:
    if np.isfinite(value):
        return f"{value:.{digits}g}"
    return "NaN" if np.isnan(value) else "infinite"
