"""Terminate processes that the user selected and confirmed, in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal

from core.history.leftovers import OrphanedProcess
from core.language import tr, tr_noop, tr_plural
from core.schema.event_kinds import ProcessInfo
from core.system.processes import ProcessId
from core.system.terminate import GRACE_S, ProcessTarget, terminate
from core.text import first_names, join_names
from gui.services.jobs import Jobs, reason
from gui.viewmodels.devices.process_rows import ProcessEntry

MAX_NAMES = 3

TerminationOutcome = tuple[str, str]
"""A sentence, and its tone."""


class ProcessTerminator(QObject):
    """One request after the other. User and start time of a process are checked again right before each signal."""

    ended = Signal(str, str)
    """A sentence on the result, and its tone."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs = Jobs(self, "terminate", guards=True)

    def end(self, entry: ProcessEntry) -> None:
        """End a process."""
        leftover, holder = entry.leftover, entry.info
        if leftover is not None:
            self.end_leftovers([leftover])
        else:
            refused = tr("{name} (pid {pid}) could not be ended", name=holder.name, pid=holder.pid)
            self._ask(refused, lambda: end_one(holder))

    def end_leftovers(self, those: Sequence[OrphanedProcess]) -> None:
        """End orphaned processes of runs."""
        self._ask(tr("The leftover processes could not be ended"), lambda: end_leftovers(those))

    def _ask(self, failure: str, work: Callable[[], TerminationOutcome]) -> None:
        """`failure`: the sentence if it fails, without its reason."""
        self._jobs.add(
            work,
            lambda outcome: self.ended.emit(*outcome),
            lambda error: self.ended.emit(tr("{failure}: {reason}.", failure=failure, reason=reason(error)), "bad"),
        )


def end_leftovers(those: Sequence[OrphanedProcess]) -> tuple[str, str]:
    """End orphaned processes; return a sentence and its tone."""
    outcome = terminate(lambda: those)
    if outcome.left:
        stuck = " ".join(
            tr("{name} (pid {pid}): {why}", name=each.target.name, pid=each.target.process.pid, why=each.why)
            for each in outcome.left
        )
        return tr("Some leftover processes could not be ended. {stuck}", stuck=stuck), "bad"
    if not outcome.ended:
        return tr("The leftover processes have already ended."), "good"
    ended = [_named(each.target.name, each.target.process.pid) for each in outcome.ended]
    names = join_names(first_names(ended, MAX_NAMES, tr_noop("{count} others")))
    return tr_plural("{names} was ended.", "{names} were ended.", len(ended), names=names), "good"


def end_one(holder: ProcessInfo, grace_s: float | None = None) -> tuple[str, str]:
    """End one process of this user that belongs to no live run; return a sentence and its tone.

    `grace_s`: seconds for it to end by itself after a signal; None for the usual ones.
    """
    name = _named(holder.name, holder.pid)
    assert holder.created is not None
    alone = ProcessTarget(process=ProcessId(pid=holder.pid, created=holder.created), run_id=holder.run_id)
    outcome = terminate(lambda: [alone], grace_s=GRACE_S if grace_s is None else grace_s)
    if outcome.left:
        return tr("{name} is still running. {why}", name=name, why=outcome.left[0].why), "bad"
    if not outcome.ended:
        return tr("{name} has ended.", name=name), "good"
    return tr("{name} was ended ({signal}).", name=name, signal=outcome.ended[0].signal), "good"


def _named(name: str | None, pid: int) -> str:
    return tr("{name} (pid {pid})", name=name, pid=pid)
