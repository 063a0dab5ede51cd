"""Data parallel on several devices in one process: MirroredStrategy keeps a copy of the model on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .loop.common import train_replicas
from .loop.devices import mirrored_strategy

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    strategy = mirrored_strategy(context)
    train_replicas(strategy, recipe, context)
