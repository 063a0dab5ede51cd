"""Word what the watch waits for while there is no verdict on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr, tr_plural
from core.memory_watch.wording import excess_words
from core.system.procfs import STUCK
from core.text import enumerated

if TYPE_CHECKING:
    from core.memory_watch.evidence import MemoryEvidence
    from core.schema.event_kinds import ProcessInfo


def awaited(evidence: MemoryEvidence) -> str:
    """Return what the watch waits for on a device, of which `judge` returns None."""
    if evidence.own:
        names = enumerated(f"{process.words}{_doing(process)}" for process in evidence.own)
        return tr_plural(
            "{label}: {names} outlived its worker and is being terminated.",
            "{label}: {names} outlived their worker and are being terminated.",
            len(evidence.own),
            label=evidence.label,
            names=names,
        )
    if evidence.lost is not None:
        return tr("{label} does not answer; its memory is read as soon as it does.", label=evidence.label)
    if evidence.after is None:
        return tr("The memory of {label} has not been read since the end; waiting for a reading.", label=evidence.label)
    if evidence.excess <= evidence.tolerance_bytes:
        return tr(
            "{label} uses no more than before the run, but other processes have released memory since; "
            "waiting until this run's memory is released.",
            label=evidence.label,
        )
    return tr("{excess}; waiting until it is released.", excess=excess_words(evidence))


def _doing(process: ProcessInfo) -> str:
    return tr(", which is reading or writing,") if process.state == STUCK else ""
