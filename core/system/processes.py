"""Processes for good: told apart by pid and create time, found by the tag that every child of a run carries."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from core.system import procfs
from core.system.procfs import PROC

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


TAG = "TRAINYARD_RUN"
"""The environment variable that holds the run's id in all processes of a run."""

RUN_DIR = "TRAINYARD_RUN_DIR"
"""Beside it, the run's folder: whoever finds what is left of a run need not know where runs are kept."""


def identify(pid: int, proc: Path = PROC) -> ProcessId | None:
    """The process that has this pid now, created in seconds since the machine's start; None when there is none.

    What is left of one that has ended, a zombie, is none.
    """
    stat = procfs.stat(pid, proc)
    if stat is None or stat.state in procfs.ENDED:
        return None
    return ProcessId(pid=pid, created=stat.created)


def is_alive(process: ProcessId, proc: Path = PROC) -> bool:
    """Whether this very process still runs: not a zombie, not another one with its pid."""
    return identify(process.pid, proc) == process


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Signal this very process, never another that got its pid; False when it is gone, or cannot be signalled."""
    return _send(process, number, lambda: is_alive(process))


def send_tagged(process: ProcessId, run_id: str | None, number: signal.Signals, proc: Path = PROC) -> bool:
    """Signal this very process if it is of this user and carries the run's tag, as it stands now.

    `run_id` None: if it carries no run's tag. False when that is not so, and when it cannot be signalled.
    """
    return _send(process, number, lambda: is_alive(process, proc) and is_of_run(process.pid, run_id, proc))


def _send(process: ProcessId, number: signal.Signals, is_meant: Callable[[], bool]) -> bool:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # it is gone; or the system, such as a container, lets nobody be signalled this way
        return False
    try:
        # The handle names one process for good; it is the right one if it is so while the handle is held.
        if not is_meant():
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:  # it has ended; or it became another user's, by a program that changes users
        return False
    finally:
        os.close(handle)
    return True


def tagged(run_id: str, proc: Path = PROC) -> list[ProcessId]:
    """All processes of this user that carry the run's tag, whoever their parent is by now; none without a `/proc`."""
    return [
        process
        for pid in procfs.pids(proc)
        if is_of_run(pid, run_id, proc) and (process := identify(pid, proc)) is not None
    ]


def end_tagged(run_id: str, number: signal.Signals) -> list[ProcessId]:
    """Signal every process that carries the run's tag; returns whom."""
    return [process for process in tagged(run_id) if send_tagged(process, run_id, number)]


def is_of_run(pid: int, run_id: str | None, proc: Path = PROC) -> bool:
    """Whether it carries the run's tag, or, for None, none; and is of this user."""
    # The tag first: it tells nearly all apart.
    return procfs.variable(procfs.variables(pid, proc), TAG) == run_id and procfs.owner(pid, proc) == os.getuid()


def here() -> HostId:
    """Where this process is."""
    boot, namespace = _machine()
    return HostId(host=socket.gethostname(), boot=boot, pid_namespace=namespace)


@cache
def _machine() -> tuple[str, str]:
    """What stays as it is for the whole life of a process, and is asked for by every tick of whoever watches."""
    return _read_line(PROC / "sys" / "kernel" / "random" / "boot_id"), procfs.namespace("self") or ""


def _read_line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process for good: a pid alone may come to name another process."""

    pid: int
    created: float
    """In seconds since the machine's start, which stay the same when the clock is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostId:
    """Where pids mean what they say: a machine, since it was started, and a namespace of process ids on it."""

    host: str
    boot: str
    pid_namespace: str
