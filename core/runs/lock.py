"""The lock of a run directory: held by its supervisor, and by a process that must keep the run from being resumed.

Two folders are locked. The supervisor holds the run directory itself; the supervisor and its guard hold the events
folder, so that the events folder is free only when the guard has left, too.

The lock of a folder is one on the file `lock` in it, opened for writing: network file systems lock nothing else between
machines. The folder itself is locked, too, where that is possible: the lock then lasts when the file is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from core.errors import RunError
from core.language import tr, tr_noop
from core.runs import foreign
from core.runs.facts import RunState
from core.schema.files import open_to_append
from core.schema.paths import EVENTS, LOCK
from core.system.folders import writing
from core.system.procfs import mount_of

PATIENCE_S = 10.0
"""Seconds that `held` waits at most: a supervisor that has recorded the end of its run tidies up before it leaves."""
NAP_S = 0.02


class Lock:
    """A lock of a folder. It lasts until its descriptors, and all that are inherited from them, are closed."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        """The descriptors of the folder and of the file in it."""

    def release_file(self) -> None:
        """Close the file, so that it can be removed: network file systems keep an open one under another name."""
        os.close(self.descriptors.pop())

    def release(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())


def take(folder: Path) -> Lock | None:
    """Lock a folder; return None when another process has the lock. Raises `RunError` where it cannot be locked."""
    foreign.refuse(folder.parent if folder.name == EVENTS else folder)
    lock = Lock()
    with contextlib.ExitStack() as stack:
        stack.callback(lock.release)
        full = tr("Free some space, or keep runs elsewhere with --runs DIR.")
        remedy = tr("Change its permissions, or keep runs elsewhere with --runs DIR.")
        with writing(folder / LOCK, remedy, if_full=full):
            lock.descriptors.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            with contextlib.suppress(OSError):  # file systems that lock only files that are open for writing
                if not try_lock(lock.descriptors[0]):
                    return None
            lock.descriptors.append(open_to_append(folder / LOCK))
        try:
            if not try_lock(lock.descriptors[1]):
                return None
        except OSError as error:
            raise RunError(_cannot_lock(folder, error)) from error
        stack.pop_all()
    return lock


def prepare(run_dir: Path) -> None:
    """Check that a new run directory can be locked. Raises `RunError`."""
    for folder in (run_dir, run_dir / EVENTS):
        if lock := take(folder):
            lock.release()


@contextlib.contextmanager
def held(run_dir: Path) -> Iterator[Callable[[], None]]:
    """Hold a run that is over, so that it cannot be resumed meanwhile; see `Lock.release_file` for the value.

    Raises `RunError` when the run has a supervisor or a guard, or when its folder cannot be locked.
    """
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.ExitStack() as stack:
        locks: list[Lock] = []
        for folder in (run_dir, run_dir / EVENTS):
            while (lock := take(folder)) is None and time.monotonic() < deadline:
                time.sleep(NAP_S)
            if lock is None:
                sentence = tr_noop(
                    "Run {run} is running, or its last processes are still being terminated. Try again in a moment."
                )
                raise RunError(tr(sentence, run=run_dir.name))
            stack.callback(lock.release)
            locks.append(lock)

        def release_files() -> None:
            for lock in locks:
                lock.release_file()

        yield release_files


def try_lock(handle: int) -> bool:
    """Lock an open file; return False when another process has the lock. Raises `OSError` where that is impossible."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _cannot_lock(folder: Path, error: OSError) -> str:
    mount = mount_of(folder)
    where = tr("Its file system")
    if mount is not None:
        where = tr("The file system at {point} ({kind})", point=mount.point, kind=mount.kind)
    return tr(
        "{folder} cannot be locked: {strerror}. {where} has no file locks, without which two processes could "
        "train one run. Keep runs on another disk with --runs DIR, or have it mounted with locks (for NFS a lock "
        "service, for Lustre the option flock).",
        folder=folder, strerror=error.strerror, where=where,
    )


def already_running(run_dir: Path) -> str:
    """Return the sentences for a run that cannot be started because it runs."""
    return tr("Run {run} is running already. Attach to it, or start another.", run=run_dir.name)


def cannot_resume(run_dir: Path, state: RunState) -> str:
    """Return why a run in this state cannot be resumed, and what to do."""
    sentence = {
        RunState.FINISHED: tr_noop(
            "Run {run} is finished: there is nothing to resume. Start it again: trainyard again {run}"
        ),
        RunState.QUEUED: tr_noop(
            "Run {run} waits in the queue, and starts by itself. `trainyard queue` says what it waits for."
        ),
        RunState.CREATED: tr_noop(
            "Run {run} has not started: no event of its supervisor can be read. "
            "If it was started just now, attach to it; otherwise resume it in half a minute."
        ),
    }.get(state)
    return tr(sentence, run=run_dir.name) if sentence else already_running(run_dir)
