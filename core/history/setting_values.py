"""What was asked of a run, as named values: to search for runs, and to compare them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from core.devices.device import BETWEEN_KINDS, TIMES, shown_name
from core.schema.settings import Training
from core.text import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from core.schema.settings import Script, SettingValue
    from core.schema.spec import RunSpec

SEED = "seed"
SEED_ARGUMENTS = frozenset({"seed", "random_seed", "manual_seed"})
"""Arguments of a script that are its seed, without dashes."""
ENVIRONMENT = "env."
"""The beginning of the names of variables."""
OPTION = re.compile(r"--?[A-Za-z][^\s=]*")
ASSIGNMENT = re.compile(r"(?P<name>--?[A-Za-z][^\s=]*|[+~]{0,2}[A-Za-z_][\w./-]*)=(?P<value>.*)", re.DOTALL)
"""`--lr=0.1`, or `optimizer.lr=0.1` as for Hydra."""


def setting_values(spec: RunSpec, devices: Mapping[str, Mapping[str, Any]]) -> dict[str, SettingValue]:
    """Return all settings of a run but its name. Fields of `Training` and of the recipe have their own names.

    `devices`: what the run recorded of each device, by id; may be empty. The devices count by kind and number, not by
    id. Variables of the environment are `env.NAME`; their values may be secrets.
    """
    if spec.imported:
        return {"imported": spec.imported, "devices": device_text((), {})}
    values: dict[str, SettingValue] = {"framework": spec.framework, "strategy": spec.strategy}
    if spec.script is not None:
        values |= _script_values(spec.script)
    else:
        values |= {"recipe": spec.own_recipe.path, **asdict(spec.training)}
        taken = {*values, *(item.name for item in fields(Training))}
        for name, value in spec.own_recipe.settings.items():
            values[f"recipe.{name}" if name in taken else name] = value
        values |= {f"checkpoints.{name}": value for name, value in asdict(spec.checkpoints).items()}
        values["allow_open_ports"] = spec.allow_open_ports
    values["devices"] = device_text(spec.devices, devices)
    values |= {f"stop.{name}": value for name, value in asdict(spec.stop_timeouts).items()}
    values |= {f"release.{name}": value for name, value in asdict(spec.release).items()}
    return values | {"cuda_ids": spec.cuda_ids, "python": spec.python, "working_dir": spec.working_dir}


def device_text(ids: Iterable[str], known: Mapping[str, Mapping[str, Any]]) -> str:
    """Return number and kind of devices, as CPU or GPU for a run that recorded no names."""
    kinds = Counter(
        str(known.get(each, {}).get("name") or ("CPU" if each.startswith("cpu:") else "GPU")) for each in ids
    )
    return BETWEEN_KINDS.join(f"{count}{TIMES}{kind}" for kind, count in sorted(kinds.items())) or "-"


def setting_words(name: str, value: object) -> str:
    """Return the value of a setting as users read it, in the language in use."""
    return shown_name(short(value)) if name == "devices" else short(value)


def _script_values(script: Script) -> dict[str, SettingValue]:
    values: dict[str, SettingValue] = {"script": script.module or script.path}
    for name, value in _arguments(script.arguments):
        plain = name.lstrip("-").replace("-", "_").lower()
        key = SEED if plain in SEED_ARGUMENTS else name
        before = values.get(key)
        values[key] = value if before is None or before is True else f"{before} {value}"
    values |= {f"{ENVIRONMENT}{name}": value for name, value in script.environment.items()}
    values |= {
        "env": " ".join(script.inherited), "expression": script.expression, "rules": "\n".join(script.rules),
        "rules_file": script.rules_file,
    }  # fmt: skip
    return values


def _arguments(words: tuple[str, ...]) -> Iterator[tuple[str, SettingValue]]:
    """Yield the arguments of a script by name: `--lr 0.1`, `--lr=0.1`, `lr=0.1`; True for `--flag`.

    An argument without a name gets its number.
    """
    left, number = list(words), 0
    while left:
        word = left.pop(0)
        if found := ASSIGNMENT.fullmatch(word):
            yield found["name"], found["value"]
        elif not OPTION.fullmatch(word):
            number += 1
            yield f"argument {number}", word
        elif left and not OPTION.match(left[0]) and not ASSIGNMENT.fullmatch(left[0]):
            yield word, left.pop(0)
        else:
            yield word, True
