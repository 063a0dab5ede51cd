"""The recipe's metrics on training batches: measured in as many steps as take at most a hundredth of the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ..metric_schedule import MICRO, Cost, MetricSchedule, median
from ._data import slice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..context import Context
    from ._build import Measure
    from ._data import Batches, Feed


class TrainingMetrics(MetricSchedule):
    """Measures in every n-th step, the same steps on all workers.

    A step returns the output from which it has computed the loss, with dropout, beside the loss. The metrics are
    computed from it when they are due, without a graph: tracing them would delay the start. A value is the mean over
    the global batch.
    """

    def __init__(self, metrics: Mapping[str, Measure], train: Batches) -> None:
        super().__init__()
        self.names = tuple(metrics)
        self._metrics, self._train = tuple(metrics.values()), train
        self._first = 0
        self._row: tf.Tensor | None = None
        """The current step's values: this worker's part of them."""
        self._rows: list[tf.Tensor] = []
        self._spent_s: list[float] = []

    def watching(self, step: Callable[..., Any], *, first: int, parts: int) -> Callable[..., tf.Tensor]:
        """Return a function that makes a step, measures it if it is due, and returns its loss.

        `step(*feed)` returns the loss and the output of each device of this process. Their slices of the global batch
        are those from `first` on, of `parts`.
        """

        def watched(*feed: tf.Tensor) -> tf.Tensor:
            loss, outputs = step(*feed)
            if self.is_due:
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

    def take(self, elapsed_s: float) -> tuple[list[float], Cost]:
        """Return the values that this worker has measured since the last report, so many seconds ago, and their cost.

        The values are step by step, in the order of the metrics.
        """
        values = tf.stack(self._rows).numpy().ravel().tolist() if self._rows else []
        # The median stands for each time: while another process had the core, the metrics took no time.
        spent_s = median(self._spent_s) * len(self._spent_s)
        cost = Cost(float(round(spent_s * MICRO)), float(len(self._spent_s)), float(round(elapsed_s * MICRO)))
        self._rows, self._spent_s = [], []
        return values, cost

    def record(self, values: Sequence[float], context: Context, *, since: float | None, until: float | None) -> None:
        """Record the values of all workers. Call it before the losses of the same steps are recorded, then `plan`."""
        if not values or context.rank:
            return
        columns = {name: values[at :: len(self.names)] for at, name in enumerate(self.names)}
        context.record_metrics(self._first, columns, since=since, until=until, every=self._every)
