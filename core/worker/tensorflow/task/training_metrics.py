"""Measure the recipe's metrics on training batches of TensorFlow and Keras."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ...training import training_metrics
from ...training.training_metrics import Cost, median
from .data import slice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .build import Measure
    from .data import Batches


class TrainingMetrics(training_metrics.TrainingMetrics):
    """Measures in the steps that are due.

    A step returns the output from which it has computed the loss, with dropout, beside the loss. The metrics are
    computed from it when they are due, without a graph: tracing them would delay the start, and a graph of its own for
    measured steps could round otherwise. A value is the mean over the global batch.
    """

    def __init__(self, metrics: Mapping[str, Measure], train: Batches) -> None:
        super().__init__(metrics)
        self.always = False
        """Whether every step is measured, whatever it costs."""
        self._metrics, self._train = tuple(metrics.values()), train
        self._row: tf.Tensor | None = None
        """The current step's values: this worker's part of them."""
        self._spent_s: list[float] = []

    def watching(self, step: Callable[..., Any], *, first: int, parts: int) -> Callable[..., tf.Tensor]:
        """Return a function that makes a step, measures it if it is due, and returns its loss.

        `step(*feed)` returns the loss and the output of each device of this process. Their slices of the global batch
        are those from `first` on, of `parts`.
        """

        def watched(*feed: tf.Tensor) -> tf.Tensor:
            loss, outputs = step(*feed)
            if self.is_due:
                slices = (slice_of(feed, number, parts) for number in range(first, first + len(outputs)))
                self.measure(
                    (self._train.target(part), output, share)
                    for (part, share), output in zip(slices, outputs, strict=True)
                    if share  # else it is an idle item
                )
            return loss

        return watched

    def measure(self, parts: Iterable[tuple[tf.Tensor, Any, float | tf.Tensor]]) -> tf.Tensor:
        """Measure the current step on this worker's parts of its batch: target, output and share, or item weights.

        Return the values, shape (metrics).
        """
        began = time.perf_counter()
        row = tf.zeros(len(self._metrics))
        for target, output, share in parts:
            row += tf.stack([_mean(each(target, output), share) for each in self._metrics])
        self._row = row
        self._spent_s.append(time.perf_counter() - began)
        return row

    def end_step(self, step: int) -> None:
        """Keep what was measured in a step, for the next report."""
        if self._row is not None:
            self._keep(step, self._row)
            self._row = None

    def take(self, elapsed_s: float) -> tuple[list[float], Cost]:
        """Return the values since the last report, and what they took; see the base class."""
        values = tf.stack(self._rows).numpy().ravel().tolist() if self._rows else []
        # The median stands for each time: while another process had the core, the metrics took no time.
        spent_s = median(self._spent_s) * len(self._spent_s)
        cost = Cost.of(spent_s, len(self._spent_s), elapsed_s)
        self._rows, self._spent_s = [], []
        return values, cost

    def plan(self, cost: Cost, steps: int) -> None:
        """Choose how often to measure; see the base class."""
        if not self.always:
            super().plan(cost, steps)


def _mean(value: Any, share: float | tf.Tensor) -> tf.Tensor:  # noqa: ANN401 (whatever a user's function returns)
    """Return the mean of a value per item, times the share of the items, or the sum by the weights of the items."""
    value = tf.cast(value, tf.float32)
    if not isinstance(share, tf.Tensor):
        return tf.reduce_mean(value) * share
    if value.shape.rank and value.shape[0] == share.shape[0]:
        return tf.reduce_sum(tf.reduce_mean(tf.reshape(value, [len(share), -1]), 1) * share)
    return tf.reduce_mean(value) * tf.reduce_sum(share)
