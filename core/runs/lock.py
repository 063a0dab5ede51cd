"""The lock of a run directory: held by its supervisor, and by a process that must keep the run from being resumed.

Two folders are locked. The supervisor holds the run directory itself; the supervisor and its guard hold the events
folder, so that the events folder is free only when the guard has left, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from core.errors import RunError
from core.runs.states import RunState
from core.schema.paths import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def open_folder(folder: Path) -> int:
    """Return a descriptor of a folder, for `lock`. Raises `OSError`."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def lock(handle: int) -> bool:
    """Lock an open folder until its descriptor is closed; False when another process has the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """Hold a run that is over, so that it cannot be resumed meanwhile.

    Raises `RunError` when the run has a supervisor or a guard, or when its folder cannot be opened.
    """
    handles: list[int] = []
    try:
        for folder in (run_dir, run_dir / EVENTS):
            try:
                handles.append(open_folder(folder))
            except OSError as error:
                raise RunError(f"{folder} cannot be opened: {error.strerror}.") from error
            if not lock(handles[-1]):
                raise RunError(
                    f"Run {run_dir.name} is running, or its last processes are still being terminated. "
                    "Try again in a moment."
                )
        yield
    finally:
        for handle in handles:
            os.close(handle)


def already_running(run_dir: Path) -> str:
    """Return the sentences for a run that cannot be started because it runs."""
    return f"Run {run_dir.name} is running already. Attach to it, or start another."


def cannot_resume(run_dir: Path, state: RunState) -> str:
    """Return why a run in this state cannot be resumed, and what to do."""
    if state is RunState.FINISHED:
        return f"Run {run_dir.name} is finished: there is nothing to resume. Start another."
    if state is RunState.CREATED:
        return (
            f"Run {run_dir.name} has not started: no event of its supervisor can be read. "
            "If it was started just now, attach to it; otherwise resume it in half a minute."
        )
    return already_running(run_dir)
