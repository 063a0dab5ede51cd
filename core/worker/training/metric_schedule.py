"""Which steps are measured on their training batches: as many as take at most a hundredth of the time."""

from __future__ import annotations

from typing import NamedTuple

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


class MetricSchedule:
    """Lets every n-th step be measured. A report chooses n, from the costs on all ranks: so all measure the same."""

    def __init__(self) -> None:
        self.is_due = True
        """Whether the current step is measured."""
        self._every = 1
        self._from = 0
        self._cost_us: float | None = None

    def begin_step(self, step: int) -> None:
        """Decide whether a step is measured."""
        self.is_due = (step - self._from) % self._every == 0

    def count_from(self, step: int) -> None:
        """Measure this step, and every n-th after it. Call it only when all measured steps have been reported."""
        self._from = step
        self.begin_step(step)

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
        self._every = min(max(every, self._every // 2), self._every * (GROWTH if cost.measured else 1))


def median(values: list[float]) -> float:
    """Return the median; 0 of none."""
    return sorted(values)[len(values) // 2] if values else 0.0
