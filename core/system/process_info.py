"""Describe a process of this machine, and store the description in events."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.language import tr
from core.schema.codec import decode, encode
from core.schema.events import MAX_NUMBER
from core.system import procfs
from core.system.processes import TAG, ProcessId
from core.system.procfs import PROC

COMMAND_LENGTH = 300
"""Characters of a command line that an event keeps: the line may be megabytes."""

Key = tuple[int, float | None]
"""The pid and start time of a process, which identify it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """A process of this machine. Fields that cannot be read are None."""

    pid: int
    created: float | None = None
    """Start time in seconds since the machine's start; None if the pid is unknown here."""
    device_id: str | None = None
    """The device that it uses; None if unknown."""
    memory_used_bytes: int | None = None
    """Memory of the device; on a CPU device, resident memory."""
    name: str | None = None
    user: str | None = None
    command: str | None = None
    age_s: float | None = None
    """Seconds since its start."""
    run_id: str | None = None
    """The run whose tag it has, if its environment may be read."""
    state: str | None = None
    """The state in `/proc/PID/stat`: R, S, D, Z, T, ..."""
    ours: bool = False
    """Whether it belongs to the current user."""
    listed: bool = False
    """Whether the device's driver lists it; otherwise it only has the device's file open."""

    @property
    def key(self) -> Key:
        """Its pid and start time."""
        return self.pid, self.created

    @property
    def words(self) -> str:
        """`pid 4711 python (anna)`, for use in a sentence."""
        if self.name is None:
            return tr("pid {pid} (in a container, or already ended)", pid=self.pid)
        return f"pid {self.pid} {self.name}" + (f" ({self.user})" if self.user else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminatedProcess:
    """A process of the run that outlived its worker or supervisor and was terminated."""

    pid: int
    created: float
    """Start time in seconds since the machine's start."""
    name: str | None
    command: str | None
    signal: str
    """The last signal sent to it: `SIGTERM` or `SIGKILL`."""
    by: str = ""
    """`supervisor` or `guard`."""

    @classmethod
    def of(cls, process: ProcessId, info: ProcessInfo, signal: str, *, by: str) -> TerminatedProcess:
        """Return the record of a process. `info`: what was known of it before it ended."""
        return cls(pid=process.pid, created=process.created, name=info.name, command=info.command, signal=signal, by=by)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """The event of terminated processes."""

    by: str
    processes: tuple[TerminatedProcess, ...]


def process_fields(process: ProcessInfo) -> dict[str, Any]:
    """Return a process as JSON, without its age and its device."""
    fields = encode(replace(process, command=_short_or_none(process.command)))
    return {name: value for name, value in fields.items() if name not in {"age_s", "device_id", "listed"}}


def read_ended(event: dict[str, Any]) -> tuple[TerminatedProcess, ...]:
    """Return the processes in an event of `ended_fields`. Raises `ValueError`."""
    ended = decode(_Ended, event)
    return tuple(replace(each, by=ended.by) for each in ended.processes)


def ended_fields(by: str, ended: Iterable[TerminatedProcess]) -> dict[str, Any]:
    """Return terminated processes as the fields of an event. `by`: `supervisor` or `guard`."""
    short = [encode(replace(each, command=_short_or_none(each.command))) for each in ended]
    return {"by": by, "processes": [{name: each[name] for name in each if name != "by"} for each in short]}


def shortened(command: str, length: int = COMMAND_LENGTH) -> str:
    """Return at most `length` characters of a command line."""
    return command if len(command) <= length else f"{command[: length - 1]}…"


def _short_or_none(command: str | None) -> str | None:
    return None if command is None else shortened(command)


def whole_or_none(value: object) -> int | None:
    """Return a number of an event as an int, or None for None. Raises `TypeError`, `ValueError` or `OverflowError`."""
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(value)
    if abs(number := int(value)) >= MAX_NUMBER:
        raise OverflowError(tr("too large for a float"))
    return number


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
        pid=pid,
        created=stat.created,
        name=stat.name,
        user=None if uid is None else user_name(uid),
        age_s=stat.age_s,
        state=stat.state,
        ours=uid == os.getuid(),
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
