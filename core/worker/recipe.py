"""Import the user's recipe file and call its functions. Nothing else imports a recipe."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
import sys
import traceback
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..language import join_sentences, tr, tr_noop
from ..schema.files import read_whole
from ..schema.paths import OUTPUTS, WORKLOAD_FILE
from ..schema.settings import RECIPE_FUNCTIONS, RUN_KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from ..schema.spec import RunSpec
    from .context import Context

PHASES = {
    "train_data": "data", "val_data": "data", "model": "model", "placed_model": "model", "stages": "model",
}
"""What a worker does while it calls these functions; see `Context.enter_phase`."""

TRAINING_STEP = "training_step"
ON_EPOCH_END, CALLBACKS, PROBE_DATA = "on_epoch_end", "callbacks", "probe_data"


class LoadedRecipe:
    """A recipe's functions, called with the run's settings."""

    def __init__(
        self, spec: RunSpec, run_dir: Path, *, enter_phase: Callable[[str], object] | None = None
    ) -> None:
        """`enter_phase`: called with `data` or `model` before a function that may take long."""
        self._enter_phase = enter_phase
        self.name = spec.own_recipe.name
        self.path = spec.own_recipe.path
        self._module = _load(Path(self.path), run_dir / WORKLOAD_FILE if spec.recorded else None)
        of_run = {name: getattr(spec.training, name) for name in RUN_KEYWORDS}
        self._probe_items = spec.probe_steps * spec.training.batch_size
        self._values: dict[str, Any] = {
            **spec.own_recipe.settings, **{name: value for name, value in of_run.items() if value is not None}
        }

    def has(self, function: str) -> bool:
        return callable(getattr(self._module, function, None))

    def takes(self, function: str, keyword: str) -> bool:
        """Return whether the recipe's function has a parameter of this name."""
        return self.has(function) and keyword in _parameters(getattr(self._module, function))

    def name_and_line(self, function: str) -> str:
        """Return the recipe's name and the line at which this function of it begins, for messages."""
        line = self._line(function)
        return self.name if line is None else tr("{recipe} (line {line})", recipe=self.name, line=line)

    def _line(self, function: str) -> int | None:
        """Return the line at which a function begins; None where it is not one of the file."""
        target: Callable[..., Any] = getattr(self._module, function)
        code = getattr(inspect.unwrap(target), "__code__", None)
        return None if code is None or code.co_filename != self.path else code.co_firstlineno

    def located(self, message: str) -> str:
        """Return a message with the line of the first function of the recipe that it names, unless it has it."""
        for name in re.findall(rf"\b({'|'.join(RECIPE_FUNCTIONS)})\(", message):
            line = self._line(name) if self.has(name) else None
            if line is not None:
                file = Path(self.path).name
                begins = tr("{function}() begins in line {line} of {file}.", function=name, line=line, file=file)
                return message if self.name_and_line(name) in message else join_sentences([message, begins])
        return message

    @property
    def computes_loss(self) -> str:
        """The sentence that names the recipe's function of the loss; empty if it has none."""
        name = next((name for name in (TRAINING_STEP, "loss") if self.has(name)), "")
        if not name:
            return ""
        return tr("It is computed by {function}() of {recipe}.", function=name, recipe=self.name_and_line(name))

    @property
    def needs_epochs(self) -> str:
        """The first function that depends on the number of epochs; empty if none does."""
        by_name = (name for name in RECIPE_FUNCTIONS if name == "schedule" or self.takes(name, "epochs"))
        return next(filter(self.has, by_name), "")

    def set_rate(self, rate: float | None) -> None:
        """Give the recipe's functions this learning rate from now on."""
        self._values |= {} if rate is None else {"learning_rate": rate}

    def first_parameter(self, function: str) -> str:
        """Return the name of the first parameter of the recipe's function; the empty string if it has none."""
        return next(iter(_parameters(getattr(self._module, function))), "")

    def call(self, function: str, *arguments: object) -> Any:  # noqa: ANN401 (the framework's own types)
        """Call the recipe's function. Its other parameters are filled by name from the run's settings."""
        target = self.bound(function, len(arguments))
        if self._enter_phase is not None and function in PHASES:
            self._enter_phase(PHASES[function])
        found, items = target(*arguments), self._probe_items
        return self.call(PROBE_DATA, items) if items and function == "train_data" and self.has(PROBE_DATA) else found

    def settings_of(self, function: str, arguments: int = 0) -> dict[str, Any]:
        """Return what the recipe's function gets from the run's settings, after so many other arguments."""
        names = _parameters(getattr(self._module, function))[arguments:]
        return {name: self._values[name] for name in names if name in self._values}

    def bound(self, function: str, arguments: int) -> Callable[..., Any]:
        """Return the recipe's function for calls with `arguments` arguments; the others are the run's settings.

        Raises `TypeError` if it needs more. Without settings it is the function itself, which other processes can load.
        """
        target: Callable[..., Any] = getattr(self._module, function)
        _check_call(function, target, arguments, path=self.path)
        settings = self.settings_of(function, arguments)
        return functools.partial(target, **settings) if settings else target

    @property
    def collate(self) -> Callable[[list[Any]], Any] | None:
        """The recipe's function that makes a batch of a list of items, if there is one."""
        return self.bound("collate", 1) if self.has("collate") else None

    def metrics(self) -> dict[str, Any]:
        """Return the recipe's metrics by name. Raises `ValueError` if one is called loss."""
        metrics: dict[str, Any] = self.call("metrics") if self.has("metrics") else {}
        if "loss" in metrics:
            raise ValueError(
                tr(
                    "metrics() of {name} has a metric called loss, which is the loss's own name. Rename it.",
                    name=self.name,
                )
            )
        return metrics


