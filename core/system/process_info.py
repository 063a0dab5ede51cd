"""Describe a process of this machine: name, user, command line, age and state."""

from __future__ import annotations

import math
import os
import pwd
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from core.system import procfs
from core.system.processes import TAG
from core.system.procfs import PROC

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from core.system.processes import ProcessId


COMMAND_LENGTH = 300
"""Of a command line, so many characters are kept in an event: it may be megabytes."""


Key = tuple[int, float | None]
"""What tells a process from another: its pid, and when it was created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """A process that holds a device. What may not be read, or cannot be, is None."""

    pid: int
    created: float | None = None
    """In seconds since the machine's start; None when the pid is not known here."""
    device_id: str | None = None
    """None: some GPU, which one is not known."""
    memory_used_bytes: int | None = None
    """Of the device; on a CPU device, resident memory."""
    name: str | None = None
    user: str | None = None
    command: str | None = None
    age_s: float | None = None
    """Since it was started."""
    run_id: str | None = None
    """Of the run that it carries the tag of, where that may be read."""
    state: str | None = None
    """The letter of `/proc/PID/stat`: R, S, D, Z, T, ..."""
    ours: bool = False
    """Whether it is of the user who asks."""
    listed: bool = False
    """Whether the device's driver names it; else it only has the device's file open."""

    @property
    def key(self) -> Key:
        """The process, whatever is known of it besides."""
        return self.pid, self.created

    @property
    def words(self) -> str:
        """`pid 4711 python (anna)`, for a sentence."""
        if self.name is None:
            return f"pid {self.pid} (of another namespace, or gone)"
        return f"pid {self.pid} {self.name}" + (f" ({self.user})" if self.user else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminatedProcess:
    """A process of the run that outlived its worker, or its supervisor, and had to be ended."""

    pid: int
    created: float
    """In seconds since the machine's start."""
    name: str | None
    command: str | None
    signal: str
    """The last it was sent: `SIGTERM` or `SIGKILL`."""
    by: str
    """`supervisor` or `guard`."""

    @classmethod
    def of(cls, process: ProcessId, info: ProcessInfo, signal: str, *, by: str) -> TerminatedProcess:
        """Return the record of a process. `info`: what was known of it before it ended."""
        return cls(pid=process.pid, created=process.created, name=info.name, command=info.command, signal=signal, by=by)


def process_fields(holder: ProcessInfo) -> dict[str, Any]:
    """A holder as JSON has it: its age is of the moment, and its device is told beside it."""
    return {
        "pid": holder.pid,
        "created": holder.created,
        "name": holder.name,
        "user": holder.user,
        "command": _kept(holder.command),
        "memory_used_bytes": holder.memory_used_bytes,
        "run_id": holder.run_id,
        "state": holder.state,
        "ours": holder.ours,
    }


def read_process(data: object, device: str) -> ProcessInfo:
    if not isinstance(data, dict):
        raise TypeError(data)
    created = data.get("created")
    return ProcessInfo(
        pid=int(data["pid"]),
        created=None if created is None else finite(created),
        device_id=device,
        memory_used_bytes=whole_or_none(data.get("memory_used_bytes")),
        name=_text(data.get("name")),
        user=_text(data.get("user")),
        command=_text(data.get("command")),
        run_id=_text(data.get("run_id")),
        state=_text(data.get("state")),
        ours=data.get("ours") is True,
    )


def read_ended(event: dict[str, Any]) -> tuple[TerminatedProcess, ...]:
    """The processes that an event says were ended. Raises as `read_release`."""
    by = str(event["by"])
    return tuple(_read_ended(each, by) for each in event["processes"])


def _read_ended(data: object, by: str) -> TerminatedProcess:
    if not isinstance(data, dict):
        raise TypeError(data)
    return TerminatedProcess(
        pid=int(data["pid"]),
        created=finite(data["created"]),
        name=_text(data.get("name")),
        command=_text(data.get("command")),
        signal=str(data["signal"]),
        by=by,
    )


def ended_fields(by: str, ended: Iterable[TerminatedProcess]) -> dict[str, Any]:
    """What had to be ended, and by whom, as the fields of its event."""
    return {
        "by": by,
        "processes": [
            {
                "pid": each.pid, "created": each.created, "name": each.name, "command": _kept(each.command),
                "signal": each.signal,
            }
            for each in ended
        ],
    }  # fmt: skip


def shortened(command: str, length: int = COMMAND_LENGTH) -> str:
    """So many characters of a command line at most; without a number, as many as events keep."""
    return command if len(command) <= length else f"{command[: length - 1]}…"


def _kept(command: str | None) -> str | None:
    return None if command is None else shortened(command)


def whole_or_none(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(value)
    return int(value)


def finite(value: Any) -> float:  # noqa: ANN401 (as it was found in a log)
    number = float(value)
    if not math.isfinite(number):  # JSON has no such numbers, but a reader of it takes them
        raise ValueError(value)
    return number


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def describe(pid: int, proc: Path = PROC) -> ProcessInfo:
    """One process, as far as it may be read; only its number when it is gone, or of another namespace."""
    seen = glance(pid, proc)
    if seen.name is None:
        return seen
    return replace(
        seen,
        command=printable(" ".join(" ".join(procfs.words(pid, proc)).split())) or None,
        run_id=printable(procfs.variable(procfs.variables(pid, proc), TAG) or "") or None,
    )


def glance(pid: int, proc: Path = PROC) -> ProcessInfo:
    """The same without its command line and its environment, for which a process that hangs can make a reader wait."""
    stat = procfs.stat(pid, proc)
    if stat is None:
        return ProcessInfo(pid=pid)
    uid = procfs.owner(pid, proc)
    return ProcessInfo(
        pid=pid,
        created=stat.created,
        name=stat.name,
        user=None if uid is None else _user(uid),
        age_s=stat.age_s,
        state=stat.state,
        ours=uid == os.getuid(),
    )


# -- one process ---------------------------------------------------------------------------------


def printable(text: str) -> str:
    """What the file system's encoding could not read comes back as marks, which can be stored and shown."""
    return os.fsencode(text).decode(errors="replace")


@lru_cache(maxsize=256)
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
