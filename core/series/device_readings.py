"""Readings of devices: they come often and all day, so that old ones are folded; when a device was slowed down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.arrays import np
from core.series.min_max_tree import GrowableArray, finite_or_nan, finite_or_zero
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
        self.folded_to = -np.inf
        """Unix time up to which readings were folded last."""
        self._sums, self._counts = GrowableArray(), GrowableArray()
        """Of each span, the sum and the number of its finite readings, shape (spans,)."""

    @property
    def means(self) -> Floats:
        """The readings, and in place of the two values of a span its mean, shape (n,); a gap is NaN."""
        return _divided(*self.weights())

    @property
    def mean(self) -> float | None:
        """The mean of all finite readings; None if there is none."""
        return self.mean_within([(-np.inf, np.inf)])

    def mean_within(self, intervals: Sequence[tuple[float, float]]) -> float | None:
        """Return the mean of the finite readings in these intervals of unix times, in order; None if there is none."""
        inside = np.searchsorted(np.array(intervals).ravel(), self.times, side="right") % 2 == 1
        total, count = (float(each[inside].sum()) for each in self.weights())
        return total / count if count else None

    def weights(self) -> tuple[Floats, Floats]:
        """Return sums and numbers of the finite readings for which the values stand, shape (n,) each."""
        values = self.values[self._folded :]
        sums, counts = (np.repeat(each.array / 2, 2) for each in (self._sums, self._counts))
        return np.append(sums, finite_or_zero(values)), np.append(counts, np.isfinite(values))

    @property
    def _folded(self) -> int:
        """How many values are those of spans."""
        return 2 * len(self._sums)

    def hold(self, held_s: float, at: Indices) -> Floats:
        """Return how many seconds the values at these indices hold on where a reading does `held_s`, shape (m,)."""
        return np.where(at < self._folded, max(held_s, self.span_s), held_s)

    def fold_old(self) -> None:
        """Fold the readings that are older than an hour."""
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
        self._sums.truncate(0)
        self._counts.truncate(0)
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


HELD_PERIODS = 3.0
"""A reading holds on for this many of the usual times between two readings; after that there is none."""
RECENT, MIN_PERIOD_S = 64, 1.0
"""Readings from which the usual time between two is taken, and the least that it is: see `core.series.recent`."""


class ReadingCurve:
    """Readings by time, with their sums so far: the mean of an interval is a difference of two of them.

    That is exact enough for percent and gigabytes; sums of losses, of which one may be 1e30, need `RangeTree`.
    """

    def __init__(self, times: Floats, values: Floats, guide: DeviceSeries | None = None) -> None:
        """`times` in unix seconds, rising, of the readings `guide`; `values` may be NaN; shape (n,) each."""
        self.times, self.values = times, values
        finite = np.isfinite(values)
        self._sums = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
        self._counts = np.concatenate([[0], np.cumsum(finite)])
        between = np.sort(np.diff(times[-RECENT:]))  # numpy's median would import masked arrays first: 15 ms
        held_s = HELD_PERIODS * max([MIN_PERIOD_S, *between[len(between) // 2 :][:1]])
        self._held_s = np.full(len(times), held_s) if guide is None else guide.hold(held_s, np.arange(len(times)))

    @classmethod
    def of(
        cls, devices: Mapping[str, DeviceSeries], combine: Callable[..., Floats], scale: float = 1.0
    ) -> ReadingCurve:
        """Return the curve of several devices. `combine`: a reduction such as `np.nanmean`; `scale`: a divisor."""
        columns = [series for series in devices.values() if len(series) and series.min is not None]
        if not columns:
            return cls(np.empty(0), np.empty(0))
        guide = max(columns, key=len)
        values = [each.means if len(each) == len(guide) else _like(each, guide) for each in columns]
        together = _reduced(values, combine) if len(values) > 1 else values[0]
        return cls(guide.times, together / scale, guide)

    def __len__(self) -> int:
        return len(self.times)

    def means(self, borders: Floats) -> Floats:
        """Return the mean of each interval between unix times, shape (n + 1,) -> (n,); NaN without a reading.

        It is NaN, too, if a border is: the interval reaches beyond what the axis knows. In an interval between two
        readings, the earlier one holds on for a while.
        """
        edges = np.searchsorted(self.times, borders)
        starts, stops = edges[:-1], edges[1:]
        counts = self._counts[stops] - self._counts[starts]
        sums = self._sums[stops] - self._sums[starts]
        means: Floats = np.divide(sums, counts, out=np.full(len(starts), np.nan), where=counts > 0)
        means[~np.isfinite(borders[:-1] + borders[1:])] = np.nan  # beyond the training: readings of before or after it
        if len(self.times) and not counts.all():
            last = np.maximum(starts - 1, 0)
            with np.errstate(invalid="ignore"):
                held = (starts == stops) & (starts > 0) & (borders[:-1] - self.times[last] <= self._held_s[last])
            means[held] = self.values[last[held]]
        return means

    def nearest(self, time: float) -> float | None:
        """Return the reading nearest to a unix time; None if there is none, or if it was not readable."""
        if not len(self.times):
            return None
        right = min(int(np.searchsorted(self.times, time)), len(self.times) - 1)
        left = max(right - 1, 0)
        found = float(self.values[left if time - self.times[left] < self.times[right] - time else right])
        return found if np.isfinite(found) else None


def _like(series: DeviceSeries, guide: DeviceSeries) -> Floats:
    """Return the readings of a device at the times of another one."""
    place = np.minimum(np.searchsorted(series.times, guide.times), len(series) - 1)
    found: Floats = np.where(guide.times <= series.times[-1], series.means[place], np.nan)
    return found


def _reduced(values: Sequence[Floats], combine: Callable[..., Floats]) -> Floats:
    """Reduce the readings of each moment; NaN where no device has one."""
    table = np.array(values)
    found = np.full(table.shape[1], np.nan)
    known = np.isfinite(table).any(axis=0)
    found[known] = combine(table[:, known], axis=0)
    return found
