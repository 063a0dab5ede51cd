"""Processes of a run that outlived their worker, such as data-loader workers: TERM, then KILL, until they are gone."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from core.findings import Ended
from core.procfs import STUCK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.findings import Holder
    from core.state import ProcessId

SURVIVOR_GRACE_S = 2.0
"""Between TERM and KILL."""
LOOK_AGAIN_S = 0.5
"""Between two looks for survivors that are not known yet; once the known ones are gone it is looked at once."""


class Processes(Protocol):
    """The machine's processes, as far as a run may deal with them."""

    def tagged(self) -> Sequence[ProcessId] | None:
        """Those that carry the run's tag and are of this user; None where that cannot be found out."""

    def look(self, process: ProcessId) -> Holder | None:
        """What this very process is now, with its resident memory; None once it is gone."""

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        """Signal this very process if it carries the run's tag and is of this user; False when it is not, or gone."""


@dataclass(slots=True)
class Survivor:
    """One of them."""

    process: ProcessId
    holder: Holder
    """As it was seen last."""
    signal: signal.Signals | None = None
    """The last that it was sent."""
    sent_at: float = 0.0
    gone: bool = False

    @property
    def stuck(self) -> bool:
        """Whether not even KILL ends it."""
        return not self.gone and self.signal is signal.SIGKILL and self.holder.state == STUCK


class Survivors:
    """Finds and ends them, a step at a time. Times are those of any one steady clock, in seconds."""

    def __init__(self, processes: Processes, grace_s: float = SURVIVOR_GRACE_S) -> None:
        self._processes, self._grace_s = processes, grace_s
        self._known: dict[ProcessId, Survivor] = {}
        self._next_look = float("-inf")
        self.blind = False
        """Whether it could not be found out whether there are any."""

    def adopt(self, process: ProcessId, now: float) -> None:
        """Take charge of one that was, or is now, sent KILL by another."""
        holder = self._processes.look(process)
        if holder is not None and process not in self._known:
            self._known[process] = Survivor(process, holder, signal.SIGKILL, now)

    def step(self, now: float, *, hurried: bool = False) -> list[tuple[signal.Signals, list[int]]]:
        """Find, look at, and end what is due; returns who was sent what. `hurried`: KILL at once."""
        if self._look() or now >= self._next_look:  # a process may fork while it is being ended
            self._find(now)
        sent: dict[signal.Signals, list[int]] = {}
        for survivor in self.living:
            number = self._due(survivor, now, hurried=hurried)
            if number is not None and self._processes.send(survivor.process, number):
                survivor.signal, survivor.sent_at = number, now
                sent.setdefault(number, []).append(survivor.process.pid)
        return list(sent.items())

    @property
    def known(self) -> list[Survivor]:
        """All that were found."""
        return list(self._known.values())

    @property
    def living(self) -> list[Survivor]:
        """Those that have not ended yet."""
        return [survivor for survivor in self._known.values() if not survivor.gone]

    def ended(self) -> list[Ended]:
        """Those that had to be ended, and have."""
        return [
            Ended(
                pid=each.process.pid, created=each.process.created, name=each.holder.name,
                command=each.holder.command, signal=each.signal.name, by="supervisor",
            )
            for each in self._known.values()
            if each.gone and each.signal is not None
        ]  # fmt: skip

    def _find(self, now: float) -> None:
        self._next_look = now + LOOK_AGAIN_S
        found = self._processes.tagged()
        self.blind = found is None
        for process in found or ():
            if process not in self._known and (holder := self._processes.look(process)) is not None:
                self._known[process] = Survivor(process, holder)

    def _look(self) -> bool:
        """See how they are; returns whether one has ended."""
        before = len(self.living)
        for survivor in self.living:
            holder = self._processes.look(survivor.process)
            survivor.gone = holder is None
            if holder is not None:  # one on its way out has neither a command line any more nor a tag
                known = survivor.holder
                survivor.holder = replace(
                    holder, command=holder.command or known.command, run_id=holder.run_id or known.run_id
                )
        return len(self.living) < before

    def _due(self, survivor: Survivor, now: float, *, hurried: bool) -> signal.Signals | None:
        """What it is to be sent now. One that waits inside the kernel after KILL hears no other signal either."""
        waited = survivor.signal is not None and now - survivor.sent_at >= self._grace_s
        if survivor.signal is signal.SIGKILL:  # of its worker's whole group, which it may have left just then
            return signal.SIGKILL if waited and not survivor.stuck else None
        if hurried or waited:
            return signal.SIGKILL
        return signal.SIGTERM if survivor.signal is None else None
