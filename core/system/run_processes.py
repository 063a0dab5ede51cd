"""Find and signal the processes of a run: those with its tag, and orphans that its guard has adopted.

A program may clear its environment, and with it the tag. As long as its ancestors run, it ends with its worker's
group or becomes an orphan; Linux gives orphans to the nearest ancestor that adopts them (PR_SET_CHILD_SUBREAPER of
prctl(2)), which is the guard. Other systems have no such call: there, only the tag counts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.system import processes, procfs
from core.system.own_processes import is_trainyard
from core.system.processes import TAG, ProcessId
from core.system.procfs import PROC

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
    from pathlib import Path

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

    def end(self, number: signal.Signals) -> None:
        """Signal all of them."""
        for process in self.find():
            self.send(process, number)

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
