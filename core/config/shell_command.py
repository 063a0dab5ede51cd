"""Build the shell command that starts the same training as a run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from core.catalog.frameworks import FRAMEWORKS, interpreter
from core.catalog.strategies import strategy_of
from core.config.presets import secret_names, without_values
from core.devices.nvidia.preflight import BY_BUS, ORDER, VISIBLE
from core.launchers.loopback import ALLOW
from core.launchers.script import command_of
from core.schema.setting import Flag, settings_of
from core.schema.settings import COUNTED, Checkpoints, ReleaseWatch, StopTimeouts, Training

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.schema.spec import RunSpec


def shell_line(spec: RunSpec, cores: Mapping[str, Sequence[int]]) -> str:
    """Return a POSIX shell command: for a script one that does not need Trainyard, for a recipe `trainyard run`.

    `cores`: the cores of CPU devices by device id. The command for a script pins it to them, as a run does.
    """
    words = _script_words(spec, cores) if spec.script else [*_recipe_words(spec), *_python_words(spec)]
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
    return [*words, *_checkpoint_words(spec.checkpoints), *_common_words(spec)]


def _common_words(spec: RunSpec) -> list[str]:
    """Return the options that recipes and scripts have."""
    words = setting_words(spec.stop_timeouts, StopTimeouts.usual(is_script=spec.script is not None), spec.framework)
    words += [*setting_words(spec.release, ReleaseWatch()), *setting_words(spec, replace(spec, cuda_ids="uuid"))]
    return words if spec.time_limit_s is None else [*words, "--time-limit", f"{spec.time_limit_s:g}s"]


def _python_words(spec: RunSpec) -> list[str]:
    """Return the option for the Python of a recipe; nothing if it is the one that a run takes by itself."""
    usual = next((interpreter(row) for row in FRAMEWORKS if row.id == spec.framework), None)
    return [] if spec.python == usual else ["--python", spec.python]


def _name_words(spec: RunSpec) -> list[str]:
    """Return the option for the name. A run that was renamed may have a slash in its name; a new run may not."""
    return ["--name", spec.name.replace("/", "-")]


def _checkpoint_words(chosen: Checkpoints) -> list[str]:
    usual = Checkpoints()
    words = setting_words(chosen, usual)
    if (chosen.unit, chosen.every) != (usual.unit, usual.every):
        words += ["--checkpoint-every", f"{chosen.every} {chosen.unit}" if chosen.unit in COUNTED else chosen.unit]
    return words


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
