"""Compare sources of one metric: a source with few values does not replace one with many.

A program may print its loss at each step and write an estimate of the same name to TensorBoard every 500. The file is
more reliable than the text, but its few points are no replacement for the curve.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.metrics.common.reading import Reading

SPARSE = 3
"""A source with less than one value for this many of another is sparse."""
SETTLED = 64
"""With so many values a source that is not sparse keeps the metric for good."""
MAX_KEPT = 10_000
"""Readings to keep of one source. With more it cannot take the metric over any more."""


@dataclass(slots=True)
class Values:
    """The values of one metric from one source."""

    count: int = 0
    first: int | None = None
    last: int | None = None
    readings: list[Reading] = field(default_factory=list)
    """All of them; empty if there were too many."""

    def add(self, reading: Reading) -> None:
        """Count a value, and keep its reading."""
        if len(self.readings) == self.count < MAX_KEPT:
            self.readings.append(reading)
        elif self.readings:
            self.readings = []
        self.count += 1
        if reading.step is not None:
            self.first, self.last = reading.step if self.first is None else self.first, reading.step

    def prevails(self, holder: Values, *, more_reliable: bool) -> bool:
        """Return whether these values replace those of `holder`, which are recorded now."""
        if len(self.readings) < self.count:
            return False
        return not self._is_sparse_beside(holder) if more_reliable else holder._is_sparse_beside(self)

    def settled_beside(self, rival: Values) -> bool:
        """Return whether a less reliable rival cannot take the metric from these values any more."""
        return self.count >= SETTLED and not self._is_sparse_beside(rival)

    def drop(self) -> None:
        """Forget the readings: the source does not take the metric over any more."""
        self.readings, self.count = [], self.count + 1

    def _is_sparse_beside(self, other: Values) -> bool:
        if self.count == 1 and other.count > SPARSE:  # one value does not show how often they come
            return True
        return self.count * SPARSE < other._count_until(None if self._counts_epochs() else self.last)

    def _counts_epochs(self) -> bool:
        """Return whether these values may be numbered on their own: 1, 2, 3. Such numbers are no steps of others."""
        return self.first in {0, 1} and self.last is not None and self.count == self.last - self.first + 1

    def _count_until(self, step: int | None) -> float:
        """Return about how many of the values are at most at a step; all of them if they have no steps."""
        if step is None or self.first is None or self.last is None or step >= self.last:
            return self.count
        return max(0.0, self.count * (step - self.first + 1) / (self.last - self.first + 1))
