"""The words in which the watch over memory tells what it knows of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.units import size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.case import Case
    from core.findings import Holder


def more(case: Case) -> str:
    """How much more the device uses than before the run."""
    return (
        f"{case.label} uses {size(case.excess)} more than before the run ({size(case.before)} before, "
        f"{size(case.peak)} at most, {size(case.after)} {when(case)})"
    )


def when(case: Case) -> str:
    """When the last reading was made."""
    return f"{case.seconds:.0f} s after its end" if case.seconds >= 1.5 else "after its end"


def waited(case: Case) -> str:
    """How long a reading was waited for in vain."""
    if case.hurried:
        return ", as the waiting was cut short"
    return f", in {case.seconds:.0f} s" if case.seconds >= 1.5 else ""


def ended(case: Case) -> str | None:
    """Who outlived their worker, and were ended; None when nobody did."""
    if not case.ended:
        return None
    one = len(case.ended) == 1
    return f"{enumerated(case.ended)} had outlived {'its worker and was' if one else 'their worker and were'} ended."


def with_run(holder: Holder) -> str:
    """Another's process, with the run of ours that it is of, and what it holds."""
    run = f" of run {holder.run_id}" if holder.run_id and holder.ours else ""
    return f"{holder.words}{run}{_size_of(holder)}"


def with_size(holder: Holder) -> str:
    """A process of this run, and what it holds."""
    # Of this run, so it was another's namespace in no case: what is not known of it is gone.
    return (holder.words if holder.name else f"pid {holder.pid}") + _size_of(holder)


def _size_of(holder: Holder) -> str:
    return "" if holder.memory_used_bytes is None else f", {size(holder.memory_used_bytes)}"


def enumerated(words: Iterable[str]) -> str:
    """Several of a kind."""
    return "; ".join(words)


def joined(*sentences: str | None) -> str:
    """Those that there are, one after the other."""
    return " ".join(sentence for sentence in sentences if sentence)
