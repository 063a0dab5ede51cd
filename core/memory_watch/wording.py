"""Word parts of the sentences on the memory of a device: how much it uses, when it was read, and what holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr
from core.units import size

if TYPE_CHECKING:
    from core.memory_watch.evidence import MemoryEvidence
    from core.schema.event_kinds import ProcessInfo


def excess_words(evidence: MemoryEvidence) -> str:
    """Word how much more the device uses than before the run."""
    return tr(
        "{label} uses {excess} more than before the run ({before} before, {peak} at most, {after} {when})",
        label=evidence.label,
        excess=size(evidence.excess),
        before=size(evidence.before),
        peak=size(evidence.peak),
        after=size(evidence.after),
        when=when_read(evidence),
    )


def when_read(evidence: MemoryEvidence) -> str:
    """Word when the last reading was made."""
    return (
        tr("after its end") if evidence.seconds < 1.5 else tr("{seconds:.0f} s after its end", seconds=evidence.seconds)
    )


def with_run(process: ProcessInfo) -> str:
    """Word a process of another program: its run, if it belongs to a run of this user, and its memory."""
    run = tr(" of run {run}", run=process.run_id) if process.run_id and process.ours else ""
    return f"{process.words}{run}{_size_of(process)}"


def with_size(process: ProcessInfo) -> str:
    """Word a process of this run and its memory."""
    # A process of this run is in this pid namespace: if it is unknown, it has exited.
    return (process.words if process.name else f"pid {process.pid}") + _size_of(process)


def _size_of(process: ProcessInfo) -> str:
    return "" if process.memory_used_bytes is None else f", {size(process.memory_used_bytes)}"
