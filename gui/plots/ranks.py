"""The lines of the ranks of a metric, and of metrics of the same family; the range of the y axis that suits them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.diagnosis.timeline import RATES
from core.series.min_max_tree import Floats
from core.series.run_series import RunSeries
from core.series.series import STEP, Axis, Point, Series
from gui.plots.card import Span

RANKED = re.compile(r"(.+)@[1-9]\d{0,5}\Z")
"""Name of a metric of a rank other than 0. `recall@10` matches too; `own_name` tells them apart by the other names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Positions with mean, minimum and maximum, shape (n,) each; NaN where no rank has a number."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def own_name(name: str, known: Iterable[str]) -> str:
    """Return the name that rank 0 uses for this metric, or the name itself if rank 0 lacks it."""
    found = RANKED.match(name)
    return found[1] if found and found[1] in known else name


def of_ranks(metrics: Mapping[str, Series], name: str) -> list[Series]:
    """Return a metric of every rank that has measured it, rank 0 first."""
    found = {other: series for other, series in metrics.items() if len(series) and own_name(other, metrics) == name}
    return [found[other] for other in sorted(found, key=lambda other: (len(other), other))]


def combine(
    ranks: Sequence[Series], axis: Axis, span: Span, pixels: int, weight: float, *, positive: bool = False
) -> Spread:
    """Return at most two points per pixel to draw over `span`, however many steps there are.

    The mean averages the ranks' exponential means of this weight (`Series.smooth`); minimum and maximum are of single
    values. Ranks are compared by step, because they reach a step at different times. With `positive` (a logarithmic
    scale), values at or below zero are gaps.
    """
    guide = max(ranks, key=lambda series: float(series.steps[-1]))
    lo, hi = _step_span(guide, axis, span)
    means = [series.smooth(STEP, lo, hi, pixels, weight) for series in ranks]
    ends = [series.view(STEP, lo, hi, pixels, positive=positive) for series in ranks]
    if max(len(x) for x, _ in (*means, *ends)) <= pixels:
        steps = np.unique(np.concatenate([x for x, _ in (*means, *ends)]))
    else:
        steps = _columns(means, lo, hi, pixels)
    mean = _mean(np.array([_at(steps, *each, np.fmax) for each in means]))
    return Spread(
        x=axis.place(steps if axis.column == "step" else np.interp(steps, guide.steps, guide.times)),
        mean=np.where(mean > 0, mean, np.nan) if positive else mean,
        low=np.fmin.reduce([_at(steps, *each, np.fmin) for each in ends]),
        high=np.fmax.reduce([_at(steps, *each, np.fmax) for each in ends]),
    )


def at_step(ranks: Sequence[Series], step: int) -> list[Point]:
    """Return what each rank measured at this step; ranks without a value are left out."""
    points = [series.nearest(STEP, step) for series in ranks]
    return [point for point in points if point is not None and point.step == step]


def mean_of(values: Iterable[float]) -> float:
    """Return the mean of the finite values, NaN if there are none; a single value itself."""
    numbers = np.array(list(values), dtype=np.float64)
    return float(numbers[0] if len(numbers) == 1 else _mean(numbers))


def _step_span(guide: Series, axis: Axis, span: Span) -> Span:
    lo, hi = axis.locate(span[0]), axis.locate(span[1])
    if axis.column == "step":
        return lo, hi
    first = int(np.searchsorted(guide.times, lo, side="left"))
    last = int(np.searchsorted(guide.times, hi, side="right")) - 1
    count = len(guide)
    return float(guide.steps[min(max(first, 0), count - 1)]), float(guide.steps[min(max(last, 0), count - 1)])


def _columns(means: Sequence[tuple[Floats, Floats]], lo: float, hi: float, pixels: int) -> Floats:
    """Return the last step of each pixel column, shape (m,), and one step beyond either end if there is one."""
    steps = np.unique(np.concatenate([x for x, _ in means]))
    column = np.floor((steps - lo) / max(hi - lo, 1.0) * pixels)
    last = np.append(np.diff(column) > 0, True)
    ends: Floats = steps[last]
    return ends


def _at(steps: Floats, x: Floats, y: Floats, reduce: np.ufunc) -> Floats:
    """Reduce the values of each interval of steps that ends at one of `steps`; NaN for an empty interval."""
    found = np.full(len(steps), np.nan)
    place = np.searchsorted(steps, x)
    inside = place < len(steps)
    reduce.at(found, place[inside], y[inside])
    return found


