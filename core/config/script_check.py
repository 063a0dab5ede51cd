"""Check a script once: build its spec, analyse its source, and ask its Python whether it can start."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.catalog.strategies import find_launch_mode
from core.config import builds
from core.config.choices import ScriptChoices, absolute_folder, check_folder, resolve
from core.config.finding import Finding, Mark, findings_of
from core.devices.device import Device, own_id
from core.devices.nvidia.preflight import ORDER, VISIBLE
from core.diagnosis.device_argument import device_argument
from core.language import join_sentences, tr, tr_noop
from core.launchers import program
from core.launchers.local import HOST
from core.metrics.rules import NO_RULES, chosen_file, read_rules
from core.metrics.text.expression import compile_expression
from core.pythons.discovery import python_for_script
from core.schema.paths import METRICS_VARIABLE
from core.schema.settings import ReleaseWatch, Script, StopTimeouts, Training
from core.schema.spec import SCRIPT, RunSpec
from core.scripts.analysis import ScriptAnalysis, analyse_script, cautions
from core.scripts.problems import problems
from core.system.processes import RUN_DIR, TAG

FROM_RUN = frozenset({TAG, RUN_DIR, METRICS_VARIABLE})
"""Variables that the run sets."""
FROM_DEVICES = frozenset({ORDER, VISIBLE})
"""Variables that follow from the ticked devices."""
PER_DEVICE = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
"""Variables that differ between the processes of a run with one process per device."""
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
JAX_MEMORY = frozenset({
    PREALLOCATE, "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR"
})
"""Variables with which the user decides how much memory JAX takes: by itself, three quarters of each GPU at once.

