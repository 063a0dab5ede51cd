"""The loop under a strategy of `tf.distribute`: each replica takes its slice of the batch, and their results add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ._loop import build, loop
from ._step import Passes, Update, slice_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..context import Context
    from ..metrics_reporter import MetricsReporter
    from ..recipe import LoadedRecipe
    from ._data import Feed


def train_replicas(
    strategy: tf.distribute.Strategy, recipe: LoadedRecipe, context: Context, meter: MetricsReporter
) -> None:
    """Train with a replica of the model on each of the strategy's devices."""
    task = build(recipe, context, scope=strategy.scope())
    passes, update = Passes(task, context), Update(task, context)

    def train_on(feed: Feed, share: float) -> tf.Tensor:
        loss, gradients = passes.gradients(feed, share)
        update(gradients)
        return loss

    def step(*feed: tf.Tensor) -> tf.Tensor:
        return _over_replicas(strategy, train_on, feed)

    def measure(*feed: tf.Tensor) -> tf.Tensor:
        return _over_replicas(strategy, passes.sums, feed)

    loop(task, context, meter, tf.function(step), tf.function(measure))


def _over_replicas(strategy: tf.distribute.Strategy, compute: Callable[[Feed, float], Any], feed: Feed) -> tf.Tensor:
    """Let each of this process's replicas compute on its own slice, and add up."""

    def replica() -> Any:  # noqa: ANN401 (tensors)
        number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return compute(*slice_of(feed, int(number), strategy.num_replicas_in_sync))

    return tf.add_n(strategy.experimental_local_results(strategy.run(replica)))
