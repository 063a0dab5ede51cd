"""Turn the options of `run` into choices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.config.choices import PresetChoice, RecipeChoices, ScriptChoices
from core.language import tr
from core.schema.setting import settings_of
from core.schema.settings import Checkpoints, ReleaseWatch, StopTimeouts, Training
from core.schema.spec import SCRIPT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

RECIPE_ONLY = (
    *(row.attribute for owner in (Training, Checkpoints, StopTimeouts) for row in settings_of(owner).values()
      if row.flag and not (owner is StopTimeouts and row.is_for(SCRIPT))),
    "framework", "strategy", "allow_open_ports", "set", "checkpoint_every",
)  # fmt: skip
"""A script does not know Trainyard: it writes no checkpoints, and cannot be asked to stop before SIGINT."""
SCRIPT_ONLY = ("cwd", "env", "launch", "expression", "rules", "arguments")
COMMON = tuple(row.attribute for owner in (StopTimeouts, ReleaseWatch) for row in settings_of(owner).values())
NOT_GIVEN: tuple[object, ...] = (None, "", [])
"""The values of options that were not given."""


def choices(options: argparse.Namespace) -> RecipeChoices | ScriptChoices | PresetChoice:
    """Return the choices. Raises `ValueError` with a sentence for options that make none."""
    workloads = [f"--{name}" for name in ("script", "module", "setup") if getattr(options, name) is not None]
    if options.recipe is not None:
        workloads.insert(0, "a recipe")
    if len(workloads) > 1:
        raise ValueError(
            tr(
                "Both {given} and {other} are given. A run trains one of them: leave the other out.",
                given=workloads[0],
                other=workloads[1],
            )
        )
    if not workloads:
        raise ValueError(
            tr("No recipe or script is given. Name a recipe (`trainyard recipes` lists them), or --script FILE.")
        )
    if "/" in (options.name or ""):
        raise ValueError(
            tr(
                "--name {options!r} has a slash. A run's folder gets this name: use - or _ instead.",
                options=options.name,
            )
        )
    if options.setup is not None:
        return _preset_choice(options)
    return recipe_choices(options) if options.recipe is not None else _script_choices(options)


def _preset_choice(options: argparse.Namespace) -> PresetChoice:
    for_others = [*RECIPE_ONLY, *SCRIPT_ONLY, *COMMON]
    _refuse(options, for_others, tr("cannot be combined with --setup, which has its own value"))
    return PresetChoice(preset=options.setup, devices=device_names(options), name=options.name)


def _script_choices(options: argparse.Namespace) -> ScriptChoices:
    _refuse(options, RECIPE_ONLY, tr("is for recipes only"))
    return ScriptChoices(
        script=options.script or "",
        module=options.module or "",
        arguments=tuple(options.arguments),
        environment=dict(_pair("--env", text) for text in options.env if "=" in text),
        inherited=tuple(text for text in options.env if "=" not in text),
        working_dir=options.cwd,
        launch=options.launch,
        python=options.python,
        expression=options.expression,
        rules=options.rules,
        devices=device_names(options),
        name=options.name,
        stop=given(options, StopTimeouts),
        release=given(options, ReleaseWatch),
        cuda_ids=options.cuda_ids or "uuid",
    )


def recipe_choices(options: argparse.Namespace) -> RecipeChoices:
    """Return the choices for a recipe. Raises `ValueError` as `choices`."""
    _refuse(options, SCRIPT_ONLY, tr("is for scripts only"))
    return RecipeChoices(
        recipe=options.recipe,
        devices=device_names(options),
        framework=options.framework or "pytorch",
        python=options.python,
        strategy=options.strategy,
        name=options.name,
        settings=dict(_pair("--set", text) for text in options.set),
        training=given(options, Training),
        checkpoints=_checkpoints(options),
        stop=given(options, StopTimeouts),
        release=given(options, ReleaseWatch),
        cuda_ids=options.cuda_ids or "uuid",
        allow_open_ports=options.allow_open_ports is True,
    )


def _refuse(options: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """Raise `ValueError` if one of these options was given: an option is never ignored silently."""
    for name in names:
        if getattr(options, name) not in NOT_GIVEN:
            option = tr("An argument after --") if name == "arguments" else f"--{name.replace('_', '-')}"
            raise ValueError(tr("{option} {why}. Leave it out.", option=option, why=why))


def device_names(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of the chosen devices."""
    return tuple(name.strip() for name in options.devices.split(",") if name.strip())


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(tr("{option} {text!r} is not of the form NAME=VALUE.", option=option, text=text))
    return name, value


def given(options: argparse.Namespace, owner: type) -> dict[str, object]:
    """Return the settings of a dataclass whose options were given. Raises `ValueError` that names the option."""
    values = {}
    for name, row in settings_of(owner).items():
        if row.flag and (value := getattr(options, row.attribute)) is not None:
            row.check(value, row.flag)
            values[name] = value
    return values


def _checkpoints(options: argparse.Namespace) -> dict[str, object]:
    interval = {} if options.checkpoint_every is None else _interval(options.checkpoint_every)
    return {**interval, **given(options, Checkpoints)}


def _interval(text: str) -> dict[str, object]:
    """Return `100 steps` as fields of `Checkpoints`. Raises `ValueError` with a sentence."""
    words = text.strip().lower()
    if words in {"auto", "never"}:
        return {"unit": words}
    found = re.fullmatch(r"(?:(\d+)\s*)?(epoch|step|minute)s?", words)
    if found is None:
        raise ValueError(
            tr(
                "--checkpoint-every {text!r} is not understood. Give epoch, '5 epochs', '100 steps', '10 minutes', "
                "auto or never.",
                text=text,
            )
        )
    return {"unit": f"{found[2]}s", "every": int(found[1] or 1)}
