"""A supervisor's claim to a run directory: one at a time, for the life of its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from core.errors import RunError
from core.runs.facts import RunFacts, fold
from core.runs.states import RunState, state_info
from core.schema.events import Tail
from core.schema.paths import EVENTS, SUPERVISOR_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def claim(run_dir: Path) -> int:
    """Hold a run directory for the life of this process. Raises `RunError` when it is, or was, another's.

    The descriptor returned is not for the guard to keep: it must not hold the run when the supervisor is gone.
    """
    handle = open_folder(run_dir)
    if not lock(handle):
        raise RunError(busy(run_dir))
    if (run_dir / EVENTS / SUPERVISOR_EVENTS).exists():
        raise RunError(
            f"Run {run_dir.name} has been run already. A run directory is used once: start another, or resume it."
        )
    lock(open_folder(run_dir / EVENTS))  # nobody else's: kept by this process and its guard
    return handle


@contextlib.contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """Hold a run that is over, so that nobody resumes it meanwhile.

    Raises `RunError` when somebody runs it, or clears away what is left of it; or when it cannot be looked into.
    """
    handles: list[int] = []
    try:
        for folder in (run_dir, run_dir / EVENTS):
            try:
                handles.append(open_folder(folder))
            except OSError as error:
                raise RunError(f"{folder} cannot be looked into: {error.strerror}.") from error
            if not lock(handles[-1]):
                raise RunError(
                    f"Run {run_dir.name} is being run, or what is left of it is still being ended. "
                    "Try again in a moment."
                )
        yield
    finally:
        for handle in handles:
            os.close(handle)


def busy(run_dir: Path) -> str:
    """Why a run that runs cannot be started: a sentence."""
    return f"Run {run_dir.name} is being run already. Attach to it, or start another."


def open_folder(folder: Path) -> int:
    """A descriptor to lock."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def lock(handle: int) -> bool:
    """Whether it is ours now, until it is closed: False when it is another's."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


PATIENCE_S = 10.0
"""A supervisor that has written the end of its run tidies up before it leaves; its guard may take a second more."""
NAP_S = 0.02


def claim_again(run_dir: Path) -> tuple[int, RunFacts]:
    """Hold the directory of a run that is over, as `claim` does, to go on with it; also what is known of the run.

    Raises `RunError` when it runs, when there is nothing to go on with, or when the last leg is not cleared away.
    """
    handle = open_folder(run_dir)
    deadline = time.monotonic() + PATIENCE_S
    while not lock(handle):
        if not state_info(known(run_dir).state).over or time.monotonic() >= deadline:
            raise RunError(busy(run_dir))
        time.sleep(NAP_S)  # it has written its end and leaves, or it is about to be resumed by another
    facts = known(run_dir)
    state = state_info(facts.state)
    if state.over and not state.can_resume:
        raise RunError(cannot_resume(run_dir, facts.state))
    _wait_for_the_guard(run_dir, deadline)
    return handle, facts


def known(run_dir: Path) -> RunFacts:
    """What the supervisors of a run have written."""
    return fold(RunFacts(), Tail(run_dir / EVENTS / SUPERVISOR_EVENTS).read())


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


def not_cleared(run_dir: Path) -> str:
    return f"What is left of run {run_dir.name} is still being ended. Resume it in a moment."


def _wait_for_the_guard(run_dir: Path, deadline: float) -> None:
    """The guard of a supervisor that was killed ends all that carries the run's tag: it would end the new workers, too.

    It holds the events' folder, as its supervisor did, until it has left.
    """
    handle = open_folder(run_dir / EVENTS)
    while not lock(handle):
        if time.monotonic() >= deadline:
            raise RunError(not_cleared(run_dir))
        time.sleep(NAP_S)
