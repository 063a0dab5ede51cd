"""What the machine that trains says about choices: their spec, what is wrong with it, and what should be known.

Readings of devices and other runs are not looked at. The answer travels as JSON where the machine is another one. The
CUDA driver is asked whether it would show a run its GPUs; the answer is remembered for a while.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog import recipe_use, recipes
from core.catalog.strategies import find_launch_mode, strategy_of
from core.config import builds, validation
from core.config.choices import RecipeChoices, ScriptChoices, compose
from core.config.finding import Finding, Mark, findings_of, problems_of
from core.devices.device import Device
from core.devices.nvidia import preflight
from core.errors import RunError
from core.language import tr
from core.launchers import local
from core.launchers.local import assign_ranks
from core.runs.directory import workload_file
from core.runs.run import stat_of
from core.schema.codec import decode
from core.schema.spec import RunSpec
from core.system.processes import TAG

if TYPE_CHECKING:
    from core.config.script_check import ScriptCheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found about choices."""

    spec: RunSpec | None = None
    """None if the choices make none."""
    findings: tuple[Finding, ...] = ()
    """What was found. A finding that is marked as a problem prevents the start."""
    changed: tuple[int, int] | None = None
    """The modification time in nanoseconds and the size in bytes of the recipe or script."""
    arithmetic: str = ""
    """How the batch is divided; for a script, how it is launched and why."""
    proposed: str = ""
    """For a script, the launch mode that its source proposes."""
    why: str = ""
    """Why the source proposes that mode: a sentence."""
    usual_python: str = ""
    """For a script, the Python that is used if none is chosen; the empty string while that is unknown."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences; empty if the spec can be started."""
        return tuple(problems_of(self.findings))


def examine(choices: RecipeChoices | ScriptChoices, devices: Sequence[Device]) -> Examination:
    """Examine choices. Blocks for seconds if another Python has to be started and asked."""
    if isinstance(choices, ScriptChoices):
        from core.config.script_check import ScriptCheckRequest, check_script  # seldom at the start of the window

        return examine_script(choices, check_script(ScriptCheckRequest.of(choices)), devices)
    try:
        spec = compose(choices, devices)
    except ValueError as error:
        return Examination(findings=(Finding(sentence=str(error)),))
    return _of_spec(spec, devices, [*doubts(spec), *builds.judge(spec, devices)],
                    arithmetic=validation.batch_arithmetic(spec))


def examine_script(choices: ScriptChoices, result: ScriptCheckResult, devices: Sequence[Device]) -> Examination:
    """Examine the choices for a script, which itself has been checked with this result."""
    from core.config import script_check

    try:
        spec = None if result.spec is None else script_check.fill_in(result, choices, devices)
    except ValueError as error:
        return Examination(findings=(Finding(sentence=str(error)),), usual_python=result.usual_python)
    if spec is None:
        return Examination(findings=tuple(findings_of(result.problems)), usual_python=result.usual_python)
    result = script_check.on_devices(result, len(spec.devices))
    return _of_spec(
        spec, devices, [*findings_of(result.problems), *script_check.cautions_of(result, spec, devices)],
        arithmetic=_launch_words(spec, result, guessed=choices.launch is None), proposed=result.proposed,
        why=result.why, usual_python=result.usual_python,
    )


def spec_obstacles(spec: RunSpec, devices: Sequence[Device]) -> list[Finding]:
    """Return what is wrong with the recipe or script of a spec, and what keeps it from starting on this machine."""
    found: list[str] = []
    if spec.script is not None:
        from core.config.script_check import ScriptCheckRequest, check_script

        found += check_script(ScriptCheckRequest.of_spec(spec)).problems
    if spec.recipe is not None:
        try:  # its own schedule was looked at with the choices
            recipe = recipes.read(Path(spec.recipe.path))
            recipe_use.check_strategy(recipe, spec.framework, spec.strategy, varies=False)
        except ValueError as error:
            found.append(str(error))
        found += problems_of(builds.judge(spec, devices))
    return [*findings_of(found), *validation.problems(spec, devices)]


def changed_at(spec: RunSpec) -> tuple[int, int] | None:
    """Return the size and the modification time of the recipe or script; None for a module or an unreadable file."""
    path = workload_file(spec)
    return None if path is None else stat_of(str(path))


def unpack_choices(data: Mapping[str, Any]) -> RecipeChoices | ScriptChoices:
    """Return choices from `dataclasses.asdict`. Raises `ValueError` for anything else."""
    kind: type[RecipeChoices | ScriptChoices] = RecipeChoices if "recipe" in data else ScriptChoices
    return decode(kind, data)


def _of_spec(spec: RunSpec, devices: Sequence[Device], findings: Sequence[Finding], **found: Any) -> Examination:  # noqa: ANN401 (fields)
    every = (*findings, *validation.problems(spec, devices))
    return Examination(spec=spec, findings=every, changed=changed_at(spec), **found)


def doubts(spec: RunSpec) -> list[Finding]:
    """Return what should be known of the recipe; nothing if it cannot be read."""
    try:
        doubt = recipe_use.doubt(recipes.read(Path(spec.own_recipe.path)), spec.framework)
    except ValueError:
        return []
    return findings_of([tr("Please note that {doubt}.", doubt=doubt)] if doubt else [], mark=Mark.WARNING)


def _launch_words(spec: RunSpec, result: ScriptCheckResult, *, guessed: bool) -> str:
    """Return `One process. It uses torch.nn.DataParallel.`; if the user chose another mode than the source, say so."""
    per_device = strategy_of(spec).processes == "per_device"
    count = len(spec.devices)
    how = tr("{count} processes, one per device", count=count) if per_device and count > 1 else tr("One process")
    if guessed or spec.strategy == result.proposed:
        return tr("{how}. {why}", how=how, why=result.why)
    proposed = tr(find_launch_mode(result.proposed).title).lower()
    return tr("{how}, as you chose. The source of the script suggests {proposed}. {why}", how=how, proposed=proposed,
              why=result.why)


GOOD_S, BAD_S = 600.0, 5.0
"""Seconds for which a good and a bad answer is remembered: a library that was missing may be installed meanwhile."""
NVIDIA = "nvidia"


class GpuCheck:
    """Asks the same as a run at its start (`core.launchers.local`), once for the same GPUs and the same Python."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[object, tuple[float, str]] = {}
        """By what was asked: until when the answer holds, and the problem."""

    def problem(self, spec: RunSpec, devices: Sequence[Device]) -> str:
        """Return why the GPUs of a spec cannot be used, a sentence, or the empty string. May block for seconds.

        `devices`: all devices of this machine, the chosen ones among them.
        """
        by_id = {device.id: device for device in devices}
        chosen = [by_id[each] for each in spec.devices if each in by_id]
        if not chosen or any(device.kind != NVIDIA for device in chosen):
            return ""
        assignments = assign_ranks(chosen, strategy_of(spec))
        groups = tuple(dict.fromkeys(filter(None, map(local.visible_ids, assignments))))
        asked = (groups, spec.cuda_ids, spec.python)
        until, known = self._answers.get(asked, (0.0, ""))
        if self._clock() < until:
            return known
        found = ""
        try:
            names = local.cuda_names(assignments, spec.cuda_ids, spec.python)
            for group in groups:
                assignment = next(each for each in assignments if local.visible_ids(each) == group)
                environment = local.environment(os.environ, "", assignment, names)
                del environment[TAG]  # it is no process of a run
                preflight.check(group, environment, python=spec.python)
        except RunError as error:
            found = str(error)
        self._answers[asked] = (self._clock() + (BAD_S if found else GOOD_S), found)
        return found
