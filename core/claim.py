"""A supervisor's claim to a run directory: one at a time, once from the start, and again when it is resumed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from typing import TYPE_CHECKING

from core import processes
from core.errors import RunError
from core.events import EVENTS, Tail, make_reserve
from core.requests import Requests
from core.state import Facts, RunState, fold, row

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 10.0
"""A supervisor that has written the end of its run tidies up before it leaves; its guard may take a second more."""
NAP_S = 0.02
LOG = "supervisor.jsonl"


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


def clear(run_dir: Path) -> None:
    """Clear away what an earlier leg left: its requests, its rendezvous, its processes; renew the reserve.

    Raises `RunError` when the disk is full.
    """
    Requests(run_dir).clear()
    (run_dir / "rendezvous").unlink(missing_ok=True)
    deadline = time.monotonic() + PATIENCE_S
    while processes.end_tagged(run_dir.name, signal.SIGKILL):
        if time.monotonic() >= deadline:
            raise RunError(_not_cleared(run_dir))
        time.sleep(NAP_S)
    try:
        make_reserve(run_dir / EVENTS)
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        why = "The disk is full. Free some space" if full else f"{error.strerror}. Change its permissions"
        raise RunError(f"{run_dir} cannot be written: {why}, then resume the run again.") from error


def known(run_dir: Path) -> Facts:
    """What the supervisors of a run have written."""
    return fold(Facts(), Tail(run_dir / EVENTS / LOG).read())


def cannot_resume(run_dir: Path, state: RunState) -> str:
    """Why a run in this state cannot be resumed: a sentence."""
    if state is RunState.FINISHED:
        return f"Run {run_dir.name} is finished: there is nothing to go on with. Start another."
    return _busy(run_dir)


def _busy(run_dir: Path) -> str:
    return f"Run {run_dir.name} is being run already. Attach to it, or start another."


def _not_cleared(run_dir: Path) -> str:
    return f"What is left of run {run_dir.name} is still being ended. Resume it in a moment."


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
