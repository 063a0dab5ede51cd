"""Find the processes of a run; terminate processes that are not our children: SIGTERM, then SIGKILL when it is due.

Every process is identified by pid and start time. Right before each signal it is checked again that the process is
still the same one, belongs to this user and carries the expected run's tag. No other process is ever signalled.
A supervisor stops its own workers another way: see `core.supervisor.workers`.

Processes of a run are those with its tag, and orphans that its guard has adopted. A program may clear its environment,
and with it the tag. As long as its ancestors run, it ends with its worker's group or becomes an orphan; Linux gives
orphans to the nearest ancestor that adopts them (PR_SET_CHILD_SUBREAPER of prctl(2)), which is the guard. Other systems
have no such call: there, only the tag counts.

- `RunProcesses`: find and signal the processes of a run
- `ProcessEscalation`: one step at a time, for a caller that has other things to do meanwhile
- `terminate`: steps until all are gone, or until waiting longer is of no use
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from core.language import tr
from core.schema.event_kinds import ProcessInfo, TerminatedProcess
from core.system import processes, procfs
from core.system.own_processes import is_trainyard
from core.system.processes import TAG, ProcessId, terminated
from core.system.procfs import PROC, STUCK

_PR_SET_CHILD_SUBREAPER = 36
"""From `linux/prctl.h`."""


def adopt_orphans() -> bool:
    """Become the parent of every orphan below this process; return False where the system cannot do that."""
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProcesses:
    """The processes of one run that belong to this user, the supervisor and the guard excepted."""

    run_id: str
    supervisor: int | None = None
    """The pid of the supervisor."""
    guard: ProcessId | None = None
    """The guard, if it adopts orphans."""
    proc: Path = PROC

    def find(self) -> list[ProcessId]:
        """Return all of them; none without a `/proc`."""
        return list(dict.fromkeys([*processes.tagged(self.run_id, self.proc), *self._adopted()]))

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        """Signal this very process if it is still one of the run; return False if not, or if it cannot be signalled."""
        return processes.send_tagged(process, self.run_id, number, self.proc) or processes.send(
            process, number, only_if=lambda: process in self._adopted()
        )

    def _adopted(self) -> list[ProcessId]:
        """Return the orphans that the guard has adopted, and the processes below them."""
        if self.guard is None or not processes.is_alive(self.guard, self.proc):
            return []
        return list(self._below(self.guard.pid))

    def _below(self, parent: int) -> Iterator[ProcessId]:
        for pid in procfs.children(parent, self.proc):
            memory = procfs.memory(pid, self.proc)
            if pid == self.supervisor or memory is None or not memory.size_bytes:
                continue  # an exiting process has no command line; it may be a helper of a dead supervisor
            # Another run that was started from within this one goes on by itself.
            other_run = procfs.variable(procfs.variables(pid, self.proc), TAG) not in {None, self.run_id}
            if other_run or is_trainyard(procfs.words(pid, self.proc)):
                continue
            if procfs.owner(pid, self.proc) == os.getuid() and (found := processes.identify(pid, self.proc)):
                yield found
            yield from self._below(pid)


SURVIVOR_GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL for processes that outlived their worker."""
RESOURCE_TRACKER = "from multiprocessing.resource_tracker import main"
"""In the command line of the process by which Python removes shared memory when the last process that used it ends."""
RESOURCE_TRACKER_S = 1.0
"""Seconds that it has to end by itself, after the others. It ignores SIGTERM, and SIGKILL would leave the memory."""
SCAN_S = 0.5
"""Seconds between two searches for further processes. The end of a known process brings the next search forward."""
GRACE_S = 3.0
"""Seconds between SIGTERM and SIGKILL in `terminate`."""
KILLED_S = 5.0
"""Seconds to wait after SIGKILL: a process with much memory takes a while to give it back."""
MAX_S = 20.0
"""Seconds after which `terminate` returns even if further processes keep appearing."""
NAP_S = 0.02


class Processes(Protocol):
    """Access to the processes that may be terminated."""

    def tagged(self) -> Sequence[ProcessId] | None:
        """Return the processes to terminate; None where processes cannot be listed."""

    def inspect(self, process: ProcessId) -> ProcessInfo | None:
        """Return what is known of this very process now; None once it is gone."""

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        """Signal this very process if it has the run's tag and this user; False if not, or if it is gone."""


