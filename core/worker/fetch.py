"""Fetch what a recipe needs, in a process of the machine's network, before workers without a network load the recipe.

Only strategies whose workers listen have such workers (`core.launchers.loopback`). A function of a recipe that fetches
keeps what it has fetched in a file, as Keras and TensorFlow Datasets do; the workers then find it there.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..schema.rank import RankAssignment
    from .context import Context
    from .recipe import LoadedRecipe

FETCHING = ("train_data", "val_data", "model")
"""The functions of a recipe that may fetch: data, and weights to begin with."""


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Call the functions that may fetch, drop what they return, and release each worker with one byte."""
    for function in FETCHING:
        if recipe.has(function):
            recipe.call(function)
    assert context.assignment.gate is not None
    os.write(context.assignment.gate, bytes(context.world_size))


def await_end(assignment: RankAssignment) -> None:
    """Wait until everything is fetched, if a process fetches for this worker.

    If that process fails, the supervisor ends this worker.
    """
    if assignment.gate is None or assignment.role == "fetch":
        return
    fetched = os.read(assignment.gate, 1)
    os.close(assignment.gate)
    while not fetched:
        signal.pause()
