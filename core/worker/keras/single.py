"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tensorflow.loop.devices import claim
from ..tensorflow.task.build import build
from ._fit import fit

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    claim(context)
    fit(build(recipe, context), recipe, context)
