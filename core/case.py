"""What is known of one device's memory after a run, and the words in which it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.devices.device import Device
    from core.findings import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known of one device at a moment after the end. Memory in bytes; None is "no reading"."""

    device: Device
    run_id: str
    tolerance_bytes: int
    before: int | None
    peak: int | None
    after: int | None
    """Of a reading made after the end, never of an earlier one."""
    lost: str | None = None
    """A sentence, when the device does not answer."""
    asleep: bool = False
    """Whether it sleeps since the end, and is not asked."""
    held_before: tuple[Holder, ...] = ()
    """Who held it before the first worker was started."""
    holders: tuple[Holder, ...] = ()
    """Who holds it now, this run's own left out."""
    own: tuple[Holder, ...] = ()
    """This run's processes that hold it, or may hold it, still."""
    gone: tuple[Holder, ...] = ()
    """This run's processes on which the driver books memory although they have ended."""
    ended: tuple[str, ...] = ()
    """In words, those that outlived their worker and have been ended."""
    trouble: str | None = None
    """A sentence on what could not be seen."""
    blind: bool = False
    """Whether the machine's processes could not be seen at all."""
    seconds: float = 0.0
    """Since the end."""
    due: bool = False
    """Whether it is to be judged now, whatever is known."""
    patient: bool = True
    """Whether a device that does not answer is still waited for."""
    hurried: bool = False
    """Whether the waiting was cut short."""

    @property
    def label(self) -> str:
        """What to call the device."""
        return self.device.label

    @property
    def excess(self) -> int:
        """How much more is used than before, in bytes; 0 when less."""
        return max(0, (self.after or 0) - (self.before or 0))


def size(memory_bytes: int | None) -> str:
    """Memory for people; `an unknown amount` without a reading."""
    if memory_bytes is None:
        return "an unknown amount"
    if memory_bytes >= 1e9:
        return f"{memory_bytes / 1e9:.1f} GB"
    return f"{memory_bytes / 1e6:.0f} MB"


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
