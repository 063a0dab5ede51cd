"""Act on runs there as a command would: resume, stop, pause, save, rename, mark and remove them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.errors import RunError
from core.history.marks import change_marks
from core.history.marks import rename as rename_run
from core.hosts.agent.runs import run_folder
from core.language import tr
from core.runs.directory import REQUESTS
from core.runs.facts import state_info
from core.runs.run import Run

if TYPE_CHECKING:
    from pathlib import Path

    from core.hosts.agent.server import Request

MARKS = {"star": bool, "archived": bool, "add_tags": list, "remove_tags": list, "note": str}
"""The marks that can be changed, and the types of their values."""


def request(request: Request) -> dict[str, Any]:
    """Request something of a run: `name` is one of `core.runs.directory.REQUESTS`."""
    run_dir, name = _run_dir(request), _text(request, "name")
    if name not in REQUESTS:
        raise ValueError(tr("A run cannot be asked for this: {name}.", name=name))
    run = Run(run_dir)
    run.catch_up()
    if name == "stop" and state_info(run.facts.state).waits:
        from core.queue.control import cancel

        cancel(run_dir)
    else:
        run.request(name)
    return {}


def resume(request: Request) -> dict[str, Any]:
    """Resume a run, and answer when its new supervisor has started."""
    Run.resume(_run_dir(request), allow_open_ports=request.terms.get("allow_open_ports") is True)
    return {}


def rename(request: Request) -> dict[str, Any]:
    """Give a run another name."""
    return {"name": rename_run(_run_dir(request), _text(request, "name"))}


def mark(request: Request) -> dict[str, Any]:
    """Change the marks of a run; see `core.history.marks.change_marks` for the terms."""
    run_dir = _run_dir(request)
    given: dict[str, Any] = {name: request.terms[name] for name in MARKS if request.terms.get(name) is not None}
    for name, value in given.items():
        if not isinstance(value, MARKS[name]) or (
            isinstance(value, list) and not all(isinstance(each, str) for each in value)
        ):
            raise ValueError(tr("The mark {name} cannot be {value!r}.", name=name, value=value))
    change_marks(run_dir, **given)
    return {}


def remove(request: Request) -> dict[str, Any]:
    """Remove a run that is over, or with `ask` only say whether that is possible and what it would free."""
    from core.history import removal

    run_dir = _run_dir(request)
    if request.terms.get("ask") is True:
        why_not = removal.why_not(run_dir)
        return {"why_not": why_not, "size_bytes": 0 if why_not else removal.size_bytes(run_dir)}
    removed = removal.remove(run_dir)
    return {"freed_bytes": removed.freed_bytes, "problem": removed.problem}


def _run_dir(request: Request) -> Path:
    return run_folder(request.runs_root, request.terms.get("run"))


def _text(request: Request, name: str) -> str:
    value = request.terms.get(name)
    if not isinstance(value, str):
        raise RunError(tr("The request has no {name}.", name=name))
    return value
