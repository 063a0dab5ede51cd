"""Processes of a run that outlived their worker, such as data-loader workers: TERM, then KILL, until they are gone."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from core.system.process_info import TerminatedProcess
from core.system.procfs import STUCK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.system.process_info import ProcessInfo
    from core.system.processes import ProcessId

SURVIVOR_GRACE_S = 2.0
"""Between TERM and KILL."""
LOOK_AGAIN_S = 0.5
"""Between two looks for survivors that are not known yet; once the known ones are gone it is looked at once."""


class Processes(Protocol):
    """The machine's processes, as far as a run may deal with them."""

    def tagged(self) -> Sequence[ProcessId] | None:
        """Those that carry the run's tag and are of this user; None where that cannot be found out."""

    def look(self, process: ProcessId) -> ProcessInfo | None:
        """What this very process is now, with its resident memory; None once it is gone."""

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        """Signal this very process if it carries the run's tag and is of this user; False when it is not, or gone."""


@dataclass(slots=True)
class TrackedProcess:
    """One of them."""

    process: ProcessId
    holder: ProcessInfo
    """As it was seen last."""
    signal: signal.Signals | None = None
    """The last that it was sent."""
    sent_at: float = 0.0
    refused: bool = False
    """Whether the next that was due could not be sent: one on its way out has no tag any more to be known by."""
    gone: bool = False

    @property
    def stuck(self) -> bool:
        """Whether no signal ends it: it waits inside the kernel after KILL, or cannot be sent any more."""
        beyond = self.refused or self.signal is signal.SIGKILL
        return not self.gone and beyond and self.holder.state == STUCK


class ProcessEscalation:
    """Finds and ends them, a step at a time. Times are those of any one steady clock, in seconds."""

    def __init__(self, processes: Processes, grace_s: float = SURVIVOR_GRACE_S) -> None:
        self._processes, self._grace_s = processes, grace_s
        self._known: dict[ProcessId, TrackedProcess] = {}
        self._next_look = float("-inf")
        self.blind = False
        """Whether it could not be found out whether there are any."""

    def adopt(self, process: ProcessId, now: float) -> None:
        """Take charge of one that was, or is now, sent KILL by another."""
        holder = self._processes.look(process)
        if holder is not None and process not in self._known:
            self._known[process] = TrackedProcess(process, holder, signal.SIGKILL, now)

    def step(self, now: float, *, hurried: bool = False) -> list[tuple[signal.Signals, list[ProcessInfo]]]:
        """Find, look at, and end what is due; returns who was sent what. `hurried`: KILL at once."""
        self.look()
        if now >= self._next_look:
            self._find(now)
        sent: dict[signal.Signals, list[ProcessInfo]] = {}
        for survivor in self.living:
            number = self._due(survivor, now, hurried=hurried)
            if number is None:
                continue
            survivor.refused = not self._processes.send(survivor.process, number)
            if not survivor.refused:
                survivor.signal, survivor.sent_at = number, now
                sent.setdefault(number, []).append(survivor.holder)
        return list(sent.items())

    def look(self) -> None:
        """See how they are."""
        before = len(self.living)
        for survivor in self.living:
            holder = self._processes.look(survivor.process)
            survivor.gone = holder is None
            if holder is not None:  # one on its way out has neither a command line any more nor a tag
                known = survivor.holder
                survivor.holder = replace(
                    holder, command=holder.command or known.command, run_id=holder.run_id or known.run_id
                )
        if len(self.living) < before:
            self._next_look = float("-inf")  # it may have forked while it was being ended

    @property
    def known(self) -> list[TrackedProcess]:
        """All that were found."""
        return list(self._known.values())

    @property
    def living(self) -> list[TrackedProcess]:
        """Those that have not ended yet."""
        return [survivor for survivor in self._known.values() if not survivor.gone]

    @property
    def gone(self) -> list[TrackedProcess]:
        """Those that have ended, signalled or not."""
        return [survivor for survivor in self._known.values() if survivor.gone]

    def ended(self) -> list[TerminatedProcess]:
        """Those that had to be ended, and have."""
        return [
            TerminatedProcess(
                pid=each.process.pid, created=each.process.created, name=each.holder.name,
                command=each.holder.command, signal=each.signal.name, by="supervisor",
            )
            for each in self.gone
            if each.signal is not None
        ]  # fmt: skip

    def _find(self, now: float) -> None:
        self._next_look = now + LOOK_AGAIN_S
        found = self._processes.tagged()
        self.blind = found is None
        for process in found or ():
            if process not in self._known and (holder := self._processes.look(process)) is not None:
                self._known[process] = TrackedProcess(process, holder)

    def _due(self, survivor: TrackedProcess, now: float, *, hurried: bool) -> signal.Signals | None:
        """What it is to be sent now. One that waits inside the kernel after KILL hears no other signal either."""
        waited = survivor.signal is not None and now - survivor.sent_at >= self._grace_s
        if survivor.signal is signal.SIGKILL:  # of its worker's whole group, which it may have left just then
            return signal.SIGKILL if waited and not survivor.stuck else None
        if hurried or waited:
            return signal.SIGKILL
        return signal.SIGTERM if survivor.signal is None else None
