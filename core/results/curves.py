"""What is drawn of several runs: smoothed curves, means of runs that differ only in the seed, and axes.

A curve costs the same for a thousand and for a million steps, and nothing is kept between two frames: a hundred long
runs are drawn from what their series have anyway.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from core.arrays import np
from core.results.measured_run import MeasuredRun
from core.series.min_max_tree import FACTOR, Floats, Indices, finite_or_nan
from core.series.series import STEP, Axis, ExponentialMean, Series, interpolate

if TYPE_CHECKING:
    from numpy.typing import NDArray


FORGOTTEN = 1e-5
"""Weight at which an earlier value does not count any more."""
MIN_MAX, DEVIATION, INTERVAL = "min-max", "deviation", "interval"
"""What a band shows: minimum and maximum, one standard deviation, the 95 % confidence interval of the mean."""
BANDS = (MIN_MAX, DEVIATION, INTERVAL)
MIN_SHARE = 0.1
"""On a logarithmic scale, a band does not reach below this share of the smallest value."""
T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
"""The 97.5th percentiles of Student's t distribution for 1, 2, ... 30 degrees of freedom."""
Span = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A run of a group: what it measured, and its axis."""

    series: Series
    axis: Axis


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCurve:
    """The mean of a group and its band, shape (n,) each: NaN where not all of its runs have a number."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    rest: tuple[tuple[Floats, Floats], ...]
    """Positions and values of each run where not all runs have a number, such as after the end of the shortest."""


class _Along:
    """Steps or times of a series. Consecutive steps are computed: to look them up would read a long run from disk."""

    def __init__(self, series: Series, column: str) -> None:
        self._all = series.steps if column == "step" else series.times
        count = len(self._all)
        # Steps are whole numbers that increase.
        self._consecutive = column == "step" and count > 0 and self._all[-1] - self._all[0] == count - 1

    def __len__(self) -> int:
        return len(self._all)

    def find(self, wanted: Floats, *, after: bool = False) -> Indices:
        """Return the indices of the first that are not below (`after`: that are above) wanted ones, shape (n,)."""
        if not self._consecutive:
            return np.searchsorted(self._all, wanted, side="right" if after else "left")
        places = np.floor(wanted - self._all[0]) + 1 if after else np.ceil(wanted - self._all[0])
        found: Indices = np.clip(places, 0, len(self._all)).astype(np.intp)
        return found

    def at(self, indices: Indices) -> Floats:
        """Return those with these indices."""
        if self._consecutive:
            return np.asarray(self._all[0] + indices, dtype=np.float64)
        found: Floats = self._all[indices]
        return found


def curve(
    series: Series, axis: Axis, span: Span, pixels: int, weight: float, *, positive: bool = False
) -> tuple[Floats, Floats]:
    """Return positions and values of a smoothed line over `span`, shape (m,) each, m <= 2 * pixels + 4.

    The smoothing is that of `ExponentialMean`. With more steps than columns, a point is the mean over a column, and
    the steps within a column count as if all had that mean. With `weight` 0, each column gives its smallest and its
    largest value instead, so that spikes remain visible. `positive`: values at or below zero are gaps.
    """
    along = _Along(series, axis.column)
    if not len(along):
        return np.empty(0), np.empty(0)
    borders = axis.locate_all(np.linspace(*span, pixels + 1))
    edges = along.find(borders)
    start, stop = int(edges[0]), int(max(edges[0], along.find(borders[-1:], after=True)[0]))
    if stop - start <= 2 * pixels:
        first, last = max(start - 1, 0), min(stop + 1, len(along))
        x, y = axis.place(along.at(np.arange(first, last))), _smoothed(series, first, last, weight)
    else:
        edges = np.append(edges[:-1], stop)
        x, y = _in_columns(series, axis, along, edges, weight)
    return x, np.where(y > 0, y, np.nan) if positive else y


def group_curve(
    members: Sequence[Member], span: Span, pixels: int, weight: float, band: str, *, positive: bool = False
) -> GroupCurve:
    """Return the mean of runs over `span`, compared step by step; every run has values. `band`: one of `BANDS`.

    The positions are the means of the runs' positions at a step.
    """
    ends = [_steps_within(each, span) for each in members]
    lo, hi = min(first for first, _ in ends), max(last for _, last in ends)
    inside = [_between(each.series, lo, hi) for each in members]
    if max(last - first for first, last in inside) <= 2 * pixels:
        steps = np.unique(np.concatenate([
            each.series.steps[first:last] for each, (first, last) in zip(members, inside, strict=True)
        ]))
        values = np.array([
            _at_steps(each.series, first, last, steps, weight)
            for each, (first, last) in zip(members, inside, strict=True)
        ])
    else:
        borders = np.linspace(lo, hi, pixels + 1)
        steps, values = borders[1:], np.array([_between_steps(each.series, borders, weight) for each in members])
    if positive:
        values = np.where(values > 0, values, np.nan)
    x = np.array([_place(each, steps) for each in members]).mean(axis=0)
    complete = np.isfinite(values).all(axis=0)
    mean, low, high = _spread(np.where(complete, values, np.nan), band)
    if positive:  # a deviation may reach below zero, where a logarithmic scale has no place for it
        low = np.where(complete, np.fmax(low, MIN_SHARE * np.fmin.reduce(values, axis=0)), np.nan)
    rest = tuple((_place(each, steps), _alone(own, complete)) for each, own in zip(members, values, strict=True))
    return GroupCurve(x=x, mean=mean, low=low, high=high, rest=rest if not complete.all() else ())