def wrong_return(function: str, recipe: LoadedRecipe, value: object, remedy: str) -> TypeError:
    """Return the error for a function of a recipe that returned something else. `remedy`: what it must return."""
    sentence = tr(
        "{function}() of {recipe} returned {kind}.", function=function, recipe=recipe.name, kind=type(value).__name__
    )
    return TypeError(join_sentences([sentence, remedy]))


def cannot_place(recipe: str, devices: int, reason: str) -> ValueError:
    """Return the error for a model that cannot be divided over several devices in one process."""
    return ValueError(
        tr(
            "The model of {recipe} cannot be placed on {devices} devices because {reason}. Tick fewer devices, or give "
            "the recipe a function placed_model(devices), which returns the model with its parts on these devices.",
            recipe=recipe,
            devices=devices,
            reason=reason,
        )
    )


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _check_call(name: str, function: Callable[..., Any], given: int, *, path: str) -> None:
    """Raise `TypeError` if the function needs more arguments than it gets, such as `def loss(output, target)`."""
    wanted = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind.name not in {"VAR_POSITIONAL", "VAR_KEYWORD"}
    ]
    if len(wanted) > given and any(each not in RUN_KEYWORDS for each in wanted[given:]):
        takes = tr("the parameters") if given else tr("no arguments")
        raise TypeError(
            tr(
                "{name}() of {path} needs {wanted}, but it is called with {takes}. Every other argument "
                "needs a default. {remedy}",
                name=name,
                path=path,
                wanted=", ".join(wanted),
                takes=takes,
                remedy=tr(WHAT_TO_RETURN.get(name, "")),
            ).strip()
        )


WHAT_TO_RETURN = {
    "loss": tr_noop("It must return the loss function, which takes (output, target)."),
    "metrics": tr_noop("It must return a dict of names and functions of (output, target)."),
}


class _RecordedLoader(SourceFileLoader):
    """Loads a module from a copy of its file, as if that were the file."""

    def __init__(self, name: str, path: str, copy: Path) -> None:
        super().__init__(name, path)
        self._copy = copy

    def get_data(self, path: str) -> bytes:  # noqa: ARG002 (that of the module)
        return read_whole(self._copy)

    def path_stats(self, path: str) -> Any:  # noqa: ANN401 (as the base class)
        raise OSError(path)  # so that no bytecode of the changed file is used


def _load(path: Path, recorded: Path | None) -> Any:  # noqa: ANN401 (a module of the user's)
    """Import the file as a module of its own folder, as `python FILE` would, so that it finds its neighbours.

    `recorded`: a copy of the file, whose text is used in its place. The module is registered under its name, so that
    data-loader workers can unpickle what it defines.
    """
    sys.path.insert(0, str(path.parent))
    # A recipe named like a loaded module (random.py) must not replace it.
    name = path.stem if path.stem not in sys.modules else f"recipe_{path.stem}"
    loader = SourceFileLoader(name, str(path)) if recorded is None else _RecordedLoader(name, str(path), recorded)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class RecipeFunctionError(RuntimeError):
    """A function of the recipe, called between two epochs, has failed."""


def set_epoch_end(
    recipe: LoadedRecipe, context: Context, model: object, keep: Callable[[], AbstractContextManager[Any]]
) -> None:
    """Let the controller call the recipe's function with the numbers of an epoch, if there is one.

    `keep`: returns a context in which the function is called. It restores the random states at its end, so that the
    training goes on as it would without the function. The call raises `RecipeFunctionError` if the function fails.
    """

    def call(metrics: Mapping[str, float]) -> None:
        try:
            with keep():
                recipe.call(ON_EPOCH_END, model, dict(metrics), outputs_folder(context))
        except (Exception, SystemExit) as error:
            raise RecipeFunctionError(
                tr(
                    "{function}() of {recipe} failed after epoch {epoch}{where}: {error}. Correct the recipe, then "
                    "resume the run: it goes on after its last checkpoint.",
                    function=ON_EPOCH_END,
                    recipe=recipe.name,
                    epoch=int(metrics["epoch"]),
                    where=_where_in(recipe, error),
                    error=str(error).rstrip(".") or type(error).__name__,
                )
            ) from error

    if recipe.has(ON_EPOCH_END):
        context.on_epoch_end = call


def outputs_folder(context: Context) -> Path:
    """Return the run's folder for files of the recipe; make it if needed. Raises `OSError`."""
    folder = context.run_dir / OUTPUTS
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _where_in(recipe: LoadedRecipe, error: BaseException) -> str:
    """Return `, line 12` for the last line of the recipe that led to an error; the empty string if none did."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == recipe.path]
    return tr(", line {lineno}", lineno=lines[-1]) if lines else ""
