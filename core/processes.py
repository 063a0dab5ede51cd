"""Processes for good: told apart by pid and create time, found by the tag that every child of a run carries."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from core.state import Place, ProcessId

TAG = "TRAINYARD_RUN"
"""The environment variable that holds the run's id in all processes of a run."""

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now; None when there is none, or only a zombie.

    `created` is in seconds since the machine's start: unlike unix time it stays the same when the clock is set.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *numbers = text.rpartition(")")[2].split()  # proc(5): the name in parentheses may hold anything
    if state in {"Z", "X", "x"}:
        return None
    return ProcessId(pid=pid, created=int(numbers[18]) / _TICKS_PER_S)


def is_alive(process: ProcessId) -> bool:
    """Whether this very process still runs: not a zombie, not another one with its pid."""
    return identify(process.pid) == process


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Signal this very process, never another that got its pid; False when it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        # The handle names one process for good; it is the right one if it is alive while the handle is held.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def tagged(run_id: str) -> list[ProcessId]:
    """All processes of this user that carry the run's tag, whoever their parent is by now."""
    wanted = f"{TAG}={run_id}".encode()
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and wanted in _environment(entry):
            process = identify(int(entry.name))
            if process is not None:
                found.append(process)
    return found


def end_tagged(run_id: str, number: signal.Signals) -> list[ProcessId]:
    """Signal every process that carries the run's tag; returns whom."""
    return [process for process in tagged(run_id) if send(process, number)]


def here() -> Place:
    """Where this process is."""
    return Place(
        host=socket.gethostname(),
        boot=_read_line(_PROC / "sys" / "kernel" / "random" / "boot_id"),
        pid_namespace=_read_link(_PROC / "self" / "ns" / "pid"),
    )


def _read_line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _read_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _environment(entry: Path) -> list[bytes]:
    try:
        if entry.stat().st_uid != os.getuid():
            return []
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return []  # gone meanwhile, or not ours to read