https://docs.jax.dev/en/latest/gpu_memory_allocation.html
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCheckRequest:
    """The choices that decide the result. Arguments and devices do not, so that a result can be reused for others."""

    script: str
    module: str
    working_dir: str | None
    """None for the folder that this process is in."""
    environment: tuple[tuple[str, str], ...]
    launch: str | None
    python: str | None
    changed: tuple[int, int] | None
    """The script file's modification time in nanoseconds and its size in bytes; None for a file that cannot be read."""

    @classmethod
    def of(cls, choices: ScriptChoices) -> ScriptCheckRequest:
        return cls(
            script=choices.script, module=choices.module, working_dir=choices.working_dir,
            environment=tuple(sorted(choices.environment.items())), launch=choices.launch, python=choices.python,
            changed=_changed(choices.script),
        )

    @classmethod
    def of_spec(cls, spec: RunSpec) -> ScriptCheckRequest:
        """Return the request for the script of a run or a preset, to start it again."""
        assert spec.script is not None
        return cls(
            script=spec.script.path, module=spec.script.module, working_dir=spec.working_dir,
            environment=tuple(sorted(spec.script.environment.items())), launch=spec.strategy, python=spec.python,
            changed=_changed(spec.script.path),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCheckResult:
    """What is known about a script before its start."""

    spec: RunSpec | None = None
    """The spec without arguments and devices (see `fill_in`); None if the choices make none."""
    proposed: str = ""
    """The launch mode that the source proposes."""
    why: str = ""
    """Why it proposes that mode: a sentence."""
    usual_python: str = ""
    """The Python that is used if none is chosen; the empty string if it could not be determined."""
    look: ScriptAnalysis | None = None
    """The facts in its source."""
    guesses: bool = False
    """Whether the launch mode was left to the source."""
    problems: tuple[str, ...] = ()
    """Why the script would fail at once: sentences."""


def check_script(request: ScriptCheckRequest) -> ScriptCheckResult:
    """Check a script. Blocks for seconds if the script's Python has to be started and asked."""
    variables, usual = dict(request.environment), ""
    try:
        folder = absolute_folder(request.working_dir)
        path = Path(folder, Path(request.script).expanduser()) if request.script else None
        near = path.parent if path else folder
        try:
            usual = python_for_script(None, near)
        except ValueError:  # it belongs to another user, which matters only if none was chosen
            if not request.python:
                raise
        check_folder(folder)
        python = python_for_script(request.python, near) if request.python else usual
        script = Script(path=str(path or ""), module=request.module, environment=variables)
        look = analyse_script(
            script.path, module=request.module or None, cwd=str(folder), python=python, variables=variables
        )
        spec = RunSpec(
            name=script.name.removesuffix(".py").removesuffix(program.SUFFIX), framework=SCRIPT,
            strategy=find_launch_mode(request.launch or look.launch).name, script=script, devices=(), python=python,
            working_dir=str(folder),
        )
        found = problems(look, python=python, cwd=spec.working_dir, variables=variables)
    except ValueError as error:
        return ScriptCheckResult(usual_python=usual, problems=(str(error),))
    return ScriptCheckResult(
        spec=spec, proposed=look.launch, why=look.why, usual_python=usual, look=look, guesses=request.launch is None,
        problems=tuple(found),
    )


def on_devices(result: ScriptCheckResult, devices: int) -> ScriptCheckResult:
    """Return the result for so many devices: a program that also trains without ranks is one process on one device."""
    if result.spec is None or result.look is None or not result.look.why_alone or devices != 1:
        return result
    spec = replace(result.spec, strategy="one") if result.guesses else result.spec
    return replace(result, spec=spec, proposed="one", why=result.look.why_alone)


def cautions_of(result: ScriptCheckResult, spec: RunSpec, devices: Sequence[Device]) -> list[Finding]:
    """Return what should be known of a checked script before its start. A wrong build is no problem, as for a recipe.

    `spec`: with its devices. `devices`: all of this machine.
    """
    if result.look is None:
        return []
    on_cpu = all(own_id(each).startswith("cpu:") for each in spec.devices)
    argument = device_argument(spec.script.arguments) if spec.script is not None else None
    found = cautions(result.look, spec.strategy, len(spec.devices), on_cpu=on_cpu, argument=argument)
    if spec.script is not None and _for_jax(result, spec.devices, spec.script.inherited):
        sentence = tr_noop(
            "JAX takes three quarters of the memory of each GPU at its start. Here it takes what it needs "
            "({name}=false). To decide yourself, set that variable."
        )
        found.append(tr(sentence, name=PREALLOCATE))
    judged = builds.judge(spec, devices, result.look.frameworks)
    judged = [replace(each, mark=Mark.WARNING) if each.mark is Mark.PROBLEM else each for each in judged]
    return [*findings_of(found, mark=Mark.WARNING), *judged]


def _for_jax(result: ScriptCheckResult, devices: Sequence[str], inherited: Sequence[str]) -> dict[str, str]:
    """Return the variable for the memory of JAX, if the script imports it, uses GPUs, and the user has set none."""
    own = result.spec.script.environment if result.spec and result.spec.script else {}
    on_gpu = not all(own_id(each).startswith("cpu:") for each in devices)
    is_jax = result.look is not None and "jax" in result.look.frameworks
    return {PREALLOCATE: "false"} if is_jax and on_gpu and not {*own, *inherited, *os.environ} & JAX_MEMORY else {}


def fill_in(result: ScriptCheckResult, choices: ScriptChoices, devices: Sequence[Device]) -> RunSpec:
    """Return the spec of a checked script with the other choices. Raises `ValueError` for choices that make no spec."""
    if choices.expression:
        compile_expression(choices.expression)
        if choices.rules not in {"", NO_RULES}:
            raise ValueError(tr("Rules and an expression cannot be used together. Give one of them."))
    chosen = tuple(resolve(choices.devices, devices))
    result = on_devices(result, len(chosen))
    if result.spec is None or result.spec.script is None:
        raise ValueError(join_sentences(result.problems))
    rules = None
    if not choices.expression:
        rules = chosen_file(choices.rules, result.spec.script, result.spec.working_dir)
    return replace(
        result.spec,
        name=choices.name or result.spec.name,
        script=replace(
            result.spec.script, arguments=choices.arguments, expression=choices.expression, inherited=choices.inherited,
            rules=read_rules(rules) if rules else (), rules_file=choices.rules,
            environment={**_for_jax(result, chosen, choices.inherited), **result.spec.script.environment},
        ),
        devices=chosen,
        training=Training(**choices.training),  # type: ignore[arg-type]  # it checks each field itself
        release=ReleaseWatch(**choices.release),  # type: ignore[arg-type]  # so does this
        stop_timeouts=replace(StopTimeouts.usual(is_script=True), **choices.stop),  # type: ignore[arg-type]  # so does this
        cuda_ids=choices.cuda_ids,
    )


def _changed(path: str) -> tuple[int, int] | None:
    file = Path(path)
    try:
        stat = (file / "__main__.py" if file.is_dir() else file).stat() if path else None
    except (OSError, ValueError):
        return None
    return (stat.st_mtime_ns, stat.st_size) if stat else None


def variable_problems(script: Script, launch_mode: str) -> list[str]:
    """Return a sentence for each variable of a script that contradicts the ticked devices or cannot be used."""
    fixed = FROM_DEVICES | PER_DEVICE if launch_mode == "per-device" else FROM_DEVICES
    sentences = [
        tr("{name} cannot be set for a script: Trainyard sets it from {what}. Leave it out.", name=name, what=what)
        for names, what in ((fixed, tr("the chosen devices")), (FROM_RUN, tr("the run")))
        for name in sorted(names & script.environment.keys())
    ]
    sentences += unset_variables(script)
    port = script.environment.get("MASTER_PORT")
    if port is not None and not _is_free(port):
        sentences.append(
            tr("MASTER_PORT {port} is in use or not a port. Leave it out: a free one is found.", port=port)
        )
    return sentences


def unset_variables(script: Script) -> list[str]:
    """Return a sentence for each variable that the script takes from this environment, which does not have it."""
    return [
        tr(
            "The variable {name} is not set. The script takes its value from the environment: export {name}=... first.",
            name=name,
        )
        for name in script.inherited
        if name not in os.environ
    ]


def _is_free(port: str) -> bool:
    with contextlib.suppress(ValueError, OSError, OverflowError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the program that listens there will
        probe.bind((HOST, int(port)))
        return True
    return False
