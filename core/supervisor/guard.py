"""The run's guard: a process that only waits for the supervisor to end, and then ends whatever is left of the run.

Each worker has a dead-man switch of its own (`core.worker.deadman`), but that is a thread of the
worker: it cannot act while the worker is stopped, or while user code holds the interpreter's lock,
and it does not reach children that began a session of their own. The guard finds them by the tag, and
tells whom it ended in an event file of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from core.runs.directory import remove_sockets
from core.schema.events import Writer
from core.schema.paths import EVENTS, GUARD_EVENTS
from core.system import process_info, processes
from core.system.process_info import TerminatedProcess, ended_fields
from core.system.procfs import ENDED, STUCK

if TYPE_CHECKING:
    from pathlib import Path

    from core.system.process_info import ProcessInfo
    from core.system.processes import ProcessId


LOOK_AGAIN_S = 0.05
QUIET_S = 1.0
"""A process may fork while it is being looked for: it is over when nothing was found for so long."""
GIVE_UP_S = 60.0


def stand(run_dir: Path, reading: int) -> None:
    """Until the supervisor lets it go with a byte through this pipe, or has ended, which closes its other end."""
    if not os.read(reading, 1):
        ended = _end_all(run_dir.name)
        with contextlib.suppress(OSError):  # the folder is gone, or the disk is full: what counts is done
            _tell(run_dir, ended)
    remove_sockets(run_dir)


def _end_all(run_id: str) -> list[TerminatedProcess]:
    """Kill whatever carries the run's tag until nothing new is found, and all of it has ended; returns whom.

    All are looked at before the first is killed: workers kill their own groups at the same time (`core.worker.deadman`
    gives us a moment), and who ends with its group was ended as well, by the same signal and for the same reason.
    """
    seen: dict[ProcessId, ProcessInfo] = {}
    killed: set[ProcessId] = set()
    begun = quiet_since = time.monotonic()
    while (now := time.monotonic()) - quiet_since < QUIET_S and now - begun < GIVE_UP_S:
        found = [process for process in processes.tagged(run_id) if process not in killed]
        for process in found:
            seen.setdefault(process, process_info.describe(process.pid))
        killed |= {process for process in found if processes.send_tagged(process, run_id, signal.SIGKILL)}
        if found or any(map(_is_ending, killed)):  # one that gives up much memory has no tag any more while it does
            quiet_since = time.monotonic()
        time.sleep(LOOK_AGAIN_S)
    return [_ended(process, holder) for process, holder in seen.items() if not processes.is_alive(process)]


def _is_ending(process: ProcessId) -> bool:
    """Whether it is still there. Not if it waits inside the kernel: that may be for ever."""
    seen = process_info.glance(process.pid)
    return seen.created == process.created and seen.state not in {*ENDED, STUCK}


def _ended(process: ProcessId, seen: ProcessInfo) -> TerminatedProcess:
    return TerminatedProcess(
        pid=process.pid, created=process.created, name=seen.name, command=seen.command, signal="SIGKILL", by="guard"
    )


def _tell(run_dir: Path, ended: list[TerminatedProcess]) -> None:
    if ended:
        events = Writer(run_dir / EVENTS / GUARD_EVENTS)
        try:
            events.write("ended", **ended_fields("guard", ended))
        finally:
            events.close()


def post(run_dir: Path, *, let_go: int) -> int:
    """Fork the guard; returns the descriptor whose closing, at the latest with this process's end, sets it off.

    `let_go`: a descriptor that the guard must not keep, the run's lock. Call it before any thread is started.
    """
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return writing
    try:
        os.close(writing)
        os.close(let_go)
        os.setsid()  # a signal to the supervisor's group, such as a shutdown's, is not for the guard
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # here: the supervisor need not wait until it is loaded

        stand(run_dir, reading)
    finally:
        os._exit(0)


def dismiss(post: int) -> None:
    """Let the guard go: nothing is left of the run."""
    with contextlib.suppress(BrokenPipeError):
        os.write(post, b".")
    os.close(post)


def set_off(post: int) -> None:
    """Let the guard do what this process could not: something is left of the run."""
    os.close(post)
