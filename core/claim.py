"""A supervisor's claim to a run directory: one at a time, once from the start, and again when it is resumed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import ending, holders, processes
from core.errors import RunError
from core.events import EVENTS, FULL, Tail, Writer, make_reserve
from core.findings import Ended, ended_fields
from core.requests import Requests
from core.state import Facts, RunState, fold, row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.ending import Left
    from core.findings import Holder
    from core.state import ProcessId

PATIENCE_S = 10.0
"""A supervisor that has written the end of its run tidies up before it leaves; its guard may take a second more."""
NAP_S = 0.02
LOG = "supervisor.jsonl"
SOCKETS = "pymp-*"
"""Folders in a run's own for the sockets of its data-loader workers (`core.worker.pytorch._sockets`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remnant:
    """A process that the leg before has left behind; see `core.ending.Target`."""

    process: ProcessId
    run_id: str
    seen: Holder
    """As it was before it was ended."""


def claim(run_dir: Path) -> int:
    """Hold a run directory for the life of this process. Raises `RunError` when it is, or was, another's.

    The descriptor returned is not for the guard to keep: it must not hold the run when the supervisor is gone.
    """
    lock = _open(run_dir)
    if not _lock(lock):
        raise RunError(_busy(run_dir))
    if (run_dir / EVENTS / LOG).exists():
        raise RunError(
            f"Run {run_dir.name} has been run already. A run directory is used once: start another, or resume it."
        )
    _lock(_open(run_dir / EVENTS))  # nobody else's: kept by this process and its guard
    return lock


def claim_again(run_dir: Path) -> tuple[int, Facts]:
    """The same for a run that is over, to go on with it; also what is known of it.

    Raises `RunError` when it runs, when there is nothing to go on with, or when the last leg is not cleared away.
    """
    lock = _open(run_dir)
    deadline = time.monotonic() + PATIENCE_S
    while not _lock(lock):
        if not row(known(run_dir).state).over or time.monotonic() >= deadline:
            raise RunError(_busy(run_dir))
        time.sleep(NAP_S)  # it has written its end and leaves, or it is about to be resumed by another
    facts = known(run_dir)
    state = row(facts.state)
    if state.over and not state.can_resume:
        raise RunError(cannot_resume(run_dir, facts.state))
    _wait_for_the_guard(run_dir, deadline)
    return lock, facts


@contextlib.contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """Hold a run that is over, so that nobody resumes it meanwhile.

    Raises `RunError` when somebody runs it, or clears away what is left of it; or when it cannot be looked into.
    """
    handles: list[int] = []
    try:
        for folder in (run_dir, run_dir / EVENTS):
            try:
                handles.append(_open(folder))
            except OSError as error:
                raise RunError(f"{folder} cannot be looked into: {error.strerror}.") from error
            if not _lock(handles[-1]):
                raise RunError(
                    f"Run {run_dir.name} is being run, or what is left of it is still being ended. "
                    "Try again in a moment."
                )
        yield
    finally:
        for handle in handles:
            os.close(handle)


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


def remove_sockets(run_dir: Path) -> None:
    """Remove what data-loader workers that were killed could not: nobody of the run is left who uses it."""
    for folder in run_dir.glob(SOCKETS):
        shutil.rmtree(folder, ignore_errors=True)


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
    return _busy(run_dir)


def _busy(run_dir: Path) -> str:
    return f"Run {run_dir.name} is being run already. Attach to it, or start another."


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
    handle = _open(run_dir / EVENTS)
    while not _lock(handle):
        if time.monotonic() >= deadline:
            raise RunError(_not_cleared(run_dir))
        time.sleep(NAP_S)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
