"""The recipe's metrics on training batches: measured in as many steps as take at most a hundredth of the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from ._data import slice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..context import Context
    from ._build import Measure
    from ._data import Batches, Feed

BUDGET = 0.008
"""Share of the time for the recipe's metrics. What the reports of their values take comes to it."""
GROWTH = 8
"""How many times less often a report may let metrics be measured."""
MICRO = 1e6
"""Microseconds in a second. Costs are whole microseconds, so that their sum is the same on all workers."""


class Cost(NamedTuple):
    """What measuring took since the last report, added up over the workers."""

    spent_us: float
    measured: float
    """Measured steps."""
    elapsed_us: float
    """The time since the last report on rank 0."""


class TrainingMetrics:
    """Measures in every n-th step. A report chooses n, from the costs on all workers: so all measure the same steps.

    A step returns the output from which it has computed the loss, with dropout, beside the loss. The metrics are
    computed from it when they are due, without a graph: tracing them would delay the start. A value is the mean over
    the global batch.
    """

    def __init__(self, metrics: Mapping[str, Measure], train: Batches) -> None:
        self.names = tuple(metrics)
        self._metrics, self._train = tuple(metrics.values()), train
        self._is_due = True
        self._every, self._first = 1, 0
        self._row: tf.Tensor | None = None
        """The current step's values: this worker's part of them."""
        self._rows: list[tf.Tensor] = []
        self._spent_s: list[float] = []
        self._cost_us: float | None = None

    def watching(self, step: Callable[..., Any], *, first: int, parts: int) -> Callable[..., tf.Tensor]:
        """Return a function that makes a step, measures it if it is due, and returns its loss.

        `step(*feed)` returns the loss and the output of each device of this process. Their slices of the global batch
        are those from `first` on, of `parts`.
        """

        def watched(*feed: tf.Tensor) -> tf.Tensor:
            loss, outputs = step(*feed)
            if self._is_due:
                began = time.perf_counter()
                self._row = self._measure(feed, outputs, first, parts)
                self._spent_s.append(time.perf_counter() - began)
            return loss

        return watched

    def _measure(self, feed: Feed, outputs: Sequence[Any], first: int, parts: int) -> tf.Tensor:
        row = tf.zeros(len(self._metrics))
        for number, output in enumerate(outputs, start=first):
            part, share = slice_of(feed, number, parts)
            if share:  # else it is an idle item
                target = self._train.target(part)
                means = [tf.reduce_mean(tf.cast(each(target, output), tf.float32)) for each in self._metrics]
                row += tf.stack(means) * share
        return row

    def end_step(self, step: int) -> None:
        """Keep what was measured in a step, for the next report."""
        if self._row is None:
            return
        if not self._rows:
            self._first = step
        self._rows.append(self._row)
        self._row = None

    def begin_step(self, step: int) -> None:
        """Decide whether a step is measured."""
        self._is_due = step % self._every == 0

    def take(self, elapsed_s: float) -> tuple[list[float], Cost]:
        """Return the values that this worker has measured since the last report, so many seconds ago, and their cost.

        The values are step by step, in the order of the metrics.
        """
        values = tf.stack(self._rows).numpy().ravel().tolist() if self._rows else []
        # The median stands for each time: while another process had the core, the metrics took no time.
        spent_s = sorted(self._spent_s)[len(self._spent_s) // 2] * len(self._spent_s) if self._spent_s else 0.0
        cost = Cost(float(round(spent_s * MICRO)), float(len(self._spent_s)), float(round(elapsed_s * MICRO)))
        self._rows, self._spent_s = [], []
        return values, cost

    def record(self, values: Sequence[float], context: Context, *, since: float | None, until: float | None) -> None:
        """Record the values of all workers. Call it before the losses of the same steps are recorded, then `plan`."""
        if not values or context.rank:
            return
        columns = {name: values[at :: len(self.names)] for at, name in enumerate(self.names)}
        context.record_metrics(self._first, columns, since=since, until=until, every=self._every)

    def plan(self, cost: Cost, steps: int) -> None:
        """Choose how often to measure, from what the last `steps` steps took on all workers."""
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
