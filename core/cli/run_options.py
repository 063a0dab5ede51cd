"""Turn the options of `run` into choices, and those of the queue into a request."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from core.config.choices import RecipeChoices, ScriptChoices
from core.devices.device import Device
from core.history import index
from core.language import tr
from core.queue.request import AFTER, IF_CHANGED, QueueRequest
from core.schema.setting import settings_of
from core.schema.settings import OF_SCRIPTS, Checkpoints, ReleaseWatch, StopTimeouts, Training
from core.schema.spec import SCRIPT
from core.text import BYTES_PER_GB, BYTES_PER_MB, join_names

RECIPE_ONLY = (
    *(row.attribute for owner in (Training, Checkpoints, StopTimeouts) for row in settings_of(owner).values()
      if row.flag and not (row.group in OF_SCRIPTS and row.is_for(SCRIPT))),
    "framework", "strategy", "allow_open_ports", "set", "checkpoint_every",
)
"""A script does not know Trainyard: it writes no checkpoints, and cannot be asked to stop before SIGINT."""
SCRIPT_ONLY = ("cwd", "env", "launch", "expression", "rules", "arguments")
COMMON = tuple(row.attribute for owner in (StopTimeouts, ReleaseWatch) for row in settings_of(owner).values())
NOT_GIVEN: tuple[object, ...] = (None, "", [])
"""The values of options that were not given."""


def choices(options: argparse.Namespace) -> RecipeChoices | ScriptChoices | str:
    """Return the choices, or the name of a preset. Raises `ValueError` with a sentence for options that make none."""
    workloads = [f"--{name}" for name in ("script", "module", "setup") if getattr(options, name) is not None]
    if options.recipe is not None:
        workloads.insert(0, "a recipe")
    if len(workloads) > 1:
        raise ValueError(tr("Both {given} and {other} are given. A run trains one of them: leave the other out.",
                            given=workloads[0], other=workloads[1]))
    if not workloads:
        raise ValueError(
            tr("No recipe or script is given. Name a recipe (`trainyard recipes` lists them), or --script FILE.")
        )
    if "/" in (options.name or ""):
        raise ValueError(tr("--name {options!r} has a slash. A run's folder gets this name: use - or _ instead.",
                            options=options.name))
    if options.setup is not None:
        for_others = [*RECIPE_ONLY, "stop_on_nan", *SCRIPT_ONLY, *COMMON]
        _refuse(options, for_others, tr("cannot be combined with --setup, which has its own value"))
        return str(options.setup)
    return recipe_choices(options) if options.recipe is not None else _script_choices(options)


def _script_choices(options: argparse.Namespace) -> ScriptChoices:
    _refuse(options, RECIPE_ONLY, tr("is for recipes only"))
    return ScriptChoices(
        script=options.script or "", module=options.module or "", arguments=tuple(options.arguments),
        environment=dict(pair("--env", text) for text in options.env if "=" in text),
        inherited=tuple(text for text in options.env if "=" not in text), working_dir=options.cwd,
        launch=options.launch, expression=options.expression, rules=options.rules, **_common_choices(options),
    )


def recipe_choices(options: argparse.Namespace) -> RecipeChoices:
    """Return the choices for a recipe. Raises `ValueError` as `choices`."""
    _refuse(options, SCRIPT_ONLY, tr("is for scripts only"))
    every = {} if options.checkpoint_every is None else interval(options.checkpoint_every)
    return RecipeChoices(
        recipe=options.recipe, framework=options.framework or "pytorch", strategy=options.strategy,
        settings=dict(pair("--set", text) for text in options.set),
        checkpoints={**every, **given(options, Checkpoints)}, allow_open_ports=options.allow_open_ports is True,
        **_common_choices(options),
    )


def _common_choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the choices that recipes and scripts have."""
    return {
        "devices": device_names(options), "name": options.name, "python": options.python,
        "training": given(options, Training), "stop": given(options, StopTimeouts),
        "release": given(options, ReleaseWatch), "cuda_ids": options.cuda_ids or "uuid",
    }


