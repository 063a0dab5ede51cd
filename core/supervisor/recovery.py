"""A supervisor's claim to a run that is over, to go on with it: what the last leg left is cleared away first."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import RunError
from core.runs.directory import remove_sockets
from core.runs.lock import PATIENCE_S, not_cleared
from core.runs.requests import Requests
from core.schema.events import Writer, make_reserve
from core.schema.files import not_written
from core.schema.paths import EVENTS, RENDEZVOUS, SUPERVISOR_EVENTS
from core.system import process_info, processes, terminate
from core.system.process_info import TerminatedProcess, ended_fields

if TYPE_CHECKING:
    from pathlib import Path

    from core.system.process_info import ProcessInfo
    from core.system.processes import ProcessId
    from core.system.terminate import StillRunning


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remnant:
    """A process that the leg before has left behind; see `core.system.terminate.Target`."""

    process: ProcessId
    run_id: str
    seen: ProcessInfo
    """As it was before it was ended."""


def clear(run_dir: Path) -> None:
    """Clear away what an earlier leg left: its requests, its rendezvous, its processes; renew the reserve.

    Whom it ended it writes down. Raises `RunError` when something could not be ended, or when the disk is full.
    """
    Requests(run_dir).clear()
    (run_dir / RENDEZVOUS).unlink(missing_ok=True)
    _end_remnants(run_dir)
    remove_sockets(run_dir)
    try:
        make_reserve(run_dir / EVENTS)
    except OSError as error:
        raise RunError(
            not_written(
                run_dir, error, if_full="Free some space, then resume the run again.",
                otherwise="Change its permissions, then resume the run again.",
            )
        ) from error  # fmt: skip


def _end_remnants(run_dir: Path) -> None:
    """End what carries the run's tag, TERM and then KILL, until nothing new is found; write down who it was."""
    ended: list[TerminatedProcess] = []
    left: tuple[StillRunning[_Remnant], ...] = ()
    deadline = time.monotonic() + PATIENCE_S
    while (remnants := _remnants(run_dir.name)) and time.monotonic() < deadline:
        outcome = terminate.end(remnants)
        left = outcome.left
        ended += [_ended(each.whom, each.signal) for each in outcome.ended]
    if ended:
        _write_down(run_dir, ended)
    if remnants:
        raise RunError(_not_ended(run_dir, left))


def _remnants(run_id: str) -> list[_Remnant]:
    return [
        _Remnant(process=process, run_id=run_id, seen=process_info.describe(process.pid))
        for process in processes.tagged(run_id)
    ]


def _ended(remnant: _Remnant, number: str) -> TerminatedProcess:
    return TerminatedProcess(
        pid=remnant.process.pid, created=remnant.process.created, name=remnant.seen.name,
        command=remnant.seen.command, signal=number, by="supervisor",
    )  # fmt: skip


def _write_down(run_dir: Path, ended: list[TerminatedProcess]) -> None:
    """In the supervisor's own log, which nobody else writes now; it is told of the leg that begins next."""
    events = Writer(run_dir / EVENTS / SUPERVISOR_EVENTS)
    try:
        events.write("ended", **ended_fields("supervisor", ended), before_leg=True)
    finally:
        events.close()


def _not_ended(run_dir: Path, left: tuple[StillRunning[_Remnant], ...]) -> str:
    if not left:
        return not_cleared(run_dir)
    who = ", ".join(f"pid {each.whom.process.pid} {each.whom.seen.name or ''}".strip() for each in left)
    return f"Run {run_dir.name} cannot be resumed yet, since {who} is left of it. {left[0].why}"
