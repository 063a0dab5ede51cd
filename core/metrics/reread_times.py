"""Give the values of a run that is read again the times at which they were measured.

A log has no times, so a value that was recorded before keeps its time; a value from a file has the file's; for the
others the run's notes say when its log grew. What is left lies between its neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.metrics.common.merge import MergedReading
    from core.series.series import Series


@dataclass(slots=True, kw_only=True)
class Times:
    """How many values have which kind of time."""

    recorded: int = 0
    """The time that was recorded before, for this value or another of its step."""
    sources: int = 0
    """The time in the file, or when the log grew."""
    interpolated: int = 0
    """Between the times of the values before and after it."""
    spread: int = 0
    """Nothing is known: spread evenly over the time of the run."""

    def to_json(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in ("recorded", "sources", "interpolated", "spread")}


class ValueTimes:
    """The times of one rank's values."""

    def __init__(self, recorded: Mapping[str, Series], times: Times, began: float, ended: float) -> None:
        """`recorded`: the curves as they were recorded before. `times`: counts what is found out."""
        self._known = {name: points(series) for name, series in recorded.items()}
        self._steps = {step: time for found in self._known.values() for step, (_, time) in found.items()}
        self._times, self._began, self._ended = times, began, ended

    def timed(self, readings: Sequence[MergedReading]) -> list[MergedReading]:
        """Return the readings with their times."""
        return list(self._with_all_times([(each, self._time(each)) for each in readings]))

    def _time(self, reading: MergedReading) -> float | None:
        assert reading.step is not None
        for name, value in reading.values.items():
            found = self._known.get(name, {}).get(reading.step)
            if found is not None and _same(found[0], value):
                self._times.recorded += 1
                return found[1]
        if reading.time is not None:
            self._times.sources += 1
            return reading.time
        time = self._steps.get(reading.step)
        self._times.recorded += time is not None
        return time

    def _with_all_times(self, timed: Sequence[tuple[MergedReading, float | None]]) -> Iterator[MergedReading]:
        """Yield the readings; those without a time get one between their neighbours."""
        at, count = 0, len(timed)
        before: float | None = None
        while at < count:
            reading, time = timed[at]
            if time is not None:
                yield replace(reading, time=time)
                before, at = time, at + 1
                continue
            end = next((index for index in range(at, count) if timed[index][1] is not None), count)
            after = timed[end][1] if end < count else None
            first = self._began if before is None else before
            last = max(first, self._ended if after is None else after)
            if before is None and after is None:
                self._times.spread += end - at
            else:
                self._times.interpolated += end - at
            for number, (each, _) in enumerate(timed[at:end], start=1):
                yield replace(each, time=first + (last - first) * number / (end - at + 1))
            before, at = last if after is not None else before, end


def points(series: Series) -> dict[int, tuple[float, float]]:
    """Return value and time by step."""
    columns = (series.steps.tolist(), series.values.tolist(), series.times.tolist())
    return {int(step): (value, time) for step, value, time in zip(*columns, strict=True)}


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-7) or (math.isnan(one) and math.isnan(other))
