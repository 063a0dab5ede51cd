"""What the options of `run` mean as choices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.cli.options import TRAINING
from core.config.choices import PresetChoice, RecipeChoices, ScriptChoices
from core.schema.settings import CHECKPOINT_UNITS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

RECIPE_ONLY = (*TRAINING, "framework", "strategy", "set", "checkpoint_every", "keep_checkpoints")
SCRIPT_ONLY = ("cwd", "env", "launch", "expression", "arguments")
EITHER = ("release_wait", "release_tolerance")
UNSAID: tuple[object, ...] = (None, "", [])
"""What an option is that was not given."""


def choices(options: argparse.Namespace) -> RecipeChoices | ScriptChoices | PresetChoice:
    """What was chosen. Raises `ValueError` with a sentence."""
    given = [f"--{name}" for name in ("script", "module", "setup") if getattr(options, name) is not None]
    if options.recipe is not None:
        given.insert(0, "a recipe")
    if len(given) > 1:
        raise ValueError(f"Both {given[0]} and {given[1]} are given. A run trains one of them: leave the other out.")
    if not given:
        raise ValueError("Nothing to train is given. Name a recipe (`trainyard recipes` lists them), or --script FILE.")
    if options.setup is not None:
        return _kept_choice(options)
    return _recipe_choices(options) if options.recipe is not None else _script_choices(options)


def _kept_choice(options: argparse.Namespace) -> PresetChoice:
    _only_for("setups that are being made", options, (*RECIPE_ONLY, *SCRIPT_ONLY, *EITHER))
    return PresetChoice(setup=options.setup, devices=_device_names(options), name=options.name)


def _script_choices(options: argparse.Namespace) -> ScriptChoices:
    _only_for("recipes", options, RECIPE_ONLY)
    return ScriptChoices(
        script=options.script or "",
        module=options.module or "",
        arguments=tuple(options.arguments),
        environment=dict(_variable(text) for text in options.env),
        working_dir=options.cwd,
        launch=options.launch,
        python=options.python,
        expression=options.expression,
        devices=_device_names(options),
        name=options.name,
        release=_release(options),
        cuda_ids=options.cuda_ids,
    )


def _recipe_choices(options: argparse.Namespace) -> RecipeChoices:
    _only_for("scripts", options, SCRIPT_ONLY)
    return RecipeChoices(
        recipe=options.recipe,
        devices=_device_names(options),
        framework=options.framework or "pytorch",
        python=options.python,
        strategy=options.strategy,
        name=options.name,
        settings=dict(_setting(text) for text in options.set),
        training={name: getattr(options, name) for name in TRAINING if getattr(options, name) is not None},
        checkpoints=_checkpoints(options),
        release=_release(options),
        cuda_ids=options.cuda_ids,
    )


def _only_for(what: str, options: argparse.Namespace, names: Iterable[str]) -> None:
    """Raises `ValueError` when an option was given that would be passed over: a choice is never dropped silently."""
    for name in names:
        if getattr(options, name) not in UNSAID:
            option = "What follows --" if name == "arguments" else f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} is for {what} only. Leave it out.")


def _device_names(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name.strip() for name in options.devices.split(",") if name.strip())


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--env {text!r} is not of the form NAME=VALUE.")
    return name, value


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--set {text!r} is not of the form name=value.")
    return name, value


def _checkpoints(options: argparse.Namespace) -> dict[str, object]:
    chosen: dict[str, object] = {}
    if options.checkpoint_every is not None:
        chosen = _distance(options.checkpoint_every)
    if options.keep_checkpoints is not None:
        chosen["keep"] = options.keep_checkpoints
    return chosen


def _release(options: argparse.Namespace) -> dict[str, object]:
    given = {"wait_s": options.release_wait, "tolerance_mb": options.release_tolerance}
    return {name: value for name, value in given.items() if value is not None}


def _distance(text: str) -> dict[str, object]:
    """`100 steps` as fields of `Checkpoints`. Raises `ValueError` with a sentence."""
    words = text.strip().lower()
    if words in {"auto", "never"}:
        return {"unit": words}
    found = re.fullmatch(r"(?:(\d+)\s*)?(epoch|step|minute)s?", words)
    if found is None or (unit := f"{found[2]}s") not in CHECKPOINT_UNITS:
        raise ValueError(
            f"--checkpoint-every {text!r} is not understood. Give epoch, '5 epochs', '100 steps', '10 minutes', "
            "auto or never."
        )
    return {"unit": unit, "every": int(found[1] or 1)}
