"""The losses of TensorFlow: stacked on their device, fetched at once, shared among workers in one reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from .. import metrics_reporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..context import Context


class Meter(metrics_reporter.MetricsReporter):
    """Gathers the losses of one process."""

    def _fetch(self, losses: list[tf.Tensor]) -> list[float]:
        return fetch(losses)


class SharedMeter(metrics_reporter.RankedMetricsReporter):
    """Gathers the losses of all workers, which have weighted their parts: these add up to the global batch's."""

    def __init__(self, context: Context, add_up: Callable[[list[float]], list[float]]) -> None:
        """`add_up`: the sums of numbers over all workers."""
        super().__init__(context)
        self._add_up = add_up

    def meets_often_in(self, steps: int) -> bool:  # noqa: ARG002 (however many)
        """Their workers wait for each other within every step, at the gradients: none could run ahead."""
        return True

    def _settle(self, losses: list[tf.Tensor]) -> None:
        if losses:
            losses[-1].numpy()

    def _reduce(self, losses: list[tf.Tensor], shares: list[float], numbers: list[float]) -> list[float]:
        assert all(share == 1 for share in shares), "these losses are weighted already"
        return self._add_up([*(fetch(losses) if losses else []), *numbers])


def fetch(losses: list[tf.Tensor]) -> list[float]:
    """The losses as numbers, in one transfer."""
    values: list[float] = tf.stack(losses).numpy().tolist()
    return values
