"""The run's guard: a process that waits for the supervisor to end, and then kills what is left of the run.

Each worker of a recipe has a dead-man switch of its own (`core.worker.boot`), but that is a thread of the worker: it
cannot act while the worker is stopped or while user code holds the interpreter lock, and it does not reach children
that began a session of their own. A script has none. The guard finds all of them by the run's tag or among its children
(`core.system.terminate`), and records what it killed in an event file of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from core.schema.event_kinds import Ended, ProcessInfo, TerminatedProcess
from core.schema.events import Writer
from core.schema.paths import EVENTS, GUARD_EVENTS, SOCKETS
from core.system import processes, procfs
from core.system.own_processes import SUPERVISOR, asks_drivers
from core.system.processes import ProcessId
from core.system.procfs import ENDED, STUCK
from core.system.terminate import RunProcesses, adopt_orphans

SCAN_S = 0.05
"""Seconds between two searches for processes."""
QUIET_S = 1.0
"""Seconds without a process after which the search ends: a process may fork while the guard looks for it."""
HELPERS_S = 20.0
"""Seconds that helpers of the supervisor may take to finish."""
MAX_S = 60.0
"""Seconds after which the search ends in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The guard, as its supervisor sees it."""

    process: ProcessId | None
    """None where nothing is mounted on `/proc`."""
    adopts: bool
    """Whether orphans of the run become its children."""
    pipe: int
    """The guard acts when this descriptor is closed, at the latest when the supervisor ends."""

    def dismiss(self) -> None:
        """Let the guard exit: nothing is left of the run."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.pipe, b".")
        self.set_off()

    def set_off(self) -> None:
        """Let the guard act if it was not dismissed: the supervisor could not end all processes of the run."""
        os.close(self.pipe)
        if self.process is not None:
            processes.send(self.process, signal.SIGCONT)  # a guard that was stopped would hold the run for ever


def fork_supervisor(run_dir: Path, *, close_fds: Iterable[int], lost: Callable[[], None] = lambda: None) -> Guard:
    """Fork the supervisor: return in it alone, with its guard. This process becomes the guard and never returns.

    The guard is the parent, so that it inherits what the supervisor leaves behind, whatever the environment of these
    processes is. Call this before any thread is started. `close_fds`: descriptors of the run's lock, which the guard
    must not keep. `lost`: what the guard calls when nothing of the run is left, unless it was dismissed.
    """
    reading, writing = os.pipe()
    guard, adopts = processes.identify(os.getpid()), adopt_orphans()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(reading)
        return Guard(process=guard, adopts=adopts, pipe=writing)
    try:
        os.close(writing)
        for descriptor in close_fds:
            os.close(descriptor)
        os.setsid()  # a signal to the supervisor's group, as at a shutdown, must not reach the guard
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes adopted orphans that have ended
        own = RunProcesses(run_id=run_dir.name, supervisor=supervisor, guard=guard if adopts else None)
        if not _wait_and_clean_up(run_dir, reading, own):
            lost()
    finally:
        os._exit(0)


def _wait_and_clean_up(run_dir: Path, reading: int, own: RunProcesses) -> bool:
    """Wait for a byte, which dismisses the guard, or for the end of the pipe, after which it kills what is left.

    Returns whether it was dismissed.
    """
    dismissed = bool(os.read(reading, 1))
    if not dismissed:
        killed = _kill_all(own)
        with contextlib.suppress(OSError):  # the folder is gone or the disk is full: the processes have ended anyway
            if killed:
                with contextlib.closing(Writer(run_dir / EVENTS / GUARD_EVENTS)) as events:
                    events.write(Ended(by="guard", processes=tuple(killed)))
        _end_helpers(run_dir)
    remove_sockets(run_dir)
    return dismissed


def _kill_all(own: RunProcesses) -> list[TerminatedProcess]:
    """Kill all processes of the run until no new one is found and all have ended; return those that ended.

    This is not `core.system.terminate`: without a supervisor there is nothing to be gentle for, processes that fork
    are outrun by searching ten times as often, and the search goes on for a while after the last process has ended.

    All are looked at before the first is killed. Workers kill their own groups at the same time
    (`core.worker.boot` gives the guard a moment), and a process that ended with its group counts as killed, too.
    """
    seen: dict[ProcessId, ProcessInfo] = {}
    killed: set[ProcessId] = set()
    begun = quiet_since = time.monotonic()
    while (now := time.monotonic()) - quiet_since < QUIET_S and now - begun < MAX_S:
        found = [process for process in own.find() if process not in killed]
        for process in found:
            seen.setdefault(process, processes.describe(process.pid))
        killed |= {process for process in found if own.send(process, signal.SIGKILL)}
        if found or any(map(_is_ending, killed)):  # a process that gives up much memory has lost its tag meanwhile
            quiet_since = time.monotonic()
        time.sleep(SCAN_S)
    return [
        processes.terminated(process, info, "SIGKILL")
        for process, info in seen.items()
        if not processes.is_alive(process)
    ]


def _end_helpers(run_dir: Path) -> None:
    """Let the helpers of the supervisor finish, such as the one that reads metrics; kill those that do not."""
    begun = time.monotonic()
    while helpers := [process for process in _children() if _is_helper(process, run_dir)]:
        for process in helpers:
            processes.send(process, signal.SIGCONT)  # one may be stopped
            if time.monotonic() - begun > HELPERS_S:
                processes.send(process, signal.SIGKILL)
        if time.monotonic() - begun > HELPERS_S + QUIET_S:
            return  # it waits inside the kernel
        time.sleep(SCAN_S)


def _children() -> list[ProcessId]:
    found = [processes.identify(pid) for pid in procfs.children(os.getpid())]
    return [process for process in found if process is not None]


def _is_helper(process: ProcessId, run_dir: Path) -> bool:
    """Return whether this is a helper of this run's supervisor, and not of a run that was started from within it."""
    words = procfs.words(process.pid)
    return asks_drivers(words) or (SUPERVISOR in words and str(run_dir) in words)


def _is_ending(process: ProcessId) -> bool:
    """Return whether it is still there. A process that waits inside the kernel, perhaps for ever, does not count."""
    seen = processes.glance(process.pid)
    return seen.created == process.created and seen.state not in {*ENDED, STUCK}


def remove_sockets(run_dir: Path) -> None:
    """Remove the sockets that killed data-loader workers have left. No process of the run may be alive."""
    for folder in run_dir.glob(SOCKETS):
        shutil.rmtree(folder, ignore_errors=True)
