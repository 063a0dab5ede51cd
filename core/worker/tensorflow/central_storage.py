"""Data parallel on several devices in one process: the variables are on one device, all devices compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from .loop.common import train_replicas
from .loop.devices import HOST, claim

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    devices = claim(context)
    # On the host, the strategy's own choice for several GPUs. A single device keeps its variables.
    storage = devices[0] if len(devices) == 1 else HOST
    strategy = tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices, parameter_device=storage)
    train_replicas(strategy, recipe, context)
