"""Processes for good: told apart by pid and create time, found by the tag that every child of a run carries."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from core.state import Place, ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable

TAG = "TRAINYARD_RUN"
"""The environment variable that holds the run's id in all processes of a run."""

RUN_DIR = "TRAINYARD_RUN_DIR"
"""Beside it, the run's folder: whoever finds what is left of a run need not know where runs are kept."""

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def identify(pid: int, proc: Path = PROC) -> ProcessId | None:
    """The process that has this pid now; None when there is none, or only a zombie.

    `created` is in seconds since the machine's start: unlike unix time it stays the same when the clock is set.
    """
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *numbers = text.rpartition(")")[2].split()  # proc(5): the name in parentheses may hold anything
    if state in {"Z", "X", "x"}:
        return None
    return ProcessId(pid=pid, created=int(numbers[18]) / TICKS_PER_S)


def is_alive(process: ProcessId, proc: Path = PROC) -> bool:
    """Whether this very process still runs: not a zombie, not another one with its pid."""
    return identify(process.pid, proc) == process


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Signal this very process, never another that got its pid; False when it is gone."""
    return _send(process, number, lambda: is_alive(process))


def send_tagged(process: ProcessId, run_id: str, number: signal.Signals, proc: Path = PROC) -> bool:
    """Signal this very process if it is of this user and carries the run's tag, as it stands now; else False."""
    return _send(process, number, lambda: is_alive(process, proc) and _is_of_run(process.pid, run_id, proc))


def _send(process: ProcessId, number: signal.Signals, is_meant: Callable[[], bool]) -> bool:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        # The handle names one process for good; it is the right one if it is so while the handle is held.
        if not is_meant():
            return False
        signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):  # it became another user's, by a program that changes users
        return False
    finally:
        os.close(handle)
    return True


def tagged(run_id: str, proc: Path = PROC) -> list[ProcessId]:
    """All processes of this user that carry the run's tag, whoever their parent is by now; none without a `/proc`."""
    return [
        process for pid in pids(proc) if _is_of_run(pid, run_id, proc) and (process := identify(pid, proc)) is not None
    ]


def end_tagged(run_id: str, number: signal.Signals) -> list[ProcessId]:
    """Signal every process that carries the run's tag; returns whom."""
    return [process for process in tagged(run_id) if send_tagged(process, run_id, number)]


def pids(proc: Path = PROC) -> list[int]:
    """The ids of all processes that can be seen; none without a `/proc`."""
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208 (names only, and many)
    except OSError:
        return []


def owner(pid: int, proc: Path = PROC) -> int | None:
    """The user id of a process; None when it is gone.

    Not that of its folder's owner: for a process that may not be dumped that is root.
    """
    found = re.search(rb"^Uid:\s+(\d+)", _read(proc / str(pid) / "status"), re.MULTILINE)
    return int(found[1]) if found else None


def variables(pid: int, proc: Path = PROC) -> list[bytes]:
    """A process's environment as it was started with, `name=value` each; none when it is gone, or not ours to read."""
    return _read(proc / str(pid) / "environ").split(b"\0")


def resident_bytes(pid: int, proc: Path = PROC) -> int:
    """The memory of a process; 0 when it is gone."""
    pages = _read(proc / str(pid) / "statm").split()
    return int(pages[1]) * _PAGE_BYTES if len(pages) > 1 else 0


def _is_of_run(pid: int, run_id: str, proc: Path) -> bool:
    """Whether it carries the tag and is of this user. The tag first: it tells nearly all apart."""
    return f"{TAG}={run_id}".encode() in variables(pid, proc) and owner(pid, proc) == os.getuid()


def here() -> Place:
    """Where this process is."""
    return Place(
        host=socket.gethostname(),
        boot=_read_line(PROC / "sys" / "kernel" / "random" / "boot_id"),
        pid_namespace=_read_link(PROC / "self" / "ns" / "pid"),
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


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # gone meanwhile, or not ours to read
