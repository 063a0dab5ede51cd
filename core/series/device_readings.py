"""Readings of a device that arrived and are not part of a series yet: they come often, but are seldom drawn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from core.devices.device import SLOWDOWNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.series.min_max_tree import Floats
    from core.series.series import Series

HEAT = ("temperature", "power", "clock", "slowed")
"""The readings that few users look at, in the order of `Heat`."""
Heat = tuple[float | None, float | None, float | None, Collection[str]]
"""A reading: degrees Celsius, watts, megahertz of the multiprocessors, and words of `SLOWDOWNS`. None: no reading."""
NO_HEAT: Heat = None, None, None, ()
MAX_PENDING = 4096
"""Readings of a device that are kept as Python objects, which take much room."""


@dataclass(slots=True)
class Readings:
    """Readings of one device that are not appended yet."""

    times: list[float] = field(default_factory=list)
    utilisation: list[float | None] = field(default_factory=list)
    memory: list[float | None] = field(default_factory=list)

    def move_to(self, utilisation: Series, memory: Series) -> None:
        """Append all to the two series. The step of a reading is its number, from 0."""
        steps, times = np.arange(len(self.times), dtype=np.float64), _floats(self.times)
        steps += len(utilisation)
        utilisation.append(steps, times, _floats(self.utilisation))
        memory.append(steps, times, _floats(self.memory))


class HeatReadings:
    """Readings of one device in the order of `HEAT` that are not appended yet."""

    def __init__(self) -> None:
        self._pending: list[tuple[float, Heat]] = []
        self._blocks: list[Floats] = []

    def add(self, at: float, heat: Heat) -> None:
        """Add a reading, taken at `at` in unix seconds."""
        self._pending.append((at, heat))
        if len(self._pending) >= MAX_PENDING:
            self._pack()

    def move_to(self, every: Sequence[Series]) -> None:
        """Append all to the series in the order of `HEAT`."""
        self._pack()
        times, *columns = np.concatenate(self._blocks, axis=1)
        for series, column in zip(every, columns, strict=True):
            series.append(np.arange(len(times), dtype=np.float64) + len(series), times, column)

    def _pack(self) -> None:
        """Keep what is pending as one block of numbers: a row of times, and one for each of `HEAT`."""
        if self._pending:
            times, readings = zip(*self._pending, strict=True)
            *columns, slowdowns = zip(*readings, strict=True)
            slowed = [slowdown_number(words) for words in slowdowns] if any(slowdowns) else np.zeros(len(times))
            self._blocks.append(np.array([times, *columns, slowed], dtype=np.float64))
            self._pending.clear()


def slowdown_number(words: Collection[str]) -> float:
    """Return one number for reasons in words: one bit each, and one bit if there are only words of newer versions."""
    if not words:
        return 0.0
    known = sum(1 << place for place, word in enumerate(SLOWDOWNS) if word in words)
    return float(known or 1 << len(SLOWDOWNS))


def slowdown_words(number: float) -> tuple[str, ...]:
    """Return the reasons of a number of `slowdown_number`; none for 0 and NaN."""
    bits = int(number) if number > 0 else 0
    found = tuple(word for place, word in enumerate(SLOWDOWNS) if bits >> place & 1)
    return found or (("slowed down",) if bits else ())


def _floats(numbers: Sequence[float | None]) -> Floats:
    return np.array(numbers, dtype=np.float64)  # None becomes NaN
