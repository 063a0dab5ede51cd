"""Data parallel on several devices in one process: MirroredStrategy keeps a copy of the model on each.

It replaces `keras.utils.multi_gpu_model`, which TensorFlow 2.4 removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tensorflow.loop.devices import mirrored_strategy
from ..tensorflow.task.build import build
from ._fit import fit

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    strategy = mirrored_strategy(context)
    fit(build(recipe, context, scope=strategy.scope()), recipe, context)
