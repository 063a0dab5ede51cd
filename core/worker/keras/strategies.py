"""The strategies with Keras' own `fit`, each a function of the recipe and the run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import tensorflow as tf

from ..tensorflow.devices import claim, mirrored_strategy, placed_model, record_parts
from ..tensorflow.strategies import where_it_was_computed
from ..tensorflow.task.build import build
from ._fit import fit

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def single(recipe: LoadedRecipe, context: Context) -> None:
    """Train on one device."""
    claim(context)
    fit(build(recipe, context), recipe, context)


def mirrored(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel on several devices: MirroredStrategy keeps a copy of the model on each.

    It replaces `keras.utils.multi_gpu_model`, which TensorFlow 2.4 removed.
    """
    strategy = mirrored_strategy(context)
    fit(build(recipe, context, scope=strategy.scope()), recipe, context)


def placement(recipe: LoadedRecipe, context: Context) -> None:
    """Train a model whose parts are on the devices that the recipe names, or in order on all."""
    devices = claim(context)
    with tf.device(devices[0]):  # for everything that is not placed
        task = build(recipe, context, make_model=partial(placed_model, recipe, context, devices))
    record_parts(context, task.model, devices)
    fit(task, recipe, context, where_it_was_computed)
