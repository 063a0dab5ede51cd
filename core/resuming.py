"""A supervisor's claim to a run that is over, to go on with it: what the last leg left is cleared away first."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import ending, holders, processes
from core.claim import LOG, busy, lock, open_folder
from core.errors import RunError
from core.events import EVENTS, FULL, Tail, Writer, make_reserve
from core.findings import Ended, ended_fields
from core.requests import Requests
from core.sockets import remove_sockets
from core.state import Facts, RunState, fold, row

if TYPE_CHECKING:
    from pathlib import Path

    from core.ending import Left
    from core.findings import Holder
    from core.state import ProcessId

PATIENCE_S = 10.0
"""A supervisor that has written the end of its run tidies up before it leaves; its guard may take a second more."""
NAP_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remnant:
    """A process that the leg before has left behind; see `core.ending.Target`."""

    process: ProcessId
    run_id: str
    seen: Holder
    """As it was before it was ended."""


def claim_again(run_dir: Path) -> tuple[int, Facts]:
    """Hold the directory of a run that is over, as `claim` does, to go on with it; also what is known of the run.

    Raises `RunError` when it runs, when there is nothing to go on with, or when the last leg is not cleared away.
    """
    handle = open_folder(run_dir)
    deadline = time.monotonic() + PATIENCE_S
    while not lock(handle):
        if not row(known(run_dir).state).over or time.monotonic() >= deadline:
            raise RunError(busy(run_dir))
        time.sleep(NAP_S)  # it has written its end and leaves, or it is about to be resumed by another
    facts = known(run_dir)
    state = row(facts.state)
    if state.over and not state.can_resume:
        raise RunError(cannot_resume(run_dir, facts.state))
    _wait_for_the_guard(run_dir, deadline)
    return handle, facts


def clear(run_dir: Path) -> None:
    """Clear away what an earlier leg left: its requests, its rendezvous, its processes; renew the reserve.

    Whom it ended it writes down. Raises `RunError` when something could not be ended, or when the disk is full.
    """
    Requests(run_dir).clear()
    (run_dir / "rendezvous").unlink(missing_ok=True)
    _end_remnants(run_dir)
    remove_sockets(run_dir)
    try:
        make_reserve(run_dir / EVENTS)
    except OSError as error:
        full = error.errno in FULL
        why = "The disk is full. Free some space" if full else f"{error.strerror}. Change its permissions"
        raise RunError(f"{run_dir} cannot be written: {why}, then resume the run again.") from error


def _end_remnants(run_dir: Path) -> None:
    """End what carries the run's tag, TERM and then KILL, until nothing new is found; write down who it was."""
    ended: list[Ended] = []
    left: tuple[Left[_Remnant], ...] = ()
    deadline = time.monotonic() + PATIENCE_S
    while (remnants := _remnants(run_dir.name)) and time.monotonic() < deadline:
        outcome = ending.end(remnants)
        left = outcome.left
        ended += [_ended(each.whom, each.signal) for each in outcome.ended]
    if ended:
        _write_down(run_dir, ended)
    if remnants:
        raise RunError(_not_ended(run_dir, left))


def _remnants(run_id: str) -> list[_Remnant]:
    return [
        _Remnant(process=process, run_id=run_id, seen=holders.describe(process.pid))
        for process in processes.tagged(run_id)
    ]


def _ended(remnant: _Remnant, number: str) -> Ended:
    return Ended(
        pid=remnant.process.pid, created=remnant.process.created, name=remnant.seen.name,
        command=remnant.seen.command, signal=number, by="supervisor",
    )  # fmt: skip


def _write_down(run_dir: Path, ended: list[Ended]) -> None:
    """In the supervisor's own log, which nobody else writes now; it is told of the leg that begins next."""
    events = Writer(run_dir / EVENTS / LOG)
    try:
        events.write("ended", **ended_fields("supervisor", ended), before_leg=True)
    finally:
        events.close()


def known(run_dir: Path) -> Facts:
    """What the supervisors of a run have written."""
    return fold(Facts(), Tail(run_dir / EVENTS / LOG).read())


def cannot_resume(run_dir: Path, state: RunState) -> str:
    """Why a run in this state cannot be resumed: a sentence."""
    if state is RunState.FINISHED:
        return f"Run {run_dir.name} is finished: there is nothing to go on with. Start another."
    if state is RunState.CREATED:
        return (
            f"Run {run_dir.name} is not known to have come up: no word of its supervisor can be read. "
            "If it is being started just now, attach to it; else resume it in half a minute."
        )
    return busy(run_dir)


def _not_cleared(run_dir: Path) -> str:
    return f"What is left of run {run_dir.name} is still being ended. Resume it in a moment."


def _not_ended(run_dir: Path, left: tuple[Left[_Remnant], ...]) -> str:
    if not left:
        return _not_cleared(run_dir)
    who = ", ".join(f"pid {each.whom.process.pid} {each.whom.seen.name or ''}".strip() for each in left)
    return f"Run {run_dir.name} cannot be resumed yet, since {who} is left of it. {left[0].why}"


def _wait_for_the_guard(run_dir: Path, deadline: float) -> None:
    """The guard of a supervisor that was killed ends all that carries the run's tag: it would end the new workers, too.

    It holds the events' folder, as its supervisor did, until it has left.
    """
    handle = open_folder(run_dir / EVENTS)
    while not lock(handle):
        if time.monotonic() >= deadline:
            raise RunError(_not_cleared(run_dir))
        time.sleep(NAP_S)
