"""What an agent can be asked for: to start runs, and to train some ranks of a run of another machine.

`core.hosts` is below this package, so the command `agent` adds these to the abilities there. Choices are examined with
the recipes, Pythons and drivers of the agent's machine.

The ranks that train here are a part: a run directory among the runs of this machine, with a supervisor of its own. Its
files travel as those of any run (`core.hosts.agent.runs`), and requests reach it as any run
(`core.hosts.agent.abilities`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from core.catalog import recipes
from core.catalog.frameworks import FRAMEWORKS, framework
from core.catalog.installed import has, installed_version, interpreter, nccl_version
from core.config import validation
from core.config.examination import GpuCheck, spec_obstacles, unpack_choices
from core.config.examination import examine as examine_choices
from core.config.script_check import unset_variables
from core.config.validation import is_installed
from core.devices.device import Device
from core.errors import RunError
from core.history.index import directories
from core.hosts.agent.runs import run_folder
from core.hosts.agent.server import Request
from core.hosts.parts.head import MISSING, UNREADABLE, continue_holder, held
from core.hosts.protocol import unpack_readings
from core.language import join_sentences, stored, tr
from core.launchers import local
from core.runs import directory, stopped
from core.runs.directory import Part, folder_problem, read_part, write_part
from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema.codec import decode, encode
from core.schema.files import make_private_folder, read_whole, write_whole
from core.schema.paths import PART_RECIPE
from core.schema.spec import RunSpec, write_spec
from core.scripts.analysis import FRAMEWORKS as IMPORTED
from core.scripts.analysis import analyse_script
from core.scripts.problems import problems as program_problems
from core.scripts.source import differences, files_hash, own_files
from core.system.processes import ProcessId


def examine(request: Request) -> dict[str, Any]:
    """Examine choices; see `core.config.examination`. `choices`, and `devices` as in an answer with readings.

    The answer also has why no run can be kept there, and why the driver does not show the GPUs.
    """
    choices = request.terms.get("choices")
    if not isinstance(choices, dict):
        raise ValueError(tr("These are no choices."))  # noqa: TRY004 (what the other side wrote)
    devices = _devices(request)
    found = examine_choices(unpack_choices(choices), devices)
    return {
        **encode(found),
        "folder": folder_problem(request.runs_root) or "",
        "gpus": _GPU_CHECK.problem(found.spec, devices) if found.spec is not None and not found.problems else "",
    }


def check_spec(request: Request) -> dict[str, Any]:
    """Return why a spec cannot be started there: sentences. `spec`, and `devices` as for `examine`."""
    spec = RunSpec.from_json(request.terms.get("spec"))
    folder = folder_problem(request.runs_root)
    problems = [*([folder] if folder else []), *map(str, spec_obstacles(spec, _devices(request)))]
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


_GPU_CHECK = GpuCheck()
"""The one check of this agent, which remembers its answers."""


START_ABILITIES: dict[str, Callable[[Request], object]] = {
    "examine": examine, "check_spec": check_spec, "frameworks": frameworks, "start": start,
}
"""By the name under which a connection asks for it."""


MAX_FILES = 200
MAX_PORTS = 1000
REACH_S = 5.0
"""Longest wait for a connection to another machine of the run."""
HOLD_S = 0.5
"""Seconds between two signs of life of the agent that holds a part."""
END_S = 20.0
"""Longest wait for the end of an earlier part of the same run."""
END_NAP_S = 0.05


def equipment(request: Request) -> dict[str, Any]:
    """Return what this machine trains with.

    `framework`: its name. `nccl`: whether to find the version of PyTorch's NCCL. `recipe`: the name of an included
    recipe whose hash is wanted, or the empty string. `paths`: those of the data. The answer has the versions, the
    hash, and by path whether it can be read.
    """
    row = framework(str(request.terms.get("framework")))
    python = interpreter(row)
    if not has(python, row.module):
        raise ValueError(validation.missing_sentence(row, python))
    included = request.terms.get("recipe")
    return {
        "version": installed_version(python, row.module),
        "nccl": nccl_version(python) if request.terms.get("nccl") is True else "",
        "recipe": files_hash(own_files(recipes.find(str(included), row.id).path)) if included else "",
        "paths": _path_problems(request.terms.get("paths")),
    }


def script(request: Request) -> dict[str, dict[str, str]]:
    """Check that a script can be started here, and return the versions of packages in its Python.

    `spec`; `hashes`: those of its files on the other machine, by path; `modules`: the names of the packages.
    """
    spec = RunSpec.from_json(request.terms.get("spec"))
    hashes, modules = request.terms.get("hashes"), request.terms.get("modules")
    if not isinstance(hashes, dict) or len(hashes) > MAX_FILES or spec.script is None:
        raise ValueError(tr("This is no part of a run."))
    if not isinstance(modules, list) or not all(each in IMPORTED for each in modules):
        raise ValueError(tr("This is no part of a run."))
    if found := differences(hashes) or _script_problems(spec):
        raise ValueError(join_sentences(found))
    return {"versions": {module: installed_version(spec.python, module) for module in modules}}


def _script_problems(spec: RunSpec) -> list[str]:
    """Return why a script would end at once here: sentences."""
    own = spec.script
    assert own is not None
    look = analyse_script(
        own.path, module=own.module or None, cwd=spec.working_dir, python=spec.python, variables=own.environment
    )
    found = program_problems(look, python=spec.python, cwd=spec.working_dir, variables=own.environment)
    return [*found, *unset_variables(own)]


def peer(request: Request) -> dict[str, str]:
    """Return the address from which the other machine has connected; empty where the carrier does not tell."""
    return {"address": request.peer}


def _path_problems(paths: object) -> dict[str, str]:
    """Return by path why it cannot be read here, as `core.hosts.parts.head` names it; else the empty string."""
    if not isinstance(paths, list) or len(paths) > MAX_FILES or not all(isinstance(each, str) for each in paths):
        raise ValueError(tr("These are no paths."))
    return {each: _path_problem(os.path.expanduser(each)) for each in paths}  # noqa: PTH111 (a text)


def _path_problem(path: str) -> str:
    if not os.path.exists(path):  # noqa: PTH110 (a text)
        return MISSING
    wanted = os.R_OK | (os.X_OK if os.path.isdir(path) else 0)  # noqa: PTH112 (a text)
    return "" if os.access(path, wanted) else UNREADABLE


def reach(request: Request) -> dict[str, str]:
    """Connect once to `address` and `port`. Return the interface over which that goes, and its address."""
    address, port = request.terms.get("address"), request.terms.get("port")
    if not isinstance(address, str) or not isinstance(port, int) or not 0 < port < 65536:
        raise ValueError(tr("This is no address."))
    try:
        interface, own = local.reach(address, port, REACH_S)
    except OSError as error:
        why = error.strerror or str(error)
        sentence = tr("{address}:{port} cannot be reached: {why}.", address=address, port=port, why=why)
        raise ValueError(sentence) from None
    return {"interface": interface, "address": own}


def listen(request: Request) -> Iterator[dict[str, Any]]:
    """Listen on `count` free ports until this is cancelled; yield once the ports, when they accept connections."""
    count = request.terms.get("count")
    if not isinstance(count, int) or not 0 < count <= MAX_PORTS:
        raise ValueError(tr("This is no number of ports."))
    with local.listening(count) as ports:
        yield {"ports": ports}
        request.cancelled.wait()


def part(request: Request) -> dict[str, str]:
    """Start a part, and return its id. `spec`, `part`: JSON; `files`: those of the recipe, none for an included one.

    `hash`: that of the files as they were sent. It is compared with that of the files as they are on the disk here.
    A script is started from its own path, which `script` has checked.
    """
    spec = RunSpec.from_json(request.terms.get("spec"))
    try:
        own = decode(Part, request.terms.get("part"))
    except ValueError:
        raise ValueError(tr("This is no part of a run.")) from None
    files = request.terms.get("files")
    if not isinstance(files, dict) or len(files) > MAX_FILES:
        raise ValueError(tr("This is no part of a run."))
    ended = _end_earlier(request.runs_root, own)
    if spec.script is None:
        spec = replace(spec, python=interpreter(framework(spec.framework)))

    def launch(run_dir: Path) -> ProcessId | None:
        is_here = spec.script is not None
        write_spec(run_dir, spec if is_here else _with_recipe(spec, run_dir, files, request.terms.get("hash")))
        write_part(run_dir, own)
        return directory.launch_supervisor(run_dir)

    return {"run": Run.start(spec, request.runs_root, launch).id, "ended": ended}


def _end_earlier(root: Path, own: Part) -> str:
    """Remove earlier parts of the same run: the other machine was lost before it could do so.

    Return the id of one that was still running and was ended; the empty string if there was none. Raises `RunError` if
    one does not end.
    """
    from core.history import removal

    ended = ""
    for run_dir in directories(root):
        found = None
        with contextlib.suppress(ValueError):
            found = read_part(run_dir)
        if found is not None and (found.head, found.run) == (own.head, own.run):
            if _end(run_dir):
                ended = run_dir.name
            continue_holder(run_dir)
            removal.remove(run_dir)
    return ended


def _end(run_dir: Path) -> bool:
    """Stop a part, without waiting for what can be forced; return whether it was running. Raises `RunError`."""
    run = Run(run_dir)
    run.catch_up()
    if state_info(run.facts.state).over:
        return False
    stopped.continue_supervisor(run_dir, run.facts)
    run.request("stop")
    deadline = time.monotonic() + END_S
    forced: set[RunState] = set()
    while not state_info(run.facts.state).over:
        if state_info(run.facts.state).can_force and run.facts.state not in forced:
            forced.add(run.facts.state)
            run.request("force")
        if time.monotonic() > deadline:
            raise RunError(tr(
                "An earlier part of this run ({run}) still runs there and does not end within {seconds:.0f} s. End "
                "it there (trainyard stop {run} --force), then resume the run.", run=run.id, seconds=END_S,
            ))
        time.sleep(END_NAP_S)
        run.poll()
    return True


def _with_recipe(spec: RunSpec, run_dir: Path, files: dict[str, Any], sent_hash: object) -> RunSpec:
    """Return the spec with the recipe as it is here. Raises `RunError` where it cannot be trained."""
    recipe = spec.own_recipe
    if files:
        folder = run_dir / PART_RECIPE
        for name, text in files.items():
            _write(folder, name, text)
        if files_hash({name: read_whole(folder / name).decode() for name in files}) != sent_hash:
            raise RunError(tr(
                "The recipe that has arrived in {folder} differs from the one that was sent. Check the disk there, "
                "then start the run again.", folder=folder,
            ))
        path = str(folder / PurePosixPath(recipe.path).name)
    else:
        path = str(recipes.find(recipe.name, spec.framework).path)
    working_dir = spec.working_dir if os.path.isdir(spec.working_dir) else str(run_dir)  # noqa: PTH112 (a text)
    found = replace(spec, recipe=replace(recipe, path=path), working_dir=working_dir)
    if problems := validation.recipe_problems(found):
        raise RunError(join_sentences(problems))
    return found


def _write(folder: Path, name: object, text: object) -> None:
    """Write one file of a recipe. Its name is relative, and leads nowhere else."""
    parts = PurePosixPath(name).parts if isinstance(name, str) and name.isprintable() else ()
    if not parts or not isinstance(text, str) or any(each in {"..", "/", ""} for each in parts):
        raise RunError(tr("This is no file of a recipe: {name!r}.", name=name))
    path = folder.joinpath(*parts)
    for above in reversed(path.relative_to(folder.parent).parents[:-1]):
        make_private_folder(folder.parent / above)
    write_whole(path, text)


def hold(request: Request) -> Iterator[dict[str, Any]]:
    """Hold the part `run` until this is cancelled; yield once when it is held."""
    with held(run_folder(request.runs_root, request.terms.get("run"))) as give_sign:
        yield {}
        while not request.cancelled.wait(HOLD_S):
            give_sign()


def part_state(request: Request) -> dict[str, Any]:
    """Return the state of the part `run`, whether it is over, and why it failed."""
    run = Run(run_folder(request.runs_root, request.terms.get("run")))
    run.catch_up()
    return {"state": run.facts.state.value, "over": state_info(run.facts.state).over, "error": stored(run.facts.error)}


PART_ABILITIES: dict[str, Callable[[Request], object]] = {
    "equipment": equipment, "script": script, "peer": peer, "reach": reach, "listen": listen, "part": part,
    "hold": hold, "part_state": part_state,
}
"""By the name under which a connection asks for it."""
