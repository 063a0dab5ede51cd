"""Measurements of a script's rank as events: consecutive steps of the same metrics in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.schema.events import metrics_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.metrics.common.merge import MergedReading
    from core.schema.events import Writer

MOST = 4096
"""Steps in a line."""
AT = "@"
"""Between a metric's name and the rank, of all but rank 0: `loss@1`."""


def of_rank(name: str, rank: int) -> str:
    """A metric's name among those of all ranks."""
    return f"{name}{AT}{rank}" if rank else name


class MetricEventWriter:
    """Writes measurements as they come."""

    def __init__(self, rank: int, events: Writer) -> None:
        self._rank, self._events = rank, events
        self._names: tuple[str, ...] = ()
        self._first = 0
        self._times: list[float] = []
        self._rows: list[tuple[float, ...]] = []

    def write(self, measured: Sequence[MergedReading], *, since: float, until: float) -> None:
        """All of them. Those that know no time came evenly between the two, unix seconds. Raises `RecordError`."""
        for time, each in _as_they_happened(measured, since, until):
            self._add(each, time)
        self._flush()

    def _add(self, told: MergedReading, time: float) -> None:
        assert told.step is not None
        names = tuple(told.values)
        if told.anew:
            self._flush()
            self._begin_anew([of_rank(name, self._rank) for name in sorted(told.anew)], time)
        if names != self._names or told.step != self._first + len(self._rows) or len(self._rows) == MOST:
            self._flush()
            self._names, self._first = names, told.step
        self._times.append(time)
        self._rows.append(tuple(told.values.values()))

    def _begin_anew(self, names: list[str], time: float) -> None:
        self._events.write_json(json.dumps({"t": time, "kind": "anew", "metrics": names}))

    def _flush(self) -> None:
        if self._rows and self._names:
            columns = zip(*self._rows, strict=True)
            values = {of_rank(name, self._rank): column for name, column in zip(self._names, columns, strict=True)}
            line = metrics_line(since=self._times[0], until=self._times[-1], first_step=self._first, values=values)
            self._events.write_json(line)
        self._times, self._rows, self._names = [], [], ()


def _as_they_happened(
    measured: Sequence[MergedReading], since: float, until: float
) -> list[tuple[float, MergedReading]]:
    """Each with its time, those of several sources in order. A metric's values stay in the order in which they were
    told, whatever the clock of its source says; and what begins anew stays behind what it takes the place of."""
    timed: list[tuple[int, float, MergedReading]] = []
    latest: dict[str, float] = {}
    begun = 0
    for number, each in enumerate(measured, start=1):
        if each.anew:
            begun, latest = begun + 1, {}
        time = each.time if each.time is not None else since + (until - since) * number / len(measured)
        time = max([time, *(latest.get(name, time) for name in each.values)])
        latest.update(dict.fromkeys(each.values, time))
        timed.append((begun, time, each))
    return [(time, each) for _, time, each in sorted(timed, key=lambda one: one[:2])]
