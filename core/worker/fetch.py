"""Call a recipe's functions in a process with a network, so that they download, before workers without one load it.

Workers that listen run in a network of their own (`core.launchers.loopback`). A function that downloads must keep the
result in a file, as Keras and TensorFlow Datasets do. The workers then find that file.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import traceback
from typing import TYPE_CHECKING

from ..language import tr

if TYPE_CHECKING:
    from ..schema.spec import RankAssignment
    from .context import Context
    from .recipe import LoadedRecipe

UNREACHABLE = frozenset({errno.ENETUNREACH, errno.ECONNREFUSED})


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Call the functions that may download, ignore what they return, and let each worker go on with one byte."""
    for function in ("train_data", "val_data"):
        if recipe.has(function):
            recipe.call(function)
    _call_model(recipe, context)
    assert context.assignment.gate is not None
    os.write(context.assignment.gate, bytes(context.world_size))


def _call_model(recipe: LoadedRecipe, context: Context) -> None:
    """Call `model()`, which may download weights. It may also need a GPU, which this process does not have."""
    try:
        recipe.call("model")
    except Exception as error:  # noqa: BLE001 (user code may raise anything)
        traceback.print_exc()
        context.notice(
            tr(
                "model() of {recipe} failed in the process that fetches data, which has no GPU "
                "({kind}: {error}). The workers call it again, without a network.",
                recipe=recipe.name,
                kind=type(error).__name__,
                error=error,
            )
        )


def await_end(context: Context) -> None:
    """Wait for the process that fetches, if there is one. If that process fails, the supervisor ends this one."""
    assignment = context.assignment
    if assignment.gate is None or assignment.role == "fetch":
        return
    context.enter_phase("download")
    fetched = os.read(assignment.gate, 1)
    os.close(assignment.gate)
    while not fetched:
        signal.pause()


def explain(error: BaseException, assignment: RankAssignment) -> str | None:
    """Return what the error of a worker without a network means if it comes from a connection; else None."""
    if assignment.gate is None or assignment.role == "fetch":
        return None
    seen: BaseException | None = error
    while seen is not None and not _is_of_network(seen):
        seen = seen.__cause__ or seen.__context__
    if seen is None:
        return None
    return tr(
        "The recipe contacts another computer ({error}), but workers of this strategy have no network while they "
        "train. Let train_data(), val_data() or model() keep what it downloads in a file, or choose strategy mirrored.",
        error=error,
    )


def _is_of_network(error: BaseException) -> bool:
    return isinstance(error, socket.gaierror) or (isinstance(error, OSError) and error.errno in UNREACHABLE)
