"""From choices, as a person makes them, to a `RunSpec`: the same for the window and the command line."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.catalog import frameworks, recipes, strategies
from core.catalog.interpreters import interpreter
from core.config import presets
from core.config.choices import INTERRUPT_S, PresetChoice, RecipeChoices, ScriptChoices
from core.metrics.text.expression import compile_expression
from core.pythons.facts import locate
from core.pythons.selection import for_script
from core.schema.settings import DEFAULT_LEARNING_RATE, Checkpoints, ReleaseWatch, Script, StopTimeouts, Training
from core.schema.spec import SCRIPT, RunSpec
from core.scripts import analysis

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from core.devices.device import Device


def compose(choices: RecipeChoices, devices: Sequence[Device]) -> RunSpec:
    """The spec these choices make. Raises `ValueError` with a sentence for one that cannot be.

    Whether this machine can run it is another question: `catalog.problems` answers it.
    """
    row = frameworks.framework(choices.framework)
    recipe = recipes.find(choices.recipe, choices.framework)
    recipe.check_framework(row)
    wanted = dict(choices.training)
    if wanted.get("learning_rate") is None:
        wanted["learning_rate"] = default_learning_rate(recipe)
    return RunSpec(
        name=choices.name or recipe.name,
        framework=choices.framework,
        strategy=choices.strategy or strategies.default_strategy(choices.framework, len(choices.devices)),
        recipe=recipe.with_settings(choices.settings),
        devices=tuple(resolve(choices.devices, devices)),
        training=Training(**wanted),  # type: ignore[arg-type]  # Training checks each field itself
        checkpoints=Checkpoints(**choices.checkpoints),  # type: ignore[arg-type]  # so does this
        release=ReleaseWatch(**choices.release),  # type: ignore[arg-type]  # and this
        cuda_ids=choices.cuda_ids,
        python=locate(choices.python) if choices.python else interpreter(row),
        working_dir=_existing(choices.working_dir) if choices.working_dir is not None else _working_dir(),
    )


def compose_script(choices: ScriptChoices, devices: Sequence[Device]) -> RunSpec:
    """The spec these choices make. Raises `ValueError` with a sentence for one that cannot be."""
    working_dir = _existing(choices.working_dir) if choices.working_dir is not None else _working_dir()
    path = str(Path(working_dir, Path(choices.script).expanduser())) if choices.script else ""
    script = Script(
        path=path,
        module=choices.module,
        arguments=choices.arguments,
        environment=choices.environment,
        expression=choices.expression,
    )
    python = script_python(choices.python, path, working_dir)
    if choices.expression:
        compile_expression(choices.expression)
    look = analysis.analyse_script(
        path, module=choices.module or None, cwd=working_dir, python=python, variables=choices.environment
    )
    return RunSpec(
        name=choices.name or script.name.removesuffix(".py"),
        framework=SCRIPT,
        strategy=strategies.find_launch_mode(choices.launch or look.launch).name,
        script=script,
        devices=tuple(resolve(choices.devices, devices)),
        ladder=StopTimeouts(interrupt_s=INTERRUPT_S),
        release=ReleaseWatch(**choices.release),  # type: ignore[arg-type]  # it checks each field itself
        cuda_ids=choices.cuda_ids,
        python=python,
        working_dir=working_dir,
    )


def script_python(named: str | None, path: str, working_dir: str) -> str:
    """The Python for a script (`core.pythons.selection`): what lies near its file counts, or near a module's folder."""
    return for_script(named, Path(path).parent if path else Path(working_dir))


def compose_kept(choice: PresetChoice, devices: Sequence[Device]) -> RunSpec:
    """The spec of a setup. Raises `ValueError` with a sentence for one that cannot be used."""
    kept = presets.read(presets.path_of(choice.setup, presets.default_root()))
    chosen = tuple(resolve(choice.devices, devices)) or kept.devices
    return replace(kept, devices=chosen, name=choice.name or kept.name)


def _existing(folder: str) -> str:
    path = Path(folder).expanduser().absolute()
    if not path.is_dir():
        raise ValueError(f"There is no folder {path} to run in. Name one that is there.")
    return str(path)


def _working_dir() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 (a string is what is kept)
    except OSError:
        raise ValueError(
            "The folder you are in has been removed. Change to another, where training is to run."
        ) from None


def default_learning_rate(recipe: recipes.RecipeFile) -> float | None:
    """The recipe's own; None where its optimizer keeps that to itself."""
    return recipe.learning_rate if "optimizer" in recipe.functions else DEFAULT_LEARNING_RATE


def resolve(names: Iterable[str], devices: Sequence[Device]) -> list[str]:
    """Device ids for names: an id stands for itself, `gpu:0` for the device labelled `GPU 0`."""
    labels = {device.short_name: device.id for device in devices}
    return [labels.get(name.lower(), name) for name in names]
