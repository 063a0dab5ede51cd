"""What is known of one device's memory after a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.system.process_info import ProcessInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from core.devices.device import Device
    from core.system.process_info import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvidence:
    """All that is known of one device at a moment after the end. Memory in bytes; None is "no reading"."""

    device: Device
    tolerance_bytes: int
    before: int | None
    peak: int | None
    after: int | None
    """Of a reading made after the end, never of an earlier one."""
    lost: str | None = None
    """A sentence, when the device does not answer."""
    asleep: bool = False
    """Whether it sleeps since the end, and is not asked."""
    held_before: tuple[ProcessInfo, ...] = ()
    """Who held it before the first worker was started."""
    listed_before: bool = True
    """Whether the driver said who they were; else there may have been others."""
    holders: tuple[ProcessInfo, ...] = ()
    """Who holds it now, this run's own left out."""
    own: tuple[ProcessInfo, ...] = ()
    """This run's processes that hold it, or may hold it, still."""
    sent: Mapping[Key, str] = field(default_factory=dict)
    """The last signal that each of `own` was sent; without those that were sent none."""
    gone: tuple[ProcessInfo, ...] = ()
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


Part = tuple[ProcessInfo, int]
"""A process, and bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDelta:
    """One device's, between the reading before the run and the one after it. Memory in bytes."""

    left: tuple[Part, ...]
    """Who holds less than before, or nothing any more; and how much less."""
    vanished: tuple[ProcessInfo, ...]
    """Whom the driver named before without telling how much, and names no more."""
    grown: tuple[Part, ...]
    """Who holds more than before, and how much more, the most first. They are seen here, and so not of this run."""
    strange: tuple[Part, ...]
    """The same of pids that are not known here: of another namespace, or gone. They may have been of this run."""
    unsure: tuple[ProcessInfo, ...]
    """Who may hold more than before, and how much is not known."""
    beyond: int
    """How much more is used than before and what `grown` have taken; less than 0 for less."""

    @property
    def unaccounted(self) -> int:
        """The same if those that left are taken away from what was used before: what this run may hold still."""
        return self.beyond + _sum(self.left)

    @property
    def beyond_strange(self) -> int:
        """What is used more than before if all that `strange` have is others'."""
        return self.beyond - _sum(self.strange)


def compare_usage(case: MemoryEvidence) -> UsageDelta:
    """The balance of a device whose memory was read before and after."""
    assert case.before is not None
    assert case.after is not None
    parts, unsure = _more(case)
    grown = tuple(part for part in parts if part[0].name is not None)
    return UsageDelta(
        left=tuple(_less(case)),
        vanished=tuple(_vanished(case)),
        grown=grown,
        strange=tuple(part for part in parts if part[0].name is None),
        unsure=tuple(unsure),
        beyond=case.after - case.before - _sum(grown),
    )


def _more(case: MemoryEvidence) -> tuple[list[Part], list[ProcessInfo]]:
    known, unsure = [], []
    for holder in case.holders:
        earlier = next((each for each in case.held_before if _is_same(each, holder)), None)
        if holder.memory_used_bytes is None:
            if earlier is None or holder.listed:  # who had its file open before, and is on no list, has not changed
                unsure.append(holder)
        elif _is_unknown_before(earlier, case):
            unsure.append(holder)
        elif (bytes_ := holder.memory_used_bytes - _used(earlier)) > 0:
            known.append((holder, bytes_))
    known.sort(key=lambda part: -part[1])
    return known, unsure


def _is_unknown_before(earlier: ProcessInfo | None, case: MemoryEvidence) -> bool:
    """Whether it is not known how much one held before: without a list, it may have been there unseen."""
    return not case.listed_before if earlier is None else earlier.memory_used_bytes is None


def _less(case: MemoryEvidence) -> Iterable[Part]:
    for holder in case.held_before:
        now = next((each for each in case.holders if _is_same(holder, each)), None)
        unread = now is not None and now.memory_used_bytes is None
        if holder.memory_used_bytes is not None and not unread and holder.memory_used_bytes > _used(now):
            yield holder, holder.memory_used_bytes - _used(now)


def _vanished(case: MemoryEvidence) -> Iterable[ProcessInfo]:
    for holder in case.held_before:
        stays = any(each.listed and _is_same(holder, each) for each in case.holders)
        if holder.listed and holder.memory_used_bytes is None and not stays:
            yield holder


def _is_same(earlier: ProcessInfo, now: ProcessInfo) -> bool:
    """Of one that has ended since, the driver's books keep nothing but the pid."""
    return earlier.pid == now.pid and now.created in {None, earlier.created}


def _used(holder: ProcessInfo | None) -> int:
    return (holder.memory_used_bytes or 0) if holder else 0


def _sum(parts: Iterable[Part]) -> int:
    return sum(bytes_ for _, bytes_ in parts)
