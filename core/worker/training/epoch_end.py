"""The recipe's own `on_epoch_end(model, metrics, folder)`, called on rank 0 after each epoch and its validation."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from ...language import tr
from ...schema.paths import OUTPUTS
from ..recipe import ON_EPOCH_END

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ..context import Context
    from ..recipe import LoadedRecipe


class RecipeFunctionError(RuntimeError):
    """A function of the recipe, called between two epochs, has failed."""


def set_epoch_end(
    recipe: LoadedRecipe, context: Context, model: object, keep: Callable[[], AbstractContextManager[Any]]
) -> None:
    """Let the controller call the recipe's function, if there is one.

    `keep`: returns a context in which the function is called. It restores the random states at its end, so that the
    training goes on as it would without the function.
    """
    if recipe.has(ON_EPOCH_END):
        context.on_epoch_end = _EpochEnd(recipe, context, model, keep)


def outputs_folder(context: Context) -> Path:
    """Return the run's folder for files of the recipe; make it if needed. Raises `OSError`."""
    folder = context.run_dir / OUTPUTS
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class _EpochEnd:
    def __init__(
        self, recipe: LoadedRecipe, context: Context, model: object, keep: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self._recipe, self._context, self._model, self._keep = recipe, context, model, keep

    def __call__(self, metrics: Mapping[str, float]) -> None:
        """Call the function with the numbers of an epoch. Raises `RecipeFunctionError` if it fails."""
        try:
            with self._keep():
                self._recipe.call(ON_EPOCH_END, self._model, dict(metrics), outputs_folder(self._context))
        except (Exception, SystemExit) as error:
            raise RecipeFunctionError(
                tr(
                    "{function}() of {recipe} failed after epoch {epoch}{where}: {error}. Correct the recipe, then "
                    "resume the run: it goes on after its last checkpoint.",
                    function=ON_EPOCH_END,
                    recipe=self._recipe.name,
                    epoch=int(metrics["epoch"]),
                    where=where_in(self._recipe, error),
                    error=str(error).rstrip(".") or type(error).__name__,
                )
            ) from error


def where_in(recipe: LoadedRecipe, error: BaseException) -> str:
    """Return `, line 12` for the last line of the recipe that led to an error; the empty string if none did."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == recipe.path]
    return tr(", line {lineno}", lineno=lines[-1]) if lines else ""
