"""The recipe's metrics on training batches: measured in as many steps as take at most a hundredth of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

BUDGET = 0.008
"""Share of the time for the recipe's metrics. What the reports of their values take comes to it."""
GROWTH = 8
"""How many times less often a report may let metrics be measured."""
MICRO = 1e6
"""Microseconds in a second. Costs are whole microseconds, so that their sum is the same on all ranks."""


class Cost(NamedTuple):
    """What measuring took since the last report, added up over ranks."""

    spent_us: float
    measured: float
    """Measured steps."""
    elapsed_us: float
    """What the steps since the last report took on rank 0."""

    @classmethod
    def of(cls, spent_s: float, measured: int, elapsed_s: float) -> Cost:
        """Return these costs, in whole microseconds."""
        return cls(float(round(spent_s * MICRO)), float(measured), float(round(elapsed_s * MICRO)))


class TrainingMetrics:
    """Lets every n-th step be measured, the same steps on all ranks, and keeps their values until the next report.

    A report chooses n, from the costs on all ranks. A framework adds how to measure and what that takes.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.is_due = True
        """Whether the current step is measured."""
        self.every = 1
        self.first = 0
        """The first measured step since the last report."""
        self._from = 0
        self._cost_us: float | None = None
        self._rows: list[Any] = []
        """The values of the measured steps since the last report, each a row in the order of `names`."""

    def begin_step(self, step: int) -> None:
        """Decide whether a step is measured."""
        self.is_due = (step - self._from) % self.every == 0

    def count_from(self, step: int) -> None:
        """Measure this step, and every n-th after it. Call it only when all measured steps have been reported."""
        self._from = step
        self.begin_step(step)

    def end_step(self, step: int) -> None:
        """Keep what was measured in a step, for the next report."""
        raise NotImplementedError

    def take(self, elapsed_s: float) -> tuple[list[float], Cost]:
        """Return what this rank has measured since the last report, so many seconds ago, and what it took.

        The values are step by step, in the order of the metrics.
        """
        raise NotImplementedError

    def plan(self, cost: Cost, steps: int) -> None:
        """Choose how often to measure, from what the last `steps` steps took on all ranks."""
        if cost.measured:
            found = cost.spent_us / cost.measured
            self._cost_us = found if self._cost_us is None else (self._cost_us + found) / 2
        if self._cost_us is None or not steps or cost.elapsed_us <= 0:
            return
        wanted = self._cost_us * steps / (BUDGET * cost.elapsed_us)
        every = 1
        while every < wanted:
            every *= 2
        # Gradually: a pause makes steps seem long, and the first measurement takes longer than the others.
        self.every = min(max(every, self.every // 2), self.every * (GROWTH if cost.measured else 1))

    def _keep(self, step: int, row: Any) -> None:  # noqa: ANN401 (the framework's own)
        if not self._rows:
            self.first = step
        self._rows.append(row)


def median(values: list[float]) -> float:
    """Return the median; 0 of none."""
    return sorted(values)[len(values) // 2] if values else 0.0