def _mean(values: Floats) -> Floats:
    """Return the mean of the finite values along the first axis."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    with np.errstate(over="ignore"):
        total = np.where(finite, values, 0.0).sum(axis=0)
    mean: Floats = np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)
    return mean


VALIDATION = "val_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric such as `loss`, and `val_loss` with it. Each list has one series for each rank that measured it."""

    name: str
    train: list[Series]
    validation: list[Series]
    unit: str
    """What its steps count: `step`, or `epoch` for a script that reports no steps."""

    @classmethod
    def of(cls, run_series: RunSeries, name: str) -> Family:
        """Return the metric of a run, empty if nothing of it was measured."""
        metrics, twin = run_series.drawn, VALIDATION + name
        unit = "epoch" if (name if name in metrics else twin) in run_series.by_epoch else "step"
        return cls(name=name, train=of_ranks(metrics, name), validation=of_ranks(metrics, twin), unit=unit)

    @property
    def every(self) -> list[Series]:
        """All its series: training first."""
        return [*self.train, *self.validation]

    @property
    def guide(self) -> Series:
        """The series that has come farthest; raises `ValueError` if there is none."""
        return max(self.every, key=lambda series: float(series.steps[-1]))

    def time_at(self, axis: Axis, x: float) -> float | None:
        """Return the unix time at which the step at a position was measured; None beyond the first and the last."""
        if not self.every:
            return None
        return _between(axis.locate(x), _along(self.guide, axis), self.guide.times)

    def place_time(self, axis: Axis, time: float) -> float | None:
        """Return the position of the step measured at a unix time; None before the first and after the last."""
        column = _between(time, self.guide.times, _along(self.guide, axis)) if self.every else None
        return None if column is None else float(axis.place(np.array([column]))[0])

    def measured_in(self, since: float | None, until: float | None) -> bool:
        """Return whether training was going on between these unix times; None: without an end."""
        if not self.every:
            return False
        first, last = self.guide.times[[0, -1]]
        return bool((since is None or since < last) and (until is None or until > first))

    def span(self, axis: Axis) -> Span:
        """Return the range from the beginning of training to the last measurement."""
        last = max(float(_along(series, axis)[-1]) for series in self.every)
        if axis.column == "time":
            return 0.0, float(axis.place(np.array([last]))[0]) or 1.0
        return 0.0, float(axis.place(np.array([max(last, 1.0)]))[0])

    def newest(self, weight: float) -> tuple[float, bool]:
        """Return the newest value of the training, and whether it is a mean: of steps (`weight` > 0) or of ranks.

        A value that is not finite is returned itself: a mean of the values before would hide it.
        """
        found = [series.mean_at(int(series.steps[-1]), weight) for series in self.train]
        means = [mean for mean in found if mean is not None]
        mean = mean_of(means)
        if np.isfinite(mean) or not self.train:
            return mean, weight > 0 or len(means) > 1
        return float(self.train[0].values[-1]), False

    def breaks(self, axis: Axis, lo: float, hi: float) -> tuple[Floats, Floats]:
        """Return where over [lo, hi] values become NaN or infinite, and the value before each, shape (n,) each."""
        x, before = [np.empty(0)], [np.empty(0)]
        for series in self.every:
            at = series.breaks(axis, lo, hi)
            x.append(axis.place(_along(series, axis)[at]))
            before.append(np.where(at > 0, series.values[at - 1], np.nan))
        return np.concatenate(x), np.concatenate(before)


def families(run_series: RunSeries) -> list[str]:
    """Return the metrics without validation twins and other ranks: losses first, what is set and the rates last."""
    metrics = run_series.drawn
    names = {own_name(name, metrics).removeprefix(VALIDATION): None for name in metrics}
    last = ("learning_rate", *RATES)
    if not names.keys() - {*last}:
        names = {"loss": None, **names}
    return sorted(names, key=lambda name: (name != "loss", "loss" not in name, name in last, name in RATES))


def _along(series: Series, axis: Axis) -> Floats:
    return series.steps if axis.column == "step" else series.times


def _between(at: float, known: Floats, wanted: Floats) -> float | None:
    """Interpolate `wanted`, shape (n,), at a place among `known`, which does not decrease; None outside it."""
    return float(np.interp(at, known, wanted)) if known[0] <= at <= known[-1] else None


OUTSIDE_SHARE = 0.01
"""Share of a line's values at either end that may lie outside."""
MIN_VALUES = 20
"""A line with fewer values is shown whole."""
NEAR_SHARE = 0.5
"""Values beyond the range by at most this share of its height are shown all the same."""
LEADING_SHARE = 2.0
"""The same for values with which a line comes into the range, of which each widens it."""
ROOM_SHARE = 0.05
"""Free room above and below the lines."""


def fitting_range(lines: Sequence[Floats], *, ignore_outliers: bool) -> Span | None:
    """Return the range that suits these lines, with some room; None if they have no finite value.

    With `ignore_outliers`, it reaches from the 1st to the 99th percentile of each line, and to the values beyond that
    are near. Each line counts by itself: a validation has a hundredth of the values of the training. Values with which
    a line comes into the range are no outliers, unless one lies far beyond the others.
    """
    finite = [line[np.isfinite(line)] for line in lines]
    finite = [line for line in finite if len(line)]
    if not finite:
        return None
    lo, hi = min(float(line.min()) for line in finite), max(float(line.max()) for line in finite)
    if ignore_outliers:
        inner = [_percentiles(line) for line in finite]
        lo, hi = min(ends[0] for ends in inner), max(ends[1] for ends in inner)
        for line in finite:
            begun = np.sort(line[: np.argmax((line >= lo) & (line <= hi))])
            for value in [*begun[begun > hi].tolist(), *begun[begun < lo][::-1].tolist()]:
                if max(value - hi, lo - value) <= LEADING_SHARE * ((hi - lo) or abs(hi)):
                    lo, hi = min(lo, value), max(hi, value)
        near = NEAR_SHARE * (hi - lo)
        inside = [line[(line >= lo - near) & (line <= hi + near)] for line in finite]
        lo, hi = min(float(line.min()) for line in inside), max(float(line.max()) for line in inside)
    room = ROOM_SHARE * (hi - lo) or 0.5 * abs(hi) or 0.5
    return lo - room, hi + room


def _percentiles(line: Floats) -> Span:
    """Return values of the line itself, rounded towards its middle: one of twenty values may be an outlier too."""
    if len(line) < MIN_VALUES:
        return float(line.min()), float(line.max())
    outside = max(int(OUTSIDE_SHARE * len(line)), 1)
    ordered = np.partition(line, (outside, len(line) - 1 - outside))
    return float(ordered[outside]), float(ordered[-1 - outside])
