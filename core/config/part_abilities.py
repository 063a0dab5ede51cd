"""Train some ranks of a run of another machine here: start such a part, hold it, and say what became of it.

A part is a run directory among the runs of this machine, with a supervisor of its own. Its files travel as those of
any run (`core.hosts.agent.runs`), and requests reach it as any run (`core.hosts.agent.control`).
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from core.catalog import recipes
from core.catalog.frameworks import framework
from core.catalog.interpreters import has, installed_version, interpreter
from core.config import validation
from core.errors import RunError
from core.history.index import directories
from core.hosts.agent.runs import run_folder
from core.language import join_sentences, tr
from core.launchers import network
from core.launchers.script import unset_variables
from core.runs import directory
from core.runs.facts.states import state_info
from core.runs.part import Part, held, read_part, write_part
from core.runs.run import Run
from core.schema.files import make_private_folder, write_whole
from core.schema.paths import PART_RECIPE
from core.schema.spec import RunSpec, write_spec
from core.scripts.analysis import FRAMEWORKS, analyse_script
from core.scripts.problems import problems as program_problems
from core.scripts.same_files import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from core.hosts.agent.request import Request
    from core.system.processes import ProcessId

MAX_FILES = 200
REACH_S = 5.0
"""Longest wait for a connection to another machine of the run."""
HOLD_S = 0.5
"""Seconds between two looks whether a part is still to be held."""
SSH_CONNECTION = "SSH_CONNECTION"
"""The variable in which sshd says who has connected: client address, client port, server address, server port."""


def framework_version(request: Request) -> dict[str, str]:
    """Return the version of a framework here. `framework`: its name."""
    row = framework(str(request.terms.get("framework")))
    python = interpreter(row)
    if not has(python, row.module):
        remedy = tr("Install it there: {python} -m pip install {extra}", python=python, extra=row.extra)
        raise ValueError(
            tr("{title} is not installed in {python}. {remedy}", title=row.title, python=python, remedy=remedy)
        )
    return {"version": installed_version(python, row.module)}


def script(request: Request) -> dict[str, dict[str, str]]:
    """Check that a script can be started here, and return the versions of packages in its Python.

    `spec`; `hashes`: those of its files on the other machine, by path; `modules`: the names of the packages.
    """
    spec = RunSpec.from_json(request.terms.get("spec"))
    hashes, modules = request.terms.get("hashes"), request.terms.get("modules")
    if not isinstance(hashes, dict) or len(hashes) > MAX_FILES or spec.script is None:
        raise ValueError(tr("This is no part of a run."))
    if not isinstance(modules, list) or not all(each in FRAMEWORKS for each in modules):
        raise ValueError(tr("This is no part of a run."))
    found = differences(hashes) or _script_problems(spec)
    if found:
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
    del request
    return {"peer": os.environ.get(SSH_CONNECTION, "").partition(" ")[0]}


def reach(request: Request) -> dict[str, str]:
    """Connect once to `address` and `port`, and return the interface over which that goes."""
    address, port = request.terms.get("address"), request.terms.get("port")
    if not isinstance(address, str) or not isinstance(port, int) or not 0 < port < 65536:
        raise ValueError(tr("This is no address."))
    try:
        return {"interface": network.reach(address, port, REACH_S)}
    except OSError as error:
        why = error.strerror or str(error)
        raise ValueError(
            tr("{address}:{port} cannot be reached: {why}.", address=address, port=port, why=why)
        ) from None


def part(request: Request) -> dict[str, str]:
    """Start a part, and return its id. `spec`, `part`: JSON; `files`: those of a recipe that is not included.

    A script is started from its own path, which `script` has checked.
    """
    spec = RunSpec.from_json(request.terms.get("spec"))
    try:
        own = Part.from_json(request.terms.get("part"))
    except ValueError:
        raise ValueError(tr("This is no part of a run.")) from None
    files = request.terms.get("files")
    if not isinstance(files, dict) or len(files) > MAX_FILES:
        raise ValueError(tr("This is no part of a run."))
    _remove_earlier(request.runs_root, own)
    if spec.script is None:
        spec = replace(spec, python=interpreter(framework(spec.framework)))

    def launch(run_dir: Path) -> ProcessId | None:
        write_spec(run_dir, _with_recipe(spec, run_dir, files) if spec.script is None else spec)
        write_part(run_dir, own)
        return directory.launch_supervisor(run_dir)

    return {"run": Run.start(spec, request.runs_root, launch).id}


def _remove_earlier(root: Path, own: Part) -> None:
    """Remove earlier parts of the same run: the other machine was lost before it could do so."""
    from core.history import removal

    for run_dir in directories(root):
        with contextlib.suppress(ValueError, RunError, OSError):
            earlier = read_part(run_dir)
            if earlier is not None and (earlier.head, earlier.run) == (own.head, own.run):
                removal.remove(run_dir)


def _with_recipe(spec: RunSpec, run_dir: Path, files: dict[str, Any]) -> RunSpec:
    """Return the spec with the recipe as it is here. Raises `RunError` where it cannot be trained."""
    recipe = spec.own_recipe
    if files:
        folder = run_dir / PART_RECIPE
        for name, text in files.items():
            _write(folder, name, text)
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
    with held(run_folder(request.runs_root, request.terms.get("run"))):
        yield {}
        while not request.cancelled.wait(HOLD_S):
            pass


def part_state(request: Request) -> dict[str, Any]:
    """Return the state of the part `run`, whether it is over, and why it failed."""
    run = Run(run_folder(request.runs_root, request.terms.get("run")))
    run.catch_up()
    return {"state": run.facts.state.value, "over": state_info(run.facts.state).over, "error": run.facts.error}


PART_ABILITIES: dict[str, Callable[[Request], object]] = {
    "framework": framework_version,
    "script": script,
    "peer": peer,
    "reach": reach,
    "part": part,
    "hold": hold,
    "part_state": part_state,
}
"""By the name under which a connection asks for it."""
