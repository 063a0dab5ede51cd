"""Write the merged readings of a rank as events: consecutive steps of the same metrics in one line.

The collector writes readings as they arrive. For curves that are known as a whole, `current` first leaves out the
values that a restart has replaced, and `TimedLines` keeps the rest.
"""

from __future__ import annotations

import json
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from core.language import stored
from core.metrics.common.merge import NO_NAMES
from core.schema.event_kinds import MetricRestart
from core.schema.events import EPOCH, metrics_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.metrics.common.merge import MergedReading
    from core.schema.events import Event

MAX_STEPS = 4096
"""Steps in one line."""
UNEVEN_S = 0.5
"""Seconds by which a step may be off the even spacing of the steps before it on its line."""
TIME = '{"t":'
"""The begin of a line."""


class EventSink(Protocol):
    """What takes the lines of events."""

    def write_json(self, line: str) -> None:
        """Take one ready JSON object."""


class MetricEventWriter:
    """Writes one rank's metrics. A name ends with the rank, `loss@1`, except for rank 0."""

    def __init__(self, rank: int, events: EventSink) -> None:
        self._suffix, self._events = f"@{rank}" if rank else "", events
        self._names: tuple[str, ...] = ()
        self._unit = ""
        self._first = 0
        self._times: list[float] = []
        self._rows: list[tuple[float, ...]] = []

    def write(self, measured: Sequence[MergedReading], *, since: float, until: float) -> None:
        """Write readings. Those without a time are spread evenly from `since` to `until`, unix seconds.

        Raises `RecordError`.
        """
        for time, each in _in_order(measured, since, until):
            self._add(each, time)
        self._flush()

    def _add(self, reading: MergedReading, time: float) -> None:
        assert reading.step is not None
        names, unit = tuple(reading.values), EPOCH if reading.counts_epochs else ""
        if reading.restarts:
            self._flush()
            restarted = tuple(name + self._suffix for name in sorted(reading.restarts))
            self._events.write_json(json.dumps(MetricRestart(time=time, metrics=restarted).event()))
        is_next = (names, unit, reading.step) == (self._names, self._unit, self._first + len(self._rows))
        if not is_next or len(self._rows) == MAX_STEPS or not self._is_evenly_spaced(time):
            self._flush()
            self._names, self._unit, self._first = names, unit, reading.step
        self._times.append(time)
        self._rows.append(tuple(reading.values.values()))

    def _is_evenly_spaced(self, time: float) -> bool:
        """Return whether a step continues the spacing of its line: only the first and last time are written."""
        count = len(self._times)
        if count < 2:
            return True
        first, last = self._times[0], self._times[-1]
        return abs(time - (first + (last - first) * count / (count - 1))) <= UNEVEN_S

    def _flush(self) -> None:
        if self._rows and self._names:
            columns = zip(*self._rows, strict=True)
            values = {name + self._suffix: column for name, column in zip(self._names, columns, strict=True)}
            line = metrics_line(
                since=self._times[0], until=self._times[-1], first_step=self._first, values=values, unit=self._unit
            )
            self._events.write_json(line)
        self._times, self._rows, self._names = [], [], ()


def _in_order(measured: Sequence[MergedReading], since: float, until: float) -> list[tuple[float, MergedReading]]:
    """Return each reading with its time, sorted by time.

    The values of one metric keep their order, whatever the clock of their source says. A restarted metric is sorted
    after the values it replaces.
    """
    timed: list[tuple[int, float, MergedReading]] = []
    latest: dict[str, float] = {}
    restarts = 0
    for number, each in enumerate(measured, start=1):
        if each.restarts:
            restarts, latest = restarts + 1, {}
        time = each.time if each.time is not None else since + (until - since) * number / len(measured)
        time = max([time, *(latest.get(name, time) for name in each.values)])
        latest.update(dict.fromkeys(each.values, time))
        timed.append((restarts, time, each))
    return [(time, each) for _, time, each in sorted(timed, key=lambda one: one[:2])]


class TimedLines:
    """Keeps the lines of curves that are written at once, as a whole event file."""

    def __init__(self) -> None:
        self._timed: list[tuple[float, str]] = []

    def add(self, event: Event) -> None:
        """Add an event."""
        self.write_json(json.dumps({name: stored(each) for name, each in event.items()}))

    def write_json(self, line: str) -> None:
        """Add a line, which begins with the time as all lines of `MetricEventWriter` do."""
        self._timed.append((float(line[len(TIME) : line.index(",")]), line))

    @property
    def latest(self) -> float:
        """The latest time of a line, in unix seconds; 0 if there is none."""
        return max((time for time, _ in self._timed), default=0.0)

    @property
    def lines(self) -> list[str]:
        """All lines, ordered by time."""
        return [line for _, line in sorted(self._timed, key=itemgetter(0))]


def current(readings: Sequence[MergedReading]) -> list[MergedReading]:
    """Return the readings without the values that a restart of their curve has made void."""
    current: list[MergedReading] = []
    void: frozenset[str] = NO_NAMES
    for each in reversed(readings):
        values = {name: value for name, value in each.values.items() if name not in void}
        void |= each.restarts
        if values:
            current.append(replace(each, values=values, restarts=NO_NAMES))
    return current[::-1]
