"""A spec to be started again: saved as a file under a name, or as the shell command that starts the same training."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.catalog.frameworks import FRAMEWORKS
from core.catalog.installed import interpreter
from core.catalog.strategies import strategy_of
from core.devices.nvidia.preflight import BY_BUS, ORDER, VISIBLE
from core.language import tr
from core.launchers.loopback import ALLOW
from core.launchers.script import command_of
from core.schema.files import make_private, make_private_folder, parse_json, read_whole, write_whole
from core.schema.setting import Flag, settings_of
from core.schema.settings import COUNTED, Checkpoints, ReleaseWatch, StopTimeouts, Training
from core.schema.spec import RunSpec
from core.system.folders import presets_folder
from core.text import SECRET_NAME, SECRET_VALUE

SUFFIX = ".json"
PATHS = (("python",), ("working_dir",), ("recipe", "path"), ("script", "path"))
"""The paths in a spec. Paths inside the preset's folder are saved relative to it, so that both can be moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A preset, or a file that cannot be used as one."""

    name: str
    path: Path
    spec: RunSpec | None
    problem: str = ""
    """Why it cannot be used: a sentence."""


def default_root() -> Path:
    """Return the folder of the presets saved by name: the chosen one, or one in the user's configuration folder."""
    return presets_folder()


def path_of(name: str, root: Path) -> Path:
    """Return the file for a name or a path. Raises `ValueError` for an invalid name."""
    if "/" in name or name.endswith(SUFFIX):
        return Path(name).expanduser().absolute()
    if not re.fullmatch(r"[\w][\w .+-]*", name):
        raise ValueError(tr(
            "{name!r} is not a valid preset name. Use letters, digits, spaces and . + - _, or give a path.",
            name=name,
        ))
    return root / f"{name}{SUFFIX}"


def save(spec: RunSpec, path: Path) -> None:
    """Write the preset, which only this user can read, and replace an existing one. Raises `OSError`."""
    if path.parent == default_root():
        make_private_folder(path.parent.parent)
        make_private_folder(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)

    def relative(text: str) -> str:
        within = os.path.relpath(text, path.parent) if text else ""
        return text if within.startswith("..") else within

    document = _with_paths(replace(spec, sweep="").to_json(), relative)
    write_whole(path, json.dumps(document, indent=2) + "\n")


def secret_names(spec: RunSpec) -> list[str]:
    """Return the variables of a script whose names or values look like secrets."""
    variables = spec.script.environment if spec.script else {}
    return [name for name, value in variables.items() if SECRET_NAME.search(name) or SECRET_VALUE.search(value)]


def without_values(spec: RunSpec, names: Collection[str]) -> RunSpec:
    """Return the spec with these variables by name alone: their values are taken from the environment at the start."""
    if spec.script is None:
        return spec
    kept = {name: value for name, value in spec.script.environment.items() if name not in names}
    inherited = tuple(dict.fromkeys([*spec.script.inherited, *names]))
    return replace(spec, script=replace(spec.script, environment=kept, inherited=inherited))


def read(path: Path) -> RunSpec:
    """Return the spec of a preset. Raises `ValueError` with a sentence that names the file."""
    try:
        document = parse_json(read_whole(path, follow_link=True))
        if isinstance(document, dict):
            document = _with_paths(document, lambda text: str(path.parent / text) if text else text)
        return RunSpec.from_json(document)
    except FileNotFoundError:
        raise ValueError(
            tr("There is no preset {path}. `trainyard setups` lists the presets saved by name.", path=path)
        ) from None
    except OSError as error:
        raise ValueError(
            tr("The preset {path} cannot be read: {strerror}.", path=path, strerror=error.strerror)
        ) from error
    except (ValueError, TypeError) as error:
        raise ValueError(tr("{path} is not a valid preset. {error}", path=path, error=error)) from error


def read_all(root: Path) -> list[Preset]:
    """Return all presets in a folder by name, also those that cannot be used.

    Other users lose their permissions on the presets, which may contain secrets: a copied file may be readable by all.
    """
    make_private(root)
    found = []
    for path in sorted(root.glob(f"*{SUFFIX}")):
        make_private(path)
        try:
            found.append(Preset(name=path.stem, path=path, spec=read(path)))
        except ValueError as error:
            found.append(Preset(name=path.stem, path=path, spec=None, problem=str(error)))
    return found


def _with_paths(document: dict[str, object], change: Callable[[str], str]) -> dict[str, object]:
    """Return a copy of the document with each of its paths changed."""
    changed = {name: dict(part) if isinstance(part, dict) else part for name, part in document.items()}
    for *into, last in PATHS:
        part: object = changed
        for name in into:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(part.get(last), str):
            part[last] = change(part[last])
    return changed