def _refuse(options: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """Raise `ValueError` if one of these options was given: an option is never ignored silently."""
    for name in names:
        if getattr(options, name) not in NOT_GIVEN:
            option = tr("An argument after --") if name == "arguments" else f"--{name.replace('_', '-')}"
            raise ValueError(tr("{option} {why}. Leave it out.", option=option, why=why))


def device_names(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name.strip() for name in options.devices.split(",") if name.strip())


def pair(option: str, text: str) -> tuple[str, str]:
    """Return NAME and VALUE of NAME=VALUE. Raises `ValueError` with a sentence that begins with the option."""
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


def interval(text: str) -> dict[str, object]:
    """Return `100 steps` as fields of `Checkpoints`. Raises `ValueError` with a sentence."""
    words = text.strip().lower()
    if words in {"auto", "never"}:
        return {"unit": words}
    found = re.fullmatch(r"(?:(\d+)\s*)?(epoch|step|minute)s?", words)
    if found is None:
        raise ValueError(tr(
            "--checkpoint-every {text!r} is not understood. Give epoch, '5 epochs', '100 steps', '10 minutes', "
            "auto or never.", text=text,
        ))
    return {"unit": f"{found[2]}s", "every": int(found[1] or 1)}


ONLY_QUEUED = ("any", "kind", "free_memory", "priority", "after", "not_before", "requeue", "if_changed")
MAX_PRIORITY = 1000
MAX_S = 1e9
"""Seconds of the longest time that is understood, some thirty years."""
MAX_BYTES = 2**60
UNITS_S = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
SIZES = {"M": BYTES_PER_MB, "MB": BYTES_PER_MB, "G": BYTES_PER_GB, "GB": BYTES_PER_GB, "T": 1024 * BYTES_PER_GB,
         "TB": 1024 * BYTES_PER_GB}


def add_queue_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group(tr("queue")).add_argument
    add("--queue", action="store_true", help=tr("start the run when its devices are free"))
    add("--any", type=int, metavar="N", help=tr("any N devices, in place of --devices"))
    add("--kind", metavar="KIND", help=tr("with --any: only devices of this kind, such as nvidia or cpu"))
    add(
        "--free-memory", metavar="SIZE",
        help=tr("memory that must be free on each device, such as 20GB; then other programs may use the rest"),
    )
    add("--priority", type=int, metavar="N",
        help=tr("among your own runs the highest priority starts first; default: 0"))
    add(
        "--after", metavar="RUN[:ok|:end]",
        help=tr("wait for the end of another run; with :ok, start only if that has finished; default: :end"),
    )
    add("--not-before", metavar="TIME", help=tr("do not start earlier: 22:00, '2026-12-24 06:00' or +2h"))
    add("--time-limit", metavar="DURATION", help=tr("stop the run after this time of training, such as 90m, 8h or 2d"))
    add(
        "--requeue", action="store_true", default=None,
        help=tr("after a reboot, go on from the last checkpoint; recipes only"),
    )
    add(
        "--if-changed", metavar="WHAT",
        help=tr("if the recipe or script has changed by the start: {known}; default: hold",
                known=join_names(IF_CHANGED, "or")),
    )


def check_queue_options(options: argparse.Namespace) -> None:
    """Raise `ValueError` for options of the queue that cannot be combined."""
    if not options.queue:
        for name in ONLY_QUEUED:
            if getattr(options, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise ValueError(tr("{option} is for queued runs. Add --queue, or leave it out.", option=option))
    elif options.any is None:
        if options.kind is not None:
            raise ValueError(tr("--kind needs --any N. Give it, or leave --kind out."))
    elif options.devices:
        raise ValueError(
            tr("Both --devices and --any are given. --devices names exactly those to use: leave one of them out.")
        )
    if options.requeue and (options.script is not None or options.module is not None):
        raise ValueError(tr("--requeue is for recipes: Trainyard cannot resume a script. Leave it out."))


def choose_any(options: argparse.Namespace, devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices of which any will do; none without `--any`. `options.devices` becomes the first of them.

    Raises `ValueError` if there are not enough.
    """
    if options.any is None:
        return ()
    if options.any < 1:
        raise ValueError(tr("--any is {count}. Give a number of devices from 1 on.", count=options.any))
    kinds = sorted({device.kind for device in devices})
    kind = options.kind or ("nvidia" if "nvidia" in kinds else "cpu")
    if kind not in kinds:
        raise ValueError(
            tr("There is no device of kind {kind!r} here. There is: {kinds}. `trainyard devices` lists them.",
               kind=kind, kinds=join_names(kinds))
        )
    needed = _size(options.free_memory)
    of_kind = [device for device in devices if device.kind == kind and not device.blocked]
    fitting = tuple(
        device for device in of_kind
        if needed is None or device.memory_total_bytes is None or device.memory_total_bytes >= needed
    )
    if len(fitting) < options.any:
        raise ValueError(
            tr("--any asks for {count} devices, and there are {there} of kind {kind!r} that fit. Ask for fewer.",
               count=options.any, there=len(fitting), kind=kind)
        )
    options.devices = ",".join(device.id for device in fitting[: options.any])
    return fitting


def queue_request(
    options: argparse.Namespace, among: Sequence[Device], devices: Sequence[Device], runs_root: Path
) -> QueueRequest:
    """Return what was asked of the queue. `among`: see `choose_any`. Raises `ValueError` or `RunError`."""
    if abs(options.priority or 0) > MAX_PRIORITY:
        raise ValueError(
            tr("--priority is {given}. Give a whole number from -{most} to {most}.", given=options.priority,
               most=MAX_PRIORITY)
        )
    other, mode = _after(options.after, runs_root) if options.after is not None else ("", "end")
    if options.if_changed is not None and options.if_changed not in IF_CHANGED:
        raise ValueError(
            tr("--if-changed is {given!r}. Choose one of: {known}.", given=options.if_changed,
               known=join_names(IF_CHANGED, "or"))
        )
    return QueueRequest(
        any_of=tuple(device.id for device in among), count=options.any or 0,
        free_memory_bytes=_size(options.free_memory), labels={device.id: device.label for device in devices},
        priority=options.priority or 0, after=other, after_mode=mode,
        not_before=None if options.not_before is None else _time(options.not_before),
        requeue=bool(options.requeue), if_changed=options.if_changed or "hold",
    )


def time_limit_s(options: argparse.Namespace) -> float | None:
    """Return the time limit; None if there is none. Raises `ValueError`."""
    if options.time_limit is None:
        return None
    seconds = _duration(options.time_limit)
    if seconds is None or not 0 < seconds < MAX_S:
        raise ValueError(
            tr("--time-limit {text!r} is not understood. Give a time such as 90m, 8h, 2d or 1:30:00.",
               text=options.time_limit)
        )
    return seconds


def _after(text: str, runs_root: Path) -> tuple[str, str]:
    name, colon, mode = text.rpartition(":")
    if not colon:
        name, mode = text, "end"
    if mode not in AFTER:
        raise ValueError(tr("--after {text!r} is not understood. Give RUN, RUN:ok or RUN:end.", text=text))
    return str(index.find(runs_root, name)), mode


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text.strip())
    unit = SIZES.get(found[2].upper()) if found else None
    if found is None or unit is None or not 0 < float(found[1]) * unit < MAX_BYTES:
        raise ValueError(
            tr("{option} {text!r} is not understood. Give a size such as 20GB or 500MB.", option="--free-memory",
               text=text)
        )
    return int(float(found[1]) * unit)


def _duration(text: str) -> float | None:
    """Return `90m`, `1h30m`, `2d` or `1:30:00` in seconds; None for any other text."""
    words = text.strip().lower().replace(" ", "")
    if clock := re.fullmatch(r"(\d+):(\d\d)(?::(\d\d))?", words):
        return int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
    if not re.fullmatch(r"(?:\d+(?:\.\d+)?(?:sec|s|min|m|h|d))+", words):
        return None
    return sum(float(count) * UNITS_S[unit] for count, unit in re.findall(r"(\d+(?:\.\d+)?)(sec|s|min|m|h|d)", words))


def _time(text: str) -> float:
    """Return `22:00` (the next one), a date with a time, or `+2h` in unix seconds. Raises `ValueError`."""
    now = datetime.now()  # noqa: DTZ005 (as the user's clock shows it)
    words = text.strip()
    if words.startswith("+") and (seconds := _duration(words[1:])) is not None and seconds < MAX_S:
        return time.time() + seconds
    if clock := re.fullmatch(r"(\d{1,2}):(\d\d)", words):
        hour, minute = int(clock[1]), int(clock[2])
        if hour < 24 and minute < 60:
            then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return (then if then > now else then + timedelta(days=1)).timestamp()
    try:
        return datetime.fromisoformat(words).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            tr("--not-before {text!r} is not understood. Give 22:00, '2026-12-24 06:00' or +2h.", text=text)
        ) from None
