"""Model parallel in one process: the model's parts are on the devices that the recipe names, or in order on all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import tensorflow as tf

from ...language import tr
from .loop.common import train_alone
from .loop.devices import claim
from .loop.placing import placed_model, record_parts
from .task.build import build

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe
    from .loop.step import Forward


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    devices = claim(context)
    if context.training.compile:
        raise ValueError(tr("XLA compiles for one device, and this model is on several. Switch compiling off."))
    with tf.device(devices[0]):  # for everything that is not placed
        task = build(recipe, context, make_model=partial(placed_model, recipe, context, devices))
        record_parts(context, task.model, devices)
        train_alone(task, context, where_it_was_computed)


def where_it_was_computed(forward: Forward, variables: list[tf.Variable]) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
    """Compute each gradient on the device of its forward operation. A tape would use the first device for all."""
    loss, scaled = forward()
    return loss, tf.gradients(scaled, variables)
