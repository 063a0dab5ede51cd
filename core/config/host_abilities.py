"""What an agent can be asked for to start runs: examine choices with the recipes, Pythons and drivers of its machine.

`core.hosts` is below this package, so the command `agent` adds these to the abilities there.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import FRAMEWORKS
from core.config import validation
from core.config.examination import examine as examine_choices
from core.config.examination import spec_obstacles, unpack_choices
from core.config.validation import is_installed
from core.config.visible_gpus import GpuCheck
from core.hosts.exchange import unpack_readings
from core.language import tr
from core.runs.directory import folder_problem
from core.runs.run import Run
from core.schema.codec import encode
from core.schema.spec import RunSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.devices.device import Device
    from core.hosts.agent.server import Request


def examine(request: Request) -> dict[str, Any]:
    """Examine choices; see `core.config.examination`. `choices`, and `devices` as in an answer with readings.

    The answer also has why no run can be kept there, and why the driver does not show the GPUs.
    """
    choices = request.terms.get("choices")
    if not isinstance(choices, dict):
        raise ValueError(tr("These are no choices."))  # noqa: TRY004 (what the other side wrote)
    devices = _devices(request)
    found = examine_choices(unpack_choices(choices), devices)
    can_start = found.spec is not None and not found.problems and not found.own
    return {
        **encode(found),
        "folder": folder_problem(request.runs_root) or "",
        "gpus": _gpu_check().problem(found.spec, devices) if can_start and found.spec is not None else "",
    }


def check_spec(request: Request) -> dict[str, Any]:
    """Return why a spec cannot be started there: sentences. `spec`, and `devices` as for `examine`."""
    spec = RunSpec.from_json(request.terms.get("spec"))
    found, own = spec_obstacles(spec, _devices(request))
    folder = folder_problem(request.runs_root)
    problems = [*([folder] if folder else []), *found, *map(str, own)]
    return {"problems": problems or validation.recipe_problems(spec)}


def frameworks(request: Request) -> dict[str, Any]:
    """Return the frameworks that are installed there."""
    del request
    return {"installed": [row.id for row in FRAMEWORKS if is_installed(row)]}


def start(request: Request) -> dict[str, Any]:
    """Start a run, or with `queue` put it into the queue. `spec`: the content of a `spec.json`."""
    spec = RunSpec.from_json(request.terms.get("spec"))
    if request.terms.get("queue") is not True:
        return {"run": Run.start(spec, request.runs_root).id}
    from core.queue.control import enqueue
    from core.queue.request import QueueRequest

    labels = request.terms.get("labels")
    known = {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}
    return {"run": enqueue(spec, request.runs_root, QueueRequest(labels=known)).id}


def _devices(request: Request) -> Sequence[Device]:
    """Return the devices there, as this agent has listed them before."""
    return unpack_readings(request.terms.get("devices")).devices or ()


@cache
def _gpu_check() -> GpuCheck:
    """Return the one check of this agent, which remembers its answers."""
    return GpuCheck()


START_ABILITIES: dict[str, Callable[[Request], object]] = {
    "examine": examine,
    "check_spec": check_spec,
    "frameworks": frameworks,
    "start": start,
}
"""By the name under which a connection asks for it."""
