"""The user's recipe file inside the worker: imported here, and nowhere else."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..spec import RunSpec


class LoadedRecipe:
    """A recipe's functions, called with the run's settings."""

    def __init__(self, spec: RunSpec) -> None:
        self.name = spec.recipe.name
        self._module = _load(Path(spec.recipe.path))
        training = spec.training
        self._values: dict[str, Any] = {
            **spec.recipe.settings,
            "seed": training.seed,
            "batch_size": training.batch_size,
            "epochs": training.epochs,
        }
        if training.learning_rate is not None:
            self._values["learning_rate"] = training.learning_rate

    def has(self, function: str) -> bool:
        """Whether the recipe defines this function."""
        return callable(getattr(self._module, function, None))

    def takes(self, function: str, keyword: str) -> bool:
        """Whether a function of the recipe has this keyword."""
        return self.has(function) and keyword in _parameters(getattr(self._module, function))

    def call(self, function: str, *arguments: object) -> Any:  # noqa: ANN401 (the framework's own types)
        """Call a function of the recipe, its keywords filled from the run's settings."""
        target: Callable[..., Any] = getattr(self._module, function)
        names = list(_parameters(target))[len(arguments) :]
        return target(*arguments, **{name: self._values[name] for name in names if name in self._values})


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _load(path: Path) -> Any:  # noqa: ANN401 (a module of the user's)
    """Import the file as its own folder's module, the way `python FILE` would find its neighbours.

    It is registered under its name, so that data-loader workers can unpickle what it defines.
    """
    sys.path.insert(0, str(path.parent))
    # A recipe called like a module that is in use (random.py, model.py of another) must not replace it.
    name = path.stem if path.stem not in sys.modules else f"recipe_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
