"""A supervisor's claim to a run directory: one at a time, for the life of its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from core.errors import RunError
from core.events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = "supervisor.jsonl"


def claim(run_dir: Path) -> int:
    """Hold a run directory for the life of this process. Raises `RunError` when it is, or was, another's.

    The descriptor returned is not for the guard to keep: it must not hold the run when the supervisor is gone.
    """
    handle = open_folder(run_dir)
    if not lock(handle):
        raise RunError(busy(run_dir))
    if (run_dir / EVENTS / LOG).exists():
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
