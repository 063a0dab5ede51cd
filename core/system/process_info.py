"""Describe a process of this machine."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from core.language import tr
from core.schema.event_kinds import ProcessInfo, TerminatedProcess, shortened
from core.system import procfs
from core.system.processes import TAG, ProcessId
from core.system.procfs import PROC


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
