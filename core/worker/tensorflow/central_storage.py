"""Data parallel on several devices in one process: the variables are in one place, every device computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ._devices import HOST, claim
from ._loop import Reporter, train_replicas

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is asked for."""
    devices = claim(context)
    # On the host, as the strategy itself has it for several GPUs; with one there is nobody to share with.
    storage = devices[0] if len(devices) == 1 else HOST
    strategy = tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices, parameter_device=storage)
    train_replicas(strategy, recipe, context, Reporter(context))