@dataclass(slots=True)
class TrackedProcess:
    """A process that is being terminated."""

    process: ProcessId
    info: ProcessInfo
    """The process as last seen."""
    signal: signal.Signals | None = None
    """The last signal that was sent."""
    sent_at: float = 0.0
    alone_since: float | None = None
    """For a resource tracker: when it was first seen without other processes."""
    refused: bool = False
    """Whether the latest signal could not be sent: an exiting process has lost the tag that identifies it."""
    gone: bool = False

    @property
    def is_resource_tracker(self) -> bool:
        """Whether it is Python's resource tracker, which ends by itself."""
        return RESOURCE_TRACKER in (self.info.command or "")

    @property
    def stuck(self) -> bool:
        """Whether no signal ends it: it waits inside the kernel after SIGKILL, or can no longer be signalled."""
        beyond = self.refused or self.signal is signal.SIGKILL
        return not self.gone and beyond and self.info.state == STUCK


class ProcessEscalation:
    """Find processes and terminate them step by step. Times are seconds of any one steady clock."""

    def __init__(self, processes: Processes, grace_s: float = SURVIVOR_GRACE_S) -> None:
        self._processes, self._grace_s = processes, grace_s
        self._known: dict[ProcessId, TrackedProcess] = {}
        self._next_scan = float("-inf")
        self.blind = False
        """Whether processes cannot be listed."""

    def track_killed(self, process: ProcessId, now: float) -> None:
        """Track a process to which the caller has sent SIGKILL, or sends it now."""
        info = self._processes.inspect(process)
        if info is not None and process not in self._known:
            self._known[process] = TrackedProcess(process, info, signal.SIGKILL, now)

    def step(self, now: float, *, hurried: bool = False) -> list[tuple[signal.Signals, list[ProcessInfo]]]:
        """Search, look at all processes, and send the signals that are due; return what was sent to which process.

        `hurried`: send SIGKILL at once.
        """
        self.update()
        if now >= self._next_scan:
            self._scan(now)
        sent: dict[signal.Signals, list[ProcessInfo]] = {}
        for survivor in self.living:
            number = self._due(survivor, now, hurried=hurried)
            if number is None or (not hurried and self._ends_by_itself(survivor, now)):
                continue
            survivor.refused = not self._processes.send(survivor.process, number)
            if not survivor.refused:
                survivor.signal, survivor.sent_at = number, now
                sent.setdefault(number, []).append(survivor.info)
        return list(sent.items())

    def update(self) -> None:
        before = len(self.living)
        for survivor in self.living:
            info = self._processes.inspect(survivor.process)
            survivor.gone = info is None
            if info is not None:  # an exiting process has lost its command line and its tag: keep the earlier ones
                known = survivor.info
                survivor.info = replace(info, command=info.command or known.command, run_id=info.run_id or known.run_id)
        if len(self.living) < before:
            self._next_scan = float("-inf")  # it may have forked before it ended

    @property
    def known(self) -> list[TrackedProcess]:
        """All processes that were found."""
        return list(self._known.values())

    @property
    def living(self) -> list[TrackedProcess]:
        """The processes that have not ended yet."""
        return [survivor for survivor in self._known.values() if not survivor.gone]

    @property
    def gone(self) -> list[TrackedProcess]:
        """The processes that have ended, signalled or not."""
        return [survivor for survivor in self._known.values() if survivor.gone]

    def ended(self) -> list[TerminatedProcess]:
        """Return the processes that were signalled and have ended."""
        return [terminated(each.process, each.info, each.signal.name) for each in self.gone if each.signal is not None]

    def _scan(self, now: float) -> None:
        self._next_scan = now + SCAN_S
        found = self._processes.tagged()
        self.blind = found is None
        for process in found or ():
            if process not in self._known and (info := self._processes.inspect(process)) is not None:
                self._known[process] = TrackedProcess(process, info)

    def _ends_by_itself(self, survivor: TrackedProcess, now: float) -> bool:
        """Return whether it is a resource tracker that has had no time yet to end."""
        if not survivor.is_resource_tracker or survivor.signal is not None:
            return False
        if any(not other.is_resource_tracker for other in self.living):
            survivor.alone_since = None
        elif survivor.alone_since is None:
            survivor.alone_since = now
        return survivor.alone_since is None or now - survivor.alone_since < RESOURCE_TRACKER_S

    def _due(self, survivor: TrackedProcess, now: float, *, hurried: bool) -> signal.Signals | None:
        """Return the signal that is due now. A process that waits inside the kernel after SIGKILL gets no other."""
        waited = survivor.signal is not None and now - survivor.sent_at >= self._grace_s
        if survivor.signal is signal.SIGKILL:  # sent to its worker's group, which it may have left just before
            return signal.SIGKILL if waited and not survivor.stuck else None
        if hurried or waited:
            return signal.SIGKILL
        return signal.SIGTERM if survivor.signal is None else None