def column_smoothing(means: Floats, counts: Floats, weight: float) -> Floats:
    """Smooth columns of the given means and numbers of steps, shape (n,) each; a column without a mean is a gap.

    With one step a column, this is the exponential mean itself that begins at the first value. In a wider column, each
    step counts with the mean of its column; the result is the mean over the steps of the column.
    """
    finite = np.isfinite(means)
    values, steps = means[finite], counts[finite]
    if not len(values) or not weight:
        return means
    kept = weight**steps
    pairs = zip(values.tolist(), kept.tolist(), strict=True)
    ends = np.array(list(accumulate(pairs, _step, initial=float(values[0]))))
    smoothed = np.full(len(means), np.nan)
    lag = (1 - kept) * weight / (steps * (1 - weight))
    smoothed[finite] = values + (ends[:-1] - values) * lag
    return smoothed


def _step(state: float, column: tuple[float, float]) -> float:
    """Return the exponential mean at the end of a column, given its mean and the weight of all that is before it."""
    value, kept = column
    return value + (state - value) * kept


def _smoothed(series: Series, first: int, last: int, weight: float) -> Floats:
    """Return the exponential means of the values with these indices, shape (n,)."""
    if not weight:
        return finite_or_nan(series.values[first:last])
    begin = max(first - _memory(weight), 0)
    mean = ExponentialMean(weight)
    mean.extend(series.values[begin:last])
    return finite_or_nan(mean.array[first - begin :])


def _memory(weight: float) -> int:
    """Return the number of steps after which a value is forgotten."""
    return math.ceil(math.log(FORGOTTEN) / math.log(weight)) if weight else 0