def shell_line(spec: RunSpec, cores: Mapping[str, Sequence[int]]) -> str:
    """Return a POSIX shell command: for a script one that does not need Trainyard, for a recipe `trainyard run`.

    `cores`: the cores of CPU devices by device id. The command for a script pins it to them, as a run does.
    """
    if spec.script:
        words = _script_words(spec, cores)
    else:
        usual = next((interpreter(row) for row in FRAMEWORKS if row.id == spec.framework), None)
        words = [*_recipe_words(spec), *([] if spec.python == usual else ["--python", spec.python])]
    return f"cd {shlex.quote(spec.working_dir)} && {shlex.join(words)}"


def repeat_line(spec: RunSpec) -> str:
    """Return a POSIX shell command that starts the same run with Trainyard, under the same Python.

    Values of variables that look like secrets are left out: `--env NAME` takes them from the environment.
    """
    words = _own_script_words(spec) if spec.script else [*_recipe_words(spec), "--python", spec.python]
    return f"cd {shlex.quote(spec.working_dir)} && {shlex.join(words)}"


def _own_script_words(spec: RunSpec) -> list[str]:
    """Return `trainyard run --script ...`."""
    script = without_values(spec, secret_names(spec)).script
    assert script is not None
    words = ["trainyard", "run", *(["--module", script.module] if script.module else ["--script", script.path])]
    words += ["--devices", ",".join(spec.devices), *_name_words(spec), "--launch", spec.strategy]
    words += ["--python", spec.python]
    for variable in (*(f"{name}={value}" for name, value in script.environment.items()), *script.inherited):
        words += ["--env", variable]
    words += ["--expression", script.expression] if script.expression else []
    words += ["--rules", script.rules_file] if script.rules_file else []
    words += setting_words(spec.training, Training())
    words += _common_words(spec)
    return [*words, "--", *script.arguments] if script.arguments else words


def _script_words(spec: RunSpec, cores: Mapping[str, Sequence[int]]) -> list[str]:
    assert spec.script is not None
    gpus = [each for each in spec.devices if not each.startswith("cpu:")]
    variables = {ORDER: BY_BUS, VISIBLE: ",".join(gpus), **spec.script.environment}
    pinned = sorted(core for each in spec.devices for core in cores.get(each, ()))
    words = ["env", *(f"{name}={value}" for name, value in variables.items())]
    if pinned:
        words += ["taskset", "--cpu-list", ",".join(map(str, pinned))]
    if strategy_of(spec).processes != "per_device":
        return [*words, spec.python, *command_of(spec.script)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={len(spec.devices)}"]
    program = ["--module", *spec.script.command[1:]] if spec.script.module else list(command_of(spec.script))
    return [*words, spec.python, *torchrun, *program]


def _recipe_words(spec: RunSpec) -> list[str]:
    recipe = spec.own_recipe
    words = ["trainyard", "run", recipe.path, "--framework", spec.framework, "--strategy", spec.strategy]
    words += ["--devices", ",".join(spec.devices), *_name_words(spec)]
    for name, value in recipe.settings.items():
        words += ["--set", f"{name}={value}"]
    words += setting_words(spec.training, Training())
    words += [ALLOW] if spec.allow_open_ports else []
    chosen, usual = spec.checkpoints, Checkpoints()
    words += setting_words(chosen, usual)
    if (chosen.unit, chosen.every) != (usual.unit, usual.every):
        words += ["--checkpoint-every", f"{chosen.every} {chosen.unit}" if chosen.unit in COUNTED else chosen.unit]
    return [*words, *_common_words(spec)]


def _common_words(spec: RunSpec) -> list[str]:
    """Return the options that recipes and scripts have."""
    words = setting_words(spec.stop_timeouts, StopTimeouts.usual(is_script=spec.script is not None), spec.framework)
    words += [*setting_words(spec.release, ReleaseWatch()), *setting_words(spec, replace(spec, cuda_ids="uuid"))]
    return words if spec.time_limit_s is None else [*words, "--time-limit", f"{spec.time_limit_s:g}s"]


def _name_words(spec: RunSpec) -> list[str]:
    """Return the option for the name. A run that was renamed may have a slash in its name; a new run may not."""
    return ["--name", spec.name.replace("/", "-")]


def setting_words(values: object, usual: object, framework: str = "") -> list[str]:
    """Return the options for the settings of a dataclass that differ from the usual ones."""
    words = []
    for name, row in settings_of(type(values)).items():
        value = getattr(values, name)
        if value == getattr(usual, name) or not row.flag or (framework and not row.is_for(framework)):
            continue
        if isinstance(row.kind, Flag):
            words.append(row.flag if value else f"--no-{row.flag[2:]}")
        else:
            words += [row.flag, _number(value) if isinstance(value, float) else str(value)]
    return words


def _number(value: float) -> str:
    """Return the shortest text that is read back as this number: `5`, not `5.0`."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
