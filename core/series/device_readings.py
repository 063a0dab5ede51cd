"""Readings of devices: they come often and all day, so that old ones are folded; when a device was slowed down."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.arrays import np
from core.series.min_max_tree import GrowableArray, RangeTree, as_is, finite_or_nan, finite_or_zero
from core.series.series import Series

if TYPE_CHECKING:
    from core.series.min_max_tree import Floats, Indices

HEAT = ("temperature", "power", "clock")
"""The readings that few users look at, in the order of `Heat`."""
Heat = tuple[float | None, float | None, float | None, Collection[str]]
"""A reading: degrees Celsius, watts, megahertz of the multiprocessors, and words of `SLOWDOWNS`. None: no reading."""
NO_HEAT: Heat = None, None, None, ()
MAX_PENDING = 512
"""Readings of a device that are kept as Python objects, which take much room. All devices reach it at once: with 4096,
eight of them took 15 ms."""
FULL_S = 3600.0
"""Seconds before the newest reading from which all readings are kept."""
SLACK_S = 300.0
"""Seconds of further readings that may be kept before they are folded."""
SPAN_S = 4.0
"""Seconds of the shortest span. Spans become twice as long as soon as there are too many."""
MAX_SPANS = 900
"""After two hours there are 450 or more: a span is two or three pixels wide."""


class _Numbers(GrowableArray):
    """The numbers of the readings, which take no room: each reading's step is its number."""

    @property
    def array(self) -> Floats:
        return np.arange(self._size, dtype=np.float64)

    def extend(self, values: Floats) -> None:
        self._size += len(values)