def _in_columns(series: Series, axis: Axis, along: _Along, edges: Indices, weight: float) -> tuple[Floats, Floats]:
    """Return positions and values of the columns between indices, and of one column beyond either end."""
    width = max((int(edges[-1]) - int(edges[0])) // (len(edges) - 1), 1)
    more = _memory(weight) // width + 1  # columns before the first, from which it is smoothed
    before = np.maximum(int(edges[0]) - width * np.arange(more, 0, -1), 0)
    edges = _aligned(np.concatenate([before, edges, [min(int(edges[-1]) + width, len(series))]]), width)
    starts, stops = edges[:-1], edges[1:]
    shown = np.arange(len(starts)) >= more - 1
    filled = stops > starts
    starts, stops, shown = starts[filled], stops[filled], shown[filled]
    if weight:
        y = column_smoothing(series.interval_means(starts, stops), (stops - starts).astype(np.float64), weight)
        return axis.place(along.at(stops[shown] - 1)), y[shown]
    low, high = series.interval_extremes(starts[shown], stops[shown])
    x = axis.place(along.at(np.column_stack([starts[shown], stops[shown] - 1]).ravel()))
    return x, np.column_stack([low, high]).ravel()


def _aligned(edges: Indices, width: int) -> Indices:
    """Move edges by less than an eighth of a column, to where blocks of the trees end: they are read faster."""
    block = FACTOR ** int(math.log(width / 8, FACTOR)) if width >= 8 * FACTOR else 1
    return edges // block * block


# -- groups --------------------------------------------------------------------------------------


def _steps_within(member: Member, span: Span) -> Span:
    """Return the first and the last step to draw of a run."""
    series, (lo, hi) = member.series, (member.axis.locate(end) for end in span)
    if member.axis.column == "step":
        return lo, hi
    found = np.searchsorted(series.times, [lo, hi])
    first, last = (min(max(int(at), 0), len(series) - 1) for at in (found[0], found[1]))
    return float(series.steps[first]), float(series.steps[last])


def _between(series: Series, lo: float, hi: float) -> tuple[int, int]:
    along = _Along(series, "step")
    first, last = int(along.find(np.array([lo]))[0]), int(along.find(np.array([hi]), after=True)[0])
    return first, max(first, last)


def _at_steps(series: Series, first: int, last: int, steps: Floats, weight: float) -> Floats:
    found = np.full(len(steps), np.nan)
    found[np.searchsorted(steps, series.steps[first:last])] = _smoothed(series, first, last, weight)
    return found


def _between_steps(series: Series, borders: Floats, weight: float) -> Floats:
    """Return the value in each interval between steps, shape (n + 1,) -> (n,); NaN where a run has none."""
    first, last = _between(series, float(borders[0]), float(borders[-1]))
    edges = np.append(_Along(series, "step").find(borders[:-1]), last)
    width = max((last - first) // (len(edges) - 1), 1)
    more = min(_memory(weight) // width + 1, first // width)
    before = first - width * np.arange(more, 0, -1)
    edges = _aligned(np.concatenate([before, edges]).astype(np.intp), width)
    starts, stops = edges[:-1], edges[1:]
    found = np.full(len(starts), np.nan)
    filled = stops > starts
    means = series.interval_means(starts[filled], stops[filled])
    found[filled] = column_smoothing(means, (stops - starts)[filled].astype(np.float64), weight)
    return found[more:]


def _place(member: Member, steps: Floats) -> Floats:
    if member.axis.column == "step":
        return member.axis.place(steps)
    known, times = member.series.steps, member.series.times
    return member.axis.place(interpolate(np.clip(steps, known[0], known[-1]), known, times))


def _alone(own: Floats, complete: NDArray[np.bool_]) -> Floats:
    """Return the values of a run where not all have one, from the last common one on: it connects them to the mean."""
    found = np.where(complete, np.nan, own)
    leaves = complete[:-1] & np.isfinite(found[1:])
    found[:-1][leaves] = own[:-1][leaves]
    return found


def _spread(values: Floats, band: str) -> tuple[Floats, Floats, Floats]:
    """Return mean, lower and upper end of the band, shape (runs, n) -> (n,) each."""
    mean: Floats = values.mean(axis=0)
    if band == MIN_MAX:
        return mean, values.min(axis=0), values.max(axis=0)
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    half = deviation
    if band == INTERVAL:
        degrees = len(values) - 1
        half = deviation * (T_95[degrees - 1] if 1 <= degrees <= len(T_95) else 1.96) / math.sqrt(len(values))
    return mean, mean - half, mean + half


# -- the axes -------------------------------------------------------------------------------------

KNOTS = 4096
"""Steps of which a guide knows the times."""
AXES = ("step", "epoch", "samples", "training", "wall")
"""`training`: seconds of training without interruptions; `wall`: seconds since a moment that all runs share."""


def axis_of(run: MeasuredRun, name: str, metric: str = "", origin: float = 0.0) -> Axis | None:
    """Return an axis of `AXES` for a run; None if the run does not say what it needs, such as steps per epoch.

    `metric`: its steps may be numbers of epochs. `origin`: unix time at which the axis `wall` begins.
    """
    by_epoch, plan = metric in run.series.by_epoch, run.plan
    match name:
        case "epoch":
            per_epoch = 1 if by_epoch else run.series.steps_per_epoch
            return Axis(column="step", unit=float(per_epoch)) if per_epoch else None
        case "samples":
            if plan is None or not plan.samples_per_epoch or not plan.steps_per_epoch:
                return None
            return Axis(column="step", unit=(1 if by_epoch else plan.steps_per_epoch) / plan.samples_per_epoch)
        case "training":
            return run.series.axes["training"]
        case "wall":
            return Axis(column="time", origin=origin)
        case _:
            return STEP


@dataclass(frozen=True, slots=True)
class Guide:
    """Tells when each step was, shape (n,) each; n is at most `KNOTS`. Between two steps the time runs evenly."""

    steps: Floats
    times: Floats
    """Unix seconds."""

    def times_of(self, axis: Axis, positions: Floats) -> Floats:
        """Return the unix times of positions on an axis, shape (n,) -> (n,); NaN beyond the first and the last step."""
        located = axis.locate_all(positions)
        if axis.column == "time":
            return located
        if not len(self.steps):
            return np.full(len(positions), np.nan)
        timed: Floats = np.interp(located, self.steps, self.times, left=np.nan, right=np.nan)
        return timed

    def ends(self, axis: Axis) -> tuple[float, float] | None:
        """Return the positions of the first and the last step; None without steps."""
        if not len(self.steps):
            return None
        first, last = axis.place((self.steps if axis.column == "step" else self.times)[[0, -1]]).tolist()
        return first, last


def guide_of(run: MeasuredRun) -> Guide:
    """Return the guide of a run: the steps and times of the metric that has most of them."""
    metrics, by_epoch = run.series.metrics, run.series.by_epoch
    found = [each for name, each in metrics.items() if name not in by_epoch and len(each)] or list(metrics.values())
    longest = max(found, key=len, default=None)
    if longest is None or not len(longest):
        return Guide(np.empty(0), np.empty(0))
    at = np.linspace(0, len(longest) - 1, min(len(longest), KNOTS)).astype(np.intp)
    return Guide(longest.steps[at], longest.times[at])
