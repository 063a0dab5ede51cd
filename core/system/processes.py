"""Identify processes by pid and start time, describe them, find those of a run by its environment tag, signal them."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from core.language import tr
from core.schema.event_kinds import ProcessInfo, TerminatedProcess, shortened
from core.system import procfs
from core.system.procfs import PROC

TAG = "TRAINYARD_RUN"
"""The environment variable that contains the run's id in all processes of a run."""
RUN_DIR = "TRAINYARD_RUN_DIR"
"""The environment variable that contains the run's folder, so that orphans can be traced to it."""


def identify(pid: int, proc: Path = PROC) -> ProcessId | None:
    """Return the process that has this pid now; None if there is none, or only a zombie."""
    stat = procfs.stat(pid, proc)
    if stat is None or stat.state in procfs.ENDED:
        return None
    return ProcessId(pid=pid, created=stat.created)


def is_alive(process: ProcessId, proc: Path = PROC) -> bool:
    """Return whether this process still runs: not a zombie, nor another process with its pid."""
    return identify(process.pid, proc) == process


def send(process: ProcessId, number: signal.Signals, *, only_if: Callable[[], bool] = lambda: True) -> bool:
    """Signal this process, never another with its pid. Return False if it is gone or cannot be signalled.

    `only_if` is asked right before the signal, while the process can have no successor with its pid.
    """
    return _send(process, number, lambda: is_alive(process) and only_if())


def send_tagged(process: ProcessId, run_id: str | None, number: signal.Signals, proc: Path = PROC) -> bool:
    """Signal this process if it belongs to this user and has the run's tag, or for None no tag.

    Return False if that is not the case, or if it cannot be signalled.
    """
    return _send(process, number, lambda: is_alive(process, proc) and is_of_run(process.pid, run_id, proc))


def _send(process: ProcessId, number: signal.Signals, is_target: Callable[[], bool]) -> bool:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # it is gone, or the system (some containers) does not support this
        return False
    try:
        # The handle always means the same process, so a check while it is open is valid for the signal.
        if not is_target():
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:  # it has ended, or now runs as another user
        return False
    finally:
        os.close(handle)
    return True


def tagged(run_id: str, proc: Path = PROC) -> list[ProcessId]:
    """Return all processes of this user with the run's tag, whatever their parent is; none without a `/proc`."""
    return [
        process
        for pid in procfs.pids(proc)
        if is_of_run(pid, run_id, proc) and (process := identify(pid, proc)) is not None
    ]


def is_of_run(pid: int, run_id: str | None, proc: Path = PROC) -> bool:
    """Return whether a process belongs to this user and has the run's tag, or for None no tag."""
    # The tag is checked first, because it excludes nearly all processes.
    return procfs.variable(procfs.variables(pid, proc), TAG) == run_id and procfs.owner(pid, proc) == os.getuid()


def here() -> HostId:
    """Return the machine and the pid namespace of this process."""
    boot, namespace = _machine()
    return HostId(host=socket.gethostname(), boot=boot, pid_namespace=namespace)


@cache
def _machine() -> tuple[str, str]:
    """Return boot id and pid namespace, cached because they never change and are needed at every poll."""
    boot = ""
    with contextlib.suppress(OSError):
        boot = (PROC / "sys" / "kernel" / "random" / "boot_id").read_text(encoding="ascii").strip()
    return boot, procfs.namespace("self") or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process, identified by pid and start time, since a pid alone may be given to another process."""

    pid: int
    created: float
    """Start time in seconds since the machine's start, which setting the clock does not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostId:
    """Where a pid is valid: a machine since its last start, and a pid namespace on it."""

    host: str
    boot: str
    pid_namespace: str


def terminated(process: ProcessId, info: ProcessInfo, signal: str) -> TerminatedProcess:
    """Return the record of a process that was terminated. `info`: what was known of it before it ended."""
    command = info.command and shortened(info.command)
    return TerminatedProcess(pid=process.pid, created=process.created, name=info.name, command=command, signal=signal)


def describe(pid: int, proc: Path = PROC) -> ProcessInfo:
    """Describe a process as far as it may be read; if it is gone or in another namespace, only by its pid."""
    seen = glance(pid, proc)
    if seen.name is None:
        return seen
    return replace(
        seen,
        command=printable(" ".join(" ".join(procfs.words(pid, proc)).split())) or None,
        run_id=printable(procfs.variable(procfs.variables(pid, proc), TAG) or "") or None,
    )


def glance(pid: int, proc: Path = PROC) -> ProcessInfo:
    """Describe a process without command line and environment, whose reading can block if the process hangs."""
    stat = procfs.stat(pid, proc)
    if stat is None:
        return ProcessInfo(pid=pid)
    uid = procfs.owner(pid, proc)
    return ProcessInfo(
        pid=pid, created=stat.created, name=stat.name, user=None if uid is None else user_name(uid), age_s=stat.age_s,
        state=stat.state, ours=uid == os.getuid(),
    )


def printable(text: str) -> str:
    """Replace bytes that the file system's encoding could not decode by marks that can be stored and shown."""
    return os.fsencode(text).decode(errors="replace")


@lru_cache(maxsize=256)
def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return tr("user {uid}", uid=uid)