class DeviceSeries(Series):
    """Readings of one device, each of the last hour: a run may last for weeks. Older ones are folded into spans.

    A span is two values: its smallest and its largest, at the times of its first and last reading, in the order of its
    trend. So `view` draws a pixel column, and a line over many spans looks as before. Its mean is kept beside them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._steps = _Numbers(0)
        self.span_s = SPAN_S
        self.folds = 0
        """How often readings were folded: their numbers are others then."""
        self.folded_to = -np.inf
        """Unix time up to which readings were folded last."""
        self._sums, self._counts = GrowableArray(), GrowableArray()
        """Of each span, the sum and the number of its finite readings, shape (spans,)."""
        self._sum_tree, self._count_tree = (RangeTree(each, np.add, as_is) for each in (self._sums, self._counts))

    @property
    def means(self) -> Floats:
        """The readings, and in place of the two values of a span its mean, shape (n,); a gap is NaN."""
        return _divided(*self.weights())

    @property
    def mean(self) -> float | None:
        """The mean of all finite readings; None if there is none."""
        mean = float(self.interval_means(np.array([0]), np.array([len(self)]))[0])
        return None if np.isnan(mean) else mean

    def weights(self, first: int = 0) -> tuple[Floats, Floats]:
        """Return sums and numbers of the finite readings for which the values from `first` on stand, shape (k,)."""
        values = self.values[max(first, self._folded) :]
        sums, counts = (np.repeat(each.array / 2, 2)[first:] for each in (self._sums, self._counts))
        return np.append(sums, finite_or_zero(values)), np.append(counts, np.isfinite(values))

    @property
    def _folded(self) -> int:
        """How many values are those of spans."""
        return 2 * len(self._sums)

    def interval_means(self, starts: Indices, stops: Indices) -> Floats:
        """Return the mean of the finite readings of each range of indices [start, stop), shape (m,); a gap is NaN."""
        folded = self._folded
        if not folded:
            return super().interval_means(starts, stops)
        old = np.minimum(starts, folded) // 2, (np.minimum(stops, folded) + 1) // 2  # half a span counts as a whole one
        new = np.maximum(starts, folded), np.maximum(stops, folded)
        sums = self._sum_tree.query(*old) + self._total.query(*new)
        return _divided(sums, self._count_tree.query(*old) + self._finite.query(*new))

    def hold(self, held_s: float, at: Indices) -> Floats:
        """Return how many seconds the values at these indices hold on where a reading does `held_s`, shape (m,)."""
        return np.where(at < self._folded, max(held_s, self.span_s), held_s)

    def held_means(self, borders: Floats, held_s: float) -> Floats:
        """Return the mean of the finite values of each interval between unix times, shape (n + 1,) -> (n,).

        In an interval without a value, the last one before it holds on for `held_s` seconds. A gap is NaN.
        """
        edges = np.searchsorted(self.times, borders)
        starts, stops = edges[:-1], edges[1:]
        means = self.interval_means(starts, stops)
        if len(self):
            last = np.maximum(starts - 1, 0)
            held = (starts == stops) & (starts > 0) & (borders[:-1] - self.times[last] <= self.hold(held_s, last))
            means[held] = self.interval_means(last[held], last[held] + 1)
        return means

    def fold_old(self) -> None:
        """Fold the readings that are older than an hour."""
        self.folds += 1
        self.folded_to = float(self.times[-1]) - FULL_S
        whole = self.folded_to // self.span_s * self.span_s  # the next fold completes the last span
        old = max(int(np.searchsorted(self.times, whole)), self._folded)
        times, values, (sums, counts) = self.times.copy(), finite_or_nan(self.values), self.weights()
        spans = times[:old] // self.span_s
        while len(starts := np.flatnonzero(np.diff(spans, prepend=np.nan))) > MAX_SPANS:
            self.span_s *= 2
            spans //= 2
        ends = np.append(starts[1:], old) - 1
        low, high = np.fmin.reduceat(values[:old], starts), np.fmax.reduceat(values[:old], starts)
        falling = values[ends] < values[starts]
        extremes = np.column_stack([np.where(falling, high, low), np.where(falling, low, high)])
        edges = np.column_stack([times[starts], times[ends]])
        self._keep(np.append(edges, times[old:]), np.append(extremes, values[old:]))
        for kept, each in ((self._sums, sums), (self._counts, counts)):
            kept.extend(np.add.reduceat(each[:old], starts))

    def drop_before(self, time: float) -> None:
        """Forget the readings before a unix time, and what is folded, which is older."""
        first = int(np.searchsorted(self.times, time))
        self._keep(self.times[first:].copy(), self.values[first:].copy())

    def _keep(self, times: Floats, values: Floats) -> None:
        """Have only these readings, none of which counts as folded."""
        self._truncate(0)
        for part in (self._sums, self._counts, self._sum_tree, self._count_tree):
            part.truncate(0)
        self.append(np.arange(len(times), dtype=np.float64), times, values)


def _divided(sums: Floats, counts: Floats) -> Floats:
    return finite_or_nan(np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0))


class Readings:
    """Readings of one device that are not appended yet: their times, and a column for each series."""

    def __init__(self, count: int) -> None:
        self._columns: tuple[list[float | None], ...] = tuple([] for _ in range(1 + count))

    def extend(self, *columns: Sequence[float | None]) -> bool:
        """Add readings: their unix times, and their columns. Return whether all are to be moved now."""
        for kept, new in zip(self._columns, columns, strict=True):
            kept.extend(new)
        return len(self._columns[0]) >= MAX_PENDING

    def move_to(self, every: Sequence[DeviceSeries]) -> bool:
        """Append all to the series; return whether old ones were folded. The step of a reading is its number."""
        times, *columns = np.array(self._columns, dtype=np.float64)  # None becomes NaN
        steps = np.arange(len(times), dtype=np.float64) + len(every[0])
        for series, column in zip(every, columns, strict=True):
            series.append(steps, times, column)
        folds = bool(every[0].times[-1] - max(every[0].folded_to, every[0].times[0]) > FULL_S + SLACK_S)
        for series in every if folds else ():
            series.fold_old()
        return folds


@dataclass(slots=True, kw_only=True)
class Slowdown:
    """A time in which a device was slowed down. Times are unix seconds of readings."""

    since: float
    until: float
    words: tuple[str, ...]
    """The reasons: see `core.devices.device.SLOWDOWNS`."""
    over: bool = False


def note_slowdown(known: list[Slowdown], at: float, words: tuple[str, ...]) -> None:
    """Add what a reading said about slowdowns; no words: the device is not slowed down, or there was no reading."""
    last = known[-1] if known and not known[-1].over else None
    if last is not None:
        last.until, last.over = max(at, last.until), last.words != words
    if words and (last is None or last.over):
        words = known[-1].words if known and known[-1].words == words else words  # kept once: there may be thousands
        known.append(Slowdown(since=at, until=at, words=words))


def join_old(known: list[Slowdown], readings: DeviceSeries) -> list[Slowdown]:
    """Return slowdowns of a device; those among folded readings with less than two spans between them are one."""
    found = known[:1]
    for each in known[1:]:
        last = found[-1]
        if each.until < readings.folded_to and each.since - last.until < 2 * readings.span_s:
            last.until, last.words = each.until, tuple(dict.fromkeys((*last.words, *each.words)))
        else:
            found.append(each)
    return found


class IntervalMean:
    """The mean of a series within intervals of time; only readings that are new are added up."""

    def __init__(self) -> None:
        self._of: tuple[DeviceSeries, int, Sequence[tuple[float, float]]] | None = None
        self._seen, self._total, self._count = 0, 0.0, 0.0

    def update(self, series: DeviceSeries, intervals: Sequence[tuple[float, float]]) -> float | None:
        """Return the mean of the finite values in these intervals of unix times; None if there are none."""
        if self._of is None or self._of[0] is not series or self._of[1:] != (series.folds, intervals):
            self._of = series, series.folds, intervals
            self._seen, self._total, self._count = 0, 0.0, 0.0
        sums, counts = series.weights(self._seen)
        ends = np.array(intervals, dtype=np.float64).ravel()
        inside = np.searchsorted(ends, series.times[self._seen :], side="right") % 2 == 1
        self._seen = len(series)
        self._total, self._count = self._total + float(sums[inside].sum()), self._count + float(counts[inside].sum())
        return self._total / self._count if self._count else None