# -- terminate and wait --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTarget:
    """A process to terminate, as it was when that was decided."""

    process: ProcessId
    run_id: str | None
    """The run whose tag it carries; None for a process without a tag."""


AnyTarget = TypeVar("AnyTarget", bound=ProcessTarget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated(Generic[AnyTarget]):
    """A process that was to be terminated."""

    target: AnyTarget
    info: ProcessInfo
    """The process as last seen."""
    signal: str = ""
    """The last signal that was sent to one that has ended: `SIGTERM` or `SIGKILL`."""
    why: str = ""
    """One or two sentences on one that has not ended: why it is still there, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationResult(Generic[AnyTarget]):
    """The outcome of `terminate`. A process that ended before any signal is in neither list."""

    ended: tuple[Terminated[AnyTarget], ...] = ()
    left: tuple[Terminated[AnyTarget], ...] = ()


def terminate(
    find: Callable[[], Iterable[AnyTarget]], *, grace_s: float = GRACE_S, patience_s: float = 0.0, proc: Path = PROC
) -> TerminationResult[AnyTarget]:
    """Send SIGTERM, and after `grace_s` SIGKILL, to all that `find` returns; wait until they are gone.

    `find` is called again while they end, since a process may start another one meanwhile. Waiting ends `grace_s` plus
    `KILLED_S` seconds after the last process was found, or earlier when no signal can end those that are left; it
    lasts at least `patience_s` seconds while any is left, and at most `MAX_S`. Raises nothing for a process that is
    gone.
    """
    targets = _Targets(find, proc)
    escalation = ProcessEscalation(targets, grace_s)
    begun, found, deadline = time.monotonic(), 0, 0.0
    while True:
        escalation.step(now := time.monotonic())
        if len(escalation.known) > found:
            found, deadline = len(escalation.known), min(now + grace_s + KILLED_S, begun + MAX_S)
        living = escalation.living
        # Waiting is of no use for a process that could not be signalled.
        may_end = now < deadline and any(
            each.signal is signal.SIGKILL
            or (each.signal is signal.SIGTERM and now - each.sent_at <= grace_s)
            or _is_exiting(each.process.pid, proc)
            for each in living
        )
        if not living or not (may_end or now < begun + patience_s):
            break
        time.sleep(NAP_S)
    return TerminationResult(
        ended=tuple(
            Terminated(target=targets.known[each.process], info=each.info, signal=each.signal.name)
            for each in escalation.gone
            if each.signal is not None
        ),
        left=tuple(
            Terminated(target=target, info=each.info, why=_why_left(each, target.run_id, proc))
            for each in living
            for target in (targets.known[each.process],)
        ),
    )


class _Targets(Generic[AnyTarget]):
    """The targets as `Processes`."""

    def __init__(self, find: Callable[[], Iterable[AnyTarget]], proc: Path) -> None:
        self._find, self._proc = find, proc
        self.known: dict[ProcessId, AnyTarget] = {}

    def tagged(self) -> Sequence[ProcessId]:
        self.known = {**{each.process: each for each in self._find()}, **self.known}
        return list(self.known)

    def inspect(self, process: ProcessId) -> ProcessInfo | None:
        if not processes.is_alive(process):
            return None
        return replace(processes.describe(process.pid, self._proc), pid=process.pid, created=process.created)

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        if procfs.state(process.pid, self._proc) == STUCK and procfs.awaits(process.pid, signal.SIGKILL, self._proc):
            return False  # it waits inside the kernel, with a SIGKILL pending: no further signal is of use
        return processes.send_tagged(process, self.known[process].run_id, number, self._proc)


def _is_exiting(pid: int, proc: Path) -> bool:
    """Return whether it has given up its memory, and with it the environment that holds its tag."""
    memory = procfs.memory(pid, proc)
    return memory is not None and memory.size_bytes == 0


def _why_left(survivor: TrackedProcess, run_id: str | None, proc: Path) -> str:
    pid = survivor.process.pid
    exiting = _is_exiting(pid, proc)
    if not exiting and not processes.is_of_run(pid, run_id, proc):
        what = tr("now has a run's tag") if run_id is None else tr("no longer has the run's tag")
        return tr("It {what}, or belongs to another user, so it was not ended.", what=what)
    if procfs.state(pid, proc) == STUCK:
        return tr(
            "It was killed but waits inside the kernel (state D), where no signal reaches it. It ends when the disk or "
            "the driver that it waits for answers; if that never happens, reload the driver or reboot."
        )
    if survivor.signal is not None or exiting:
        return tr(
            "It was signalled and has not ended yet: it may have much memory to give back. Look again in a moment."
        )
    return tr("The system did not allow to signal it. End it as the user who started it, or as root.")
