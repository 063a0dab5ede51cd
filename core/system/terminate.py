"""How processes are ended that no run takes care of: TERM, then KILL, until they are gone."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from core.system import process_info, processes, procfs
from core.system.escalation import ProcessEscalation
from core.system.procfs import PROC, STUCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from core.system.escalation import TrackedProcess
    from core.system.process_info import ProcessInfo
    from core.system.processes import ProcessId


class Target(Protocol):
    """A process that is to be ended, as it was when that was decided."""

    @property
    def process(self) -> ProcessId: ...

    @property
    def run_id(self) -> str | None:
        """The run whose tag it carries; None for one that carries none."""


Those = TypeVar("Those", bound=Target)

GRACE_S = 3.0
"""Between SIGTERM and SIGKILL."""
KILLED_S = 5.0
"""After SIGKILL: a process that held much memory takes a while to give it back."""
NAP_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated(Generic[Those]):
    """One that was ended."""

    whom: Those
    signal: str
    """The last that it was sent: `SIGTERM` or `SIGKILL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillRunning(Generic[Those]):
    """One that is still there."""

    whom: Those
    signal: str | None
    """The last that it was sent; None where it could not be signalled, or was not to be."""
    why: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationResult(Generic[Those]):
    """What came of it. One that went away by itself, unsignalled, is in neither."""

    ended: tuple[Terminated[Those], ...] = ()
    left: tuple[StillRunning[Those], ...] = ()


def end(targets: Iterable[Those], grace_s: float = GRACE_S, proc: Path = PROC) -> TerminationResult[Those]:
    """End them: SIGTERM, and after the grace SIGKILL to those that are still there. It waits until they are gone.

    Right before each signal it is asked again whether this is the process, by pid and create time, whether it is
    this user's, and whether it carries the same tag. One that was sent SIGKILL before and sits in the kernel (state D)
    is not signalled again. Takes `grace_s` and `KILLED_S` at most, and raises nothing for who goes away meanwhile.
    """
    given = {each.process: each for each in targets}
    survivors = ProcessEscalation(_Found(given, proc), grace_s)
    deadline = time.monotonic() + grace_s + KILLED_S
    while (now := time.monotonic()) < deadline:
        survivors.step(now)
        if not any(_may_end(each, now - each.sent_at <= grace_s, proc) for each in survivors.living):
            break
        time.sleep(NAP_S)
    return TerminationResult(
        ended=tuple(
            Terminated(whom=given[each.process], signal=each.signal.name)
            for each in survivors.known
            if each.gone and each.signal is not None
        ),
        left=tuple(
            StillRunning(
                whom=given[each.process],
                signal=each.signal.name if each.signal is not None else None,
                why=_why_left(each, given[each.process].run_id, proc),
            )
            for each in survivors.living
        ),
    )


class _Found:
    """The targets, and no others; see `core.system.escalation.Processes`."""

    def __init__(self, given: Mapping[ProcessId, Target], proc: Path) -> None:
        self._given, self._proc = given, proc

    def tagged(self) -> Sequence[ProcessId]:
        return list(self._given)

    def look(self, process: ProcessId) -> ProcessInfo | None:
        if not processes.is_alive(process):
            return None
        return replace(process_info.describe(process.pid, self._proc), pid=process.pid, created=process.created)

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        if _is_beyond(process.pid, self._proc):
            return False
        return processes.send_tagged(process, self._given[process].run_id, number, self._proc)


def _may_end(survivor: TrackedProcess, within_grace: bool, proc: Path) -> bool:
    """Whether it is of use to wait for it. Not for one that could not be signalled, or killed after its grace."""
    heard = survivor.signal is signal.SIGKILL or (survivor.signal is signal.SIGTERM and within_grace)
    return heard or _is_ending(survivor.process.pid, proc)


def _is_beyond(pid: int, proc: Path) -> bool:
    """Whether no signal is of use: it sits in the kernel, and SIGKILL, which it was sent, waits for it."""
    return _is_stuck(pid, proc) and procfs.awaits(pid, signal.SIGKILL, proc)


def _is_stuck(pid: int, proc: Path) -> bool:
    stat = procfs.stat(pid, proc)
    return stat is not None and stat.state == STUCK


def _is_ending(pid: int, proc: Path) -> bool:
    """Whether it has given up its memory, and with it its environment, by which it could be told."""
    memory = procfs.memory(pid, proc)
    return memory is not None and memory.size_bytes == 0


def _why_left(survivor: TrackedProcess, run_id: str | None, proc: Path) -> str:
    """Why a process is still there although all was done."""
    pid = survivor.process.pid
    ending = _is_ending(pid, proc)
    if not ending and not processes.is_of_run(pid, run_id, proc):
        what = "carries a run's tag now" if run_id is None else "does not carry the run's tag any more"
        return f"It {what}, or is another user's, and was left alone."
    if _is_stuck(pid, proc):
        return (
            "It was killed but waits inside the kernel (state D), where no signal reaches it. It ends when what it "
            "waits for answers: a disk, or a driver. If it never does, only reloading that driver or a reboot helps."
        )
    if survivor.signal is not None or ending:
        return "It was told to end and has not yet: it may have much memory to give back. Look again in a moment."
    return "The system did not let it be signalled. End it as the user who started it, or as root."
