"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .loop.common import train_task
from .task.build import build

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    train_task(build(recipe, context), context)
