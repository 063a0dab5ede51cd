"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ._build import build
from ._devices import claim
from ._loop import Reporter, loop, traced, train_step
from ._step import WholeStep

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
