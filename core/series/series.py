"""A series of measurements by step and time, which can be drawn at any zoom in constant time, and its smoothed mean."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from core.arrays import np
from core.series.min_max_tree import Floats, GrowableArray, Indices, RangeTree, finite_or_nan, finite_or_zero

BLOCK = 64
"""Values in a block of `_recur`."""
FEW = 4 * BLOCK
"""Up to this many values, a plain loop is as fast as blocks."""
PART = 1 << 20
"""Values that are averaged at once, to bound the memory."""


class ExponentialMean:
    """The mean after each value, in which a value counts `weight` times as much as its successor.

    The formula is TensorBoard's (`tf_line_chart_data`, `resmoothDataset`): m = weight * m + (1 - weight) * value,
    beginning at 0, and mean = m / (1 - weight ** n) after n values. The division corrects the bias towards 0, so that
    the mean begins at the first value. As there, a value that is not finite gets no mean and changes none.
    """

    def __init__(self, weight: float) -> None:
        """`weight`: above 0, below 1."""
        self.weight = weight
        self._means = GrowableArray(480)
        self.totals = RangeTree(self._means, np.add, finite_or_zero)
        """Sums of the means over ranges; a value without a mean counts as 0."""
        self._count = 0
        """Finite values so far."""
        self._state = 0.0
        """m after the last finite value."""

    def __len__(self) -> int:
        return len(self._means)

    @property
    def array(self) -> Floats:
        """The mean after each value, shape (n,); NaN after one that is not finite."""
        return self._means.array

    def extend(self, values: Floats) -> None:
        """Append values, shape (k,). Earlier means stay as they are: the cost is O(k)."""
        for begin in range(0, len(values), PART):
            self._extend(values[begin : begin + PART])

    def truncate(self, size: int) -> None:
        """Keep only the means of the first `size` values."""
        self._means.truncate(size)
        self.totals.truncate(size)
        kept = self.array[np.isfinite(self.array)]
        self._count = len(kept)
        self._state = float(kept[-1] * self._correction(self._count)) if len(kept) else 0.0

    def _extend(self, values: Floats) -> None:
        finite = np.isfinite(values)
        numbers = values[finite]
        means = np.full(len(values), np.nan)
        if len(numbers):
            states = _recur((1 - self.weight) * numbers, self.weight, self._state)
            counts = np.arange(self._count + 1, self._count + len(numbers) + 1)
            with np.errstate(over="ignore"):  # at the limit of float64 a mean may be rounded to infinity
                means[finite] = states / self._correction(counts)
            self._state, self._count = float(states[-1]), int(counts[-1])
        self._means.extend(means)

    def _correction(self, counts: int | np.ndarray) -> Floats:
        """Return 1 - weight ** counts."""
        corrections: Floats = -np.expm1(np.log(self.weight) * counts)
        return corrections


def _recur(numbers: Floats, weight: float, state: float) -> Floats:
    """Return all states of state = weight * state + number, shape (n,).

    All blocks are computed side by side from 0. Their ends follow a recurrence of the same form, which then gives the
    state before each block.
    """
    if len(numbers) <= FEW:
        states = accumulate(numbers.tolist(), lambda before, number: weight * before + number, initial=state)
        return np.array(list(states)[1:])
    count = len(numbers) // BLOCK
    blocks = numbers[: count * BLOCK].reshape(count, BLOCK).T.copy()
    for row in range(1, BLOCK):
        blocks[row] += weight * blocks[row - 1]
    ends = _recur(blocks[-1], weight**BLOCK, state)
    before = np.concatenate([[state], ends[:-1]])
    blocks += weight ** np.arange(1, BLOCK + 1)[:, None] * before
    rest = _recur(numbers[count * BLOCK :], weight, float(ends[-1]))
    return np.concatenate([blocks.T.ravel(), rest])


SEARCHED = 4096
"""Values of a block that is searched one by one: a power of the factor of the trees, so that its end costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A horizontal axis: position = (step or unix time - origin - what is cut out before it) / unit."""

    column: Literal["step", "time"]
    origin: float = 0.0
    unit: float = 1.0
    cuts: tuple[tuple[float, float], ...] = ()
    """Intervals of steps or times that have no room on the axis: from the origin on, in order, without overlaps."""

    def place(self, column: Floats) -> Floats:
        """Return the positions of steps or times, shape (n,) -> (n,)."""
        placed = column - self.origin
        if self.cuts:
            since, until = np.array(self.cuts).T
            begun = np.searchsorted(since, column)  # the cuts that begin before each
            whole = np.concatenate([[0.0], np.cumsum(until - since)])
            placed -= whole[begun] - np.maximum(np.concatenate([[-np.inf], until])[begun] - column, 0.0)
        return placed if self.unit == 1.0 else placed / self.unit

    def locate(self, position: float) -> float:
        """Return the step or unix time at a position; at a cut, the one before it."""
        return float(self.locate_all(np.array([position]))[0])

    def locate_all(self, positions: Floats) -> Floats:
        """Return the steps or unix times at positions, shape (n,) -> (n,)."""
        located = positions * self.unit + self.origin
        if self.cuts:
            since, until = np.array(self.cuts).T
            whole = np.concatenate([[0.0], np.cumsum(until - since)])
            located += whole[np.searchsorted(since - whole[:-1], located)]
        return located


STEP = Axis(column="step")


def interpolate(at: Floats, known: Floats, wanted: Floats) -> Floats:
    """Return values of `wanted`, shape (n,), at places among `known`, which does not decrease; NaN outside it.

    `numpy.interp` reads all n numbers; this reads those beside the places.
    """
    right = np.clip(np.searchsorted(known, at), 1, max(len(known) - 1, 1)).astype(np.intp)
    left = right - 1
    if len(known) < 2:
        return np.where(at == known[0], wanted[0], np.nan) if len(known) else np.full(len(at), np.nan)
    width = known[right] - known[left]
    share = np.divide(at - known[left], width, out=np.ones(len(at)), where=width > 0)
    inside = (at >= known[0]) & (at <= known[-1])
    return np.where(inside, wanted[left] + share * (wanted[right] - wanted[left]), np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measurement. `time` is in unix seconds; `value` may be NaN or infinite."""

    step: int
    time: float
    value: float


