"""The user's choices, from the window's form or the command line, and the `RunSpec` of a recipe.

Scripts: see `core.config.script_check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.catalog import frameworks, recipe_use, recipes, strategies
from core.catalog.frameworks import Framework
from core.catalog.installed import interpreter
from core.devices.device import Device
from core.language import tr
from core.schema.settings import DEFAULT_LEARNING_RATE, Checkpoints, ReleaseWatch, SettingValue, StopTimeouts, Training
from core.schema.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeChoices:
    """Choices for a recipe. None stands for the documented default.

    `training`, `checkpoints`, `stop` and `release` have the settings that differ from their defaults.
    """

    recipe: str
    """A built-in name or a file."""
    devices: tuple[str, ...]
    """Ids, or short names such as `gpu:0`, in the order of ranks."""
    framework: str = "pytorch"
    strategy: str | None = None
    name: str | None = None
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    training: Mapping[str, object] = field(default_factory=dict)
    checkpoints: Mapping[str, object] = field(default_factory=dict)
    stop: Mapping[str, object] = field(default_factory=dict)
    release: Mapping[str, object] = field(default_factory=dict)
    cuda_ids: str = "uuid"
    allow_open_ports: bool = False
    working_dir: str | None = None
    """None for the folder that this process is in."""
    python: str | None = None
    """A path, or a command on PATH; None for the framework's usual one (`core.catalog.installed`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptChoices:
    """Choices for a script. None stands for the documented default; `training`, `stop`, `release` as for a recipe."""

    script: str = ""
    """A file, or a folder with a `__main__.py`."""
    module: str = ""
    """Instead of a script: the module for `python -m`."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: tuple[str, ...] = ()
    """Names of variables whose values are taken from the environment at each start, and not stored."""
    working_dir: str | None = None
    """None for the folder that this process is in."""
    launch: str | None = None
    """`one` or `per-device`; None for the mode that the script's source proposes."""
    python: str | None = None
    """None for the active environment, one next to the script, or Trainyard's own (`core.pythons.discovery`)."""
    expression: str = ""
    """A regular expression that reads metrics from the log."""
    rules: str = ""
    """The file of rules for the log; empty for the one beside the script, if there is one, and `none` for no rules."""
    devices: tuple[str, ...]
    name: str | None = None
    training: Mapping[str, object] = field(default_factory=dict)
    stop: Mapping[str, object] = field(default_factory=dict)
    release: Mapping[str, object] = field(default_factory=dict)
    cuda_ids: str = "uuid"


def compose(choices: RecipeChoices, devices: Sequence[Device]) -> RunSpec:
    """Return the spec for a recipe. Raises `ValueError` with a sentence for choices that make none.

    `core.config.validation` checks whether this machine can run the spec.
    """
    row = frameworks.framework(choices.framework)
    recipe = recipes.find(choices.recipe, choices.framework)
    recipe_use.check_framework(recipe, row)
    strategy = choices.strategy or strategies.default_strategy(choices.framework, len(choices.devices))
    given = choices.training.get
    varies = given("schedule", "constant") != "constant" or bool(given("warmup_steps"))
    varies = varies or given("rate_scaling", "none") != "none"
    recipe_use.check_strategy(recipe, choices.framework, strategy, varies=varies)
    training = dict(choices.training)
    if training.get("learning_rate") is None:
        training["learning_rate"] = default_learning_rate(recipe)
    return RunSpec(
        name=choices.name or recipe.name, framework=choices.framework, strategy=strategy,
        recipe=recipe.with_settings(choices.settings), devices=tuple(resolve(choices.devices, devices)),
        training=Training(**training),  # type: ignore[arg-type]  # Training checks each field itself
        checkpoints=Checkpoints(**choices.checkpoints),  # type: ignore[arg-type]  # so do these
        stop_timeouts=StopTimeouts(**choices.stop),  # type: ignore[arg-type]
        release=ReleaseWatch(**choices.release),  # type: ignore[arg-type]
        cuda_ids=choices.cuda_ids, allow_open_ports=choices.allow_open_ports,
        python=_python(choices.python, row), working_dir=check_folder(absolute_folder(choices.working_dir)),
    )


def _python(chosen: str | None, row: Framework) -> str:
    """Return the Python that trains. Raises `ValueError` with a sentence if the chosen one cannot be used."""
    if not chosen:
        return interpreter(row)
    from core.pythons.discovery import locate_python  # not at the start of the window, where few choose one

    return locate_python(chosen)


def absolute_folder(path: str | None) -> Path:
    """Return a folder as an absolute path; None is the current one. Raises `ValueError` if that was removed."""
    try:
        return Path(path or "").expanduser().absolute()
    except OSError:
        raise ValueError(
            tr("The current folder has been removed. Change to the folder that the training is to run in.")
        ) from None


def check_folder(folder: Path) -> str:
    """Return the path as text. Raises `ValueError` with a sentence if there is no such folder."""
    if not folder.is_dir():
        raise ValueError(tr("There is no folder {folder} to run in. Choose an existing folder.", folder=folder))
    return str(folder)


def default_learning_rate(recipe: recipes.RecipeFile) -> float | None:
    """Return the recipe's own learning rate; None if its optimizer does not take one."""
    return recipe.learning_rate if {"optimizer", "optimizers"} & set(recipe.functions) else DEFAULT_LEARNING_RATE


def resolve(names: Iterable[str], devices: Sequence[Device]) -> list[str]:
    """Return device ids for names: an id stays as it is, `gpu:0` becomes the id of the device labelled `GPU 0`."""
    labels = {device.short_name: device.id for device in devices}
    return [labels.get(name.lower(), name) for name in names]
