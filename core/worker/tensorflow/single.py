"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from .loop.common import train_alone
from .loop.devices import claim
from .task.build import build

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    (device,) = claim(context)
    with tf.device(device):
        train_alone(build(recipe, context), context)