def _finite_as_numbers(values: Floats) -> Floats:
    """Return 1 for a finite value, else 0. It has a name, so that a series can be pickled."""
    return np.isfinite(values).astype(np.float64)


class Series:
    """Steps, times and values of one metric or one device's readings, in order of arrival.

    A value that is not finite is a gap. Steps and times never decrease. A batch that begins at or before the last step
    replaces the later values (the run resumed from an older checkpoint). A time before the last one counts as the last
    one (the clock was set back).
    """

    def __init__(self) -> None:
        # Of different capacities, so that not all of them are copied at the same moment (`GrowableArray`). What is
        # kept of a day with a reading a second, some 6 000, fits into the room for an hour (`DeviceSeries`).
        self._steps = GrowableArray(256)
        self._times = GrowableArray(384)
        self._values = GrowableArray(400)
        self._low = RangeTree(self._values, np.fmin, finite_or_nan)
        self._high = RangeTree(self._values, np.fmax, finite_or_nan)
        self._total = RangeTree(self._values, np.add, finite_or_zero)
        self._finite = RangeTree(self._values, np.add, _finite_as_numbers)
        self._mean: ExponentialMean | None = None
        self._broken = GrowableArray()
        """The indices for `breaks` among the first `_searched` values."""
        self._searched = 0
        self._complete = True  # no gap so far, so finite values need not be counted

    def __len__(self) -> int:
        return len(self._values)

    @property
    def count(self) -> int:
        """The number of values, including gaps."""
        return len(self._values)

    @property
    def size_bytes(self) -> int:
        """The memory of the values and of what is derived from them, about."""
        return 4 * self._values.array.nbytes

    @property
    def first(self) -> float | None:
        """The first value; None if there is none."""
        return float(self._values.array[0]) if len(self) else None

    @property
    def last(self) -> float | None:
        """The last value; None if there is none."""
        return float(self._values.array[-1]) if len(self) else None

    @property
    def min(self) -> float | None:
        """The smallest finite value; None if there is none."""
        return self._extreme(self._low)

    @property
    def max(self) -> float | None:
        """The largest finite value; None if there is none."""
        return self._extreme(self._high)

    def _extreme(self, tree: RangeTree) -> float | None:
        found = float(tree.query(np.array([0]), np.array([len(self)]))[0])
        return None if np.isnan(found) else found

    @property
    def steps(self) -> Floats:
        """All steps, shape (n,)."""
        return self._steps.array

    @property
    def times(self) -> Floats:
        """All times in unix seconds, shape (n,)."""
        return self._times.array

    @property
    def values(self) -> Floats:
        """All values, shape (n,)."""
        return self._values.array

    def append(self, steps: Floats, times: Floats, values: Floats) -> None:
        """Append measurements, three arrays of shape (k,). `steps` increase; `times` are unix seconds."""
        if not len(steps):
            return
        if len(self) and steps[0] <= self.steps[-1]:
            self._truncate(int(np.searchsorted(self.steps, steps[0])))
        rising = np.maximum.accumulate(times)
        if len(self) and rising[0] < self.times[-1]:
            rising = np.maximum(rising, self.times[-1])
        self._steps.extend(steps)
        self._times.extend(rising)
        self._values.extend(values)
        self._complete = self._complete and bool(np.isfinite(values).all())

    def view(self, axis: Axis, lo: float, hi: float, pixels: int, *, positive: bool = False) -> tuple[Floats, Floats]:
        """Return the positions and values of a line over [lo, hi] on `pixels` columns, shape (m,) each.

        Up to two points a pixel are returned unchanged. With more points, each pixel column gives its smallest and its
        largest value, so that spikes remain visible, and m <= 2 * pixels + 2. A column without a finite value is a gap
        (NaN). One point beyond each end is included, so that lines reach the border. With `positive` (for a logarithmic
        scale), values at or below zero are gaps too; a column with both kinds gives its largest value twice.
        """
        start, stop = self._range(axis, lo, hi)
        before, after = max(start - 1, 0), min(stop + 1, len(self))
        if after - before <= 2 * pixels + 2:
            return self._exact(axis, before, after, positive=positive)
        starts, stops = self._columns(axis, lo, hi, pixels)
        pieces = [
            self._exact(axis, before, start, positive=positive),
            self._extremes(axis, starts, stops, positive=positive),
            self._exact(axis, stop, after, positive=positive),
        ]
        return np.concatenate([x for x, _ in pieces]), np.concatenate([y for _, y in pieces])

    def smooth(self, axis: Axis, lo: float, hi: float, pixels: int, weight: float) -> tuple[Floats, Floats]:
        """Return positions and means over [lo, hi], shape (m,): exponential means (`ExponentialMean`) of the values.

        `weight` is at least 0 and below 1; with 0, the values count as their own means. With more points than pixels,
        each pixel column gives one point: its last position, and the mean of its means. One point beyond each end is
        included. A value that is not finite is a gap.
        """
        start, stop = self._range(axis, lo, hi)
        before, after = max(start - 1, 0), min(stop + 1, len(self))
        if after - before <= pixels + 2:
            return axis.place(self._along(axis)[before:after]), finite_or_nan(self._means(weight)[before:after])
        starts, stops = self._columns(axis, lo, hi, pixels)
        first, last = np.arange(before, start), np.arange(stop, after)
        starts, stops = np.concatenate([first, starts, last]), np.concatenate([first + 1, stops, last + 1])
        tree = self._exponential_mean(weight).totals if weight else self._total
        return axis.place(self._along(axis)[stops - 1]), self._mean_between(starts, stops, tree)

    def mean_at(self, step: int, weight: float) -> float | None:
        """Return the exponential mean at a step, NaN if its value is not finite; None if the step has no value."""
        at = int(np.searchsorted(self.steps, step))
        return float(self._means(weight)[at]) if at < len(self) and self.steps[at] == step else None

    def rate(self, training: Axis, per_step: float) -> Series:
        """Return `per_step` times the steps in a second of training: at most 1024 means, over a second or more."""
        rate = Series()
        if len(self) > 1:
            begun, ended = training.place(self.times[[0, -1]]).tolist()
            every_s = 2.0 ** np.ceil(np.log2(max((ended - begun) / 1024, 1.0)))  # seldom another one
            borders = training.locate_all(np.arange(begun, ended + every_s / 2, every_s))
            at = np.unique(np.searchsorted(self.times, borders).clip(max=len(self) - 1))
            steps, times = self.steps[at], self.times[at]
            seconds = np.diff(training.place(times)).round(6)  # unix times have no more digits
            with np.errstate(divide="ignore"):  # a pause may lie between two steps: a gap
                rate.append(steps[1:], times[1:], per_step * np.diff(steps) / seconds)
        return rate

    def breaks(self, axis: Axis, lo: float, hi: float) -> Indices:
        """Return the indices of the values over [lo, hi] that are not finite and follow a finite one, or nothing."""
        if self._complete:
            return np.empty(0, dtype=np.intp)
        self._find_breaks()
        found = self._broken.array
        start, stop = np.searchsorted(found, self._range(axis, lo, hi))
        return found[start:stop].astype(np.intp)

    def nearest(self, axis: Axis, position: float) -> Point | None:
        """Return the measurement nearest to a position on the axis; None if there is none."""
        if not len(self):
            return None
        along, wanted = self._along(axis), axis.locate(position)
        right = min(int(np.searchsorted(along, wanted)), len(self) - 1)
        left = max(right - 1, 0)
        at = left if wanted - along[left] < along[right] - wanted else right
        return Point(step=int(self.steps[at]), time=float(self.times[at]), value=float(self.values[at]))

    @property
    def weight(self) -> float | None:
        """The weight of the exponential mean that was asked for last; None if none was."""
        return self._mean.weight if self._mean is not None else None

    def interval_means(self, starts: Indices, stops: Indices) -> Floats:
        """Return the mean of the finite values of each range of indices [start, stop), shape (m,); a gap is NaN."""
        return self._mean_between(starts, stops, self._total)

    def interval_extremes(self, starts: Indices, stops: Indices) -> tuple[Floats, Floats]:
        """Return the smallest and the largest finite value of each range of indices, shape (m,) each; a gap is NaN."""
        return self._low.query(starts, stops), self._high.query(starts, stops)

    def extreme_index(self, *, lowest: bool) -> int | None:
        """Return the index of the first of the lowest, or of the highest, finite values; None if there is none."""
        found = self._blocks(self._low if lowest else self._high)
        if np.isnan(found).all():
            return None
        begin = SEARCHED * int(np.nanargmin(found) if lowest else np.nanargmax(found))
        values = finite_or_nan(self.values[begin : begin + SEARCHED])
        return begin + int(np.nanargmin(values) if lowest else np.nanargmax(values))

    def first_reaching(self, target: float, *, below: bool) -> int | None:
        """Return the index of the first finite value at or `below` a target, or at or above it; None without one."""
        found = self._blocks(self._low if below else self._high)
        blocks = np.flatnonzero(found <= target if below else found >= target)
        if not len(blocks):
            return None
        begin = SEARCHED * int(blocks[0])
        values = finite_or_nan(self.values[begin : begin + SEARCHED])
        return begin + int(np.argmax(values <= target if below else values >= target))

    def _blocks(self, tree: RangeTree) -> Floats:
        """Return what a tree finds in each block of `SEARCHED` values."""
        starts = np.arange(0, len(self), SEARCHED)
        return tree.query(starts, np.minimum(starts + SEARCHED, len(self)))

    def prepare(self, like: Series | None = None) -> None:
        """Do now what the first drawing would have to do for the values that are new.

        `like`: a series that was drawn; this one will be smoothed as it was.
        """
        for tree in self._trees:
            tree.grow()
        if like is not None and like.weight is not None:
            self._exponential_mean(like.weight).totals.grow()

    @property
    def _trees(self) -> tuple[RangeTree, RangeTree, RangeTree, RangeTree]:
        return self._low, self._high, self._total, self._finite

    def _truncate(self, size: int) -> None:
        for part in (self._steps, self._times, self._values, *self._trees):
            part.truncate(size)
        if self._mean is not None:
            self._mean.truncate(size)
        self._searched = min(self._searched, size)
        self._broken.truncate(int(np.searchsorted(self._broken.array, size)))

    def _along(self, axis: Axis) -> Floats:
        return self.steps if axis.column == "step" else self.times

    def _range(self, axis: Axis, lo: float, hi: float) -> tuple[int, int]:
        """Return the index range [start, stop) of the points inside [lo, hi]."""
        along = self._along(axis)
        start = along.searchsorted(axis.locate(lo), side="left")
        stop = along.searchsorted(axis.locate(hi), side="right")
        return int(start), max(int(start), int(stop))

    def _columns(self, axis: Axis, lo: float, hi: float, pixels: int) -> tuple[Indices, Indices]:
        """Return the index ranges [start, stop) of the pixel columns with points, shape (m,) each."""
        start, stop = self._range(axis, lo, hi)
        borders = axis.locate_all(np.linspace(lo, hi, pixels + 1)[1:-1])
        inner = np.searchsorted(self._along(axis), borders)
        edges = np.concatenate([[start], np.clip(inner, start, stop), [stop]])
        starts, stops = edges[:-1], edges[1:]
        filled = stops > starts
        return starts[filled], stops[filled]

    def _exact(self, axis: Axis, start: int, stop: int, *, positive: bool) -> tuple[Floats, Floats]:
        y = self.values[start:stop].copy() if self._complete else finite_or_nan(self.values[start:stop])
        return axis.place(self._along(axis)[start:stop]), np.where(y > 0, y, np.nan) if positive else y

    def _extremes(self, axis: Axis, starts: Indices, stops: Indices, *, positive: bool) -> tuple[Floats, Floats]:
        """Return each pixel column's extremes, at its first and its last position, in the order of its trend."""
        low, high = self._low.query(starts, stops), self._high.query(starts, stops)
        if positive:
            high = np.where(high > 0, high, np.nan)
            low = np.where(low > 0, low, high)
        falling = self.values[stops - 1] < self.values[starts]
        y = np.column_stack([np.where(falling, high, low), np.where(falling, low, high)])
        x = axis.place(self._along(axis)[np.column_stack([starts, stops - 1])])
        return x.ravel(), y.ravel()

    def _mean_between(self, starts: Indices, stops: Indices, totals: RangeTree) -> Floats:
        total = totals.query(starts, stops)
        count = stops - starts if self._complete else self._finite.query(starts, stops)
        return finite_or_nan(np.divide(total, count, out=np.full(len(starts), np.nan), where=count > 0))

    def _find_breaks(self) -> None:
        """Extend `_broken` over the values appended since the last call."""
        first = self._searched
        if first == len(self):
            return
        finite = np.isfinite(self.values[first:])
        follows = np.concatenate([[first == 0 or np.isfinite(self.values[first - 1])], finite[:-1]])
        self._broken.extend(np.flatnonzero(follows & ~finite) + first)
        self._searched = len(self)

    def _means(self, weight: float) -> Floats:
        """Return the exponential means of all values, shape (n,)."""
        return self._exponential_mean(weight).array if weight else self.values

    def _exponential_mean(self, weight: float) -> ExponentialMean:
        """Return the mean with this weight, up to date. The last one asked for is kept, and only extended."""
        if self._mean is None or self._mean.weight != weight:
            self._mean = ExponentialMean(weight)
        self._mean.extend(self.values[len(self._mean) :])
        return self._mean
