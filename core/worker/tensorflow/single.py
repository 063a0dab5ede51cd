"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from .loop.common import Reporter, loop, traced, train_step
from .loop.devices import claim
from .loop.step import WholeStep
from .task.build import build

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    (device,) = claim(context)
    with tf.device(device):
        task = build(recipe, context)
        whole = WholeStep(task, context)

        def step(*feed: tf.Tensor) -> Any:  # noqa: ANN401 (see `Update.make`)
            return whole.make(lambda passes: passes.gradients(feed, 1.0))

        def measure(*feed: tf.Tensor) -> tf.Tensor:
            return whole.passes.sums(feed, 1.0)

        loop(task, context, Reporter(context), train_step(task, step), traced(measure, task.val))
