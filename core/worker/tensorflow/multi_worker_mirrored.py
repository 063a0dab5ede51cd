"""Data parallel with one process per device: MultiWorkerMirroredStrategy, joined through TF_CONFIG."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import tensorflow as tf

from .loop.common import RankedReporter, train_replicas
from .loop.devices import claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...schema.rank import RankAssignment
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 sees a request to stop or to pause."""
    claim(context)
    os.environ["TF_CONFIG"] = _cluster(context.assignment)
    context.enter_phase("join")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    train_replicas(strategy, recipe, context, RankedReporter(context, _adder(strategy)))


def _cluster(assignment: RankAssignment) -> str:
    """Return `TF_CONFIG`, by which every worker finds the others."""
    return json.dumps({
        "cluster": {"worker": list(assignment.addresses)},
        "task": {"type": "worker", "index": assignment.rank},
    })  # fmt: skip


def _adder(strategy: tf.distribute.Strategy) -> Callable[[list[float]], list[float]]:
    """Return a function that returns the sums of plain numbers over all workers."""

    def over_all(numbers: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(numbers))

    any_number = tf.TensorSpec([None], tf.float64)
    add_up = tf.function(lambda numbers: strategy.run(over_all, args=(numbers,)), input_signature=[any_number])
    return lambda numbers: add_up(tf.constant(numbers, tf.float64)).numpy().tolist()
