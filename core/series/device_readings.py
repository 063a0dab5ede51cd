"""Readings of a device that arrived and are not part of a series yet: they come often, but are seldom drawn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.arrays import np

if TYPE_CHECKING:

    from core.series.min_max_tree import Floats
    from core.series.series import Series

HEAT = ("temperature", "power", "clock")
"""The readings that few users look at, in the order of `Heat`."""
Heat = tuple[float | None, float | None, float | None, Collection[str]]
"""A reading: degrees Celsius, watts, megahertz of the multiprocessors, and words of `SLOWDOWNS`. None: no reading."""
NO_HEAT: Heat = None, None, None, ()
MAX_PENDING = 512
"""Readings of a device that are kept as Python objects, which take much room. All devices reach it at once: with 4096,
eight of them took 15 ms."""


@dataclass(slots=True)
class Readings:
    """Readings of one device that are not appended yet."""

    times: list[float] = field(default_factory=list)
    utilisation: list[float | None] = field(default_factory=list)
    memory: list[float | None] = field(default_factory=list)

    def extend(
        self, times: Sequence[float], utilisation: Sequence[float | None], memory: Sequence[float | None]
    ) -> None:
        """Add readings, taken at these unix times."""
        self.times += times
        self.utilisation += utilisation
        self.memory += memory

    def move_to(self, utilisation: Series, memory: Series) -> None:
        """Append all to the two series. The step of a reading is its number, from 0."""
        steps, times = np.arange(len(self.times), dtype=np.float64), _floats(self.times)
        steps += len(utilisation)
        utilisation.append(steps, times, _floats(self.utilisation))
        memory.append(steps, times, _floats(self.memory))


class HeatReadings:
    """Readings of one device in the order of `HEAT` that are not appended yet."""

    def __init__(self) -> None:
        self._pending: tuple[list[float | None], ...] = tuple([] for _ in ("time", *HEAT))
        self._blocks: list[Floats] = []

    def extend(self, times: Sequence[float], columns: Sequence[Sequence[float | None]]) -> None:
        """Add readings, taken at these unix times, in columns in the order of `HEAT`."""
        for kept, new in zip(self._pending, (times, *columns), strict=True):
            kept.extend(new)
        if len(self._pending[0]) >= MAX_PENDING:
            self._pack()

    def move_to(self, every: Sequence[Series]) -> None:
        """Append all to the series in the order of `HEAT`."""
        self._pack()
        times, *columns = np.concatenate(self._blocks, axis=1)
        for series, column in zip(every, columns, strict=True):
            series.append(np.arange(len(times), dtype=np.float64) + len(series), times, column)

    def _pack(self) -> None:
        """Keep the pending readings as one block of numbers: a row of times, and a row for each reading of `HEAT`."""
        if self._pending[0]:
            self._blocks.append(np.array(self._pending, dtype=np.float64))
            for kept in self._pending:
                kept.clear()


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
        known.append(Slowdown(since=at, until=at, words=words))


class IntervalMean:
    """The mean of a series within intervals of time; only readings that are new are added up."""

    def __init__(self) -> None:
        self._of: tuple[Series, Sequence[tuple[float, float]]] | None = None
        self._seen, self._total, self._count = 0, 0.0, 0

    def update(self, series: Series, intervals: Sequence[tuple[float, float]]) -> float | None:
        """Return the mean of the finite values in these intervals of unix times; None if there are none."""
        if self._of is None or self._of[0] is not series or self._of[1] != intervals:
            self._of = series, intervals
            self._seen, self._total, self._count = 0, 0.0, 0
        values = series.values[self._seen :]
        ends = np.array(intervals, dtype=np.float64).ravel()
        inside = np.searchsorted(ends, series.times[self._seen :], side="right") % 2 == 1
        counted = values[inside & np.isfinite(values)]
        self._seen = len(series)
        self._total, self._count = self._total + float(counted.sum()), self._count + len(counted)
        return self._total / self._count if self._count else None


def _floats(numbers: Sequence[float | None]) -> Floats:
    return np.array(numbers, dtype=np.float64)  # None becomes NaN
