"""Data parallel on several devices in one process: MirroredStrategy keeps a copy of the model on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ._devices import claim
from ._loop import Reporter, train_replicas

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    strategy = tf.distribute.MirroredStrategy(claim(context))
    train_replicas(strategy, recipe, context, Reporter(context))
