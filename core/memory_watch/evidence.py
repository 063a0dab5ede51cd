"""What is known of one device after a run, and how its use changed since before the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from core.devices.device import Device
from core.schema.event_kinds import ProcessInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvidence:
    """What is known of one device after the end of a run. Memory in bytes; None is "no reading"."""

    device: Device
    tolerance_bytes: int
    before: int | None
    peak: int | None
    after: int | None
    """A reading that was made after the end."""
    lost: str | None = None
    """A sentence if the device does not answer."""
    fault: str | None = None
    """Sentences on what the driver says is wrong with the device."""
    asleep: bool = False
    """Whether the device has been asleep since the end: it is not woken up for a reading."""
    held_before: tuple[ProcessInfo, ...] = ()
    """Processes that held the device before the first worker was started."""
    listed_before: bool = True
    """Whether the driver listed them. If not, there may have been others."""
    holders: tuple[ProcessInfo, ...] = ()
    """Processes that hold the device now, without those of this run."""
    own: tuple[ProcessInfo, ...] = ()
    """Processes of this run that still hold the device, or may hold it."""
    sent: Mapping[tuple[int, float | None], str] = field(default_factory=dict)
    """The last signal sent to each of `own`; processes without one are missing."""
    gone: tuple[ProcessInfo, ...] = ()
    """Processes of this run that have ended, but to which the driver still attributes memory."""
    ended: tuple[str, ...] = ()
    """Names and pids of the processes that outlived their worker and were terminated."""
    trouble: str | None = None
    """A sentence on processes that could not be inspected."""
    blind: bool = False
    """Whether no process of the machine can be seen."""
    seconds: float = 0.0
    """Seconds since the end."""
    due: bool = False
    """Whether the waiting time is over, so that there must be a verdict."""
    may_wait: bool = True
    """Whether to wait longer for a device that does not answer."""
    cut_short: bool = False
    """Whether the waiting time was cut short."""

    @property
    def label(self) -> str:
        """The name of the device in sentences."""
        return self.device.label

    @property
    def excess(self) -> int:
        """Bytes used in addition to those before the run; 0 when fewer are used."""
        return max(0, (self.after or 0) - (self.before or 0))


Share = tuple[ProcessInfo, int]
"""A process, and a number of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDelta:
    """How the use of one device changed between the reading before the run and the one after it. Memory in bytes.

    The run has ended, so all of these processes belong to others, except perhaps the unidentified ones.
    """

    shrunk: tuple[Share, ...]
    """Processes that hold less than before, or nothing any more, and how much less."""
    gone_unmeasured: tuple[ProcessInfo, ...]
    """Processes that released an unknown amount: the driver listed them before without their memory, and no more."""
    grown: tuple[Share, ...]
    """Processes, visible here, that hold more than before, and how much more; largest first."""
    grown_unidentified: tuple[Share, ...]
    """Like `grown`, for pids that are unknown here: in a container, or already ended. They may be of this run."""
    perhaps_grown: tuple[ProcessInfo, ...]
    """Processes that may hold more than before; how much is not known."""
    unexplained_bytes: int
    """How much more is in use than before the run, without what `grown` took; negative when less is used."""

    @property
    def most_unexplained_bytes(self) -> int:
        """What this run may still hold at most: it may have kept what `shrunk` seem to have released."""
        return self.unexplained_bytes + _sum(self.shrunk)

    @property
    def least_unexplained_bytes(self) -> int:
        """What stays unexplained if `grown_unidentified` are processes of others."""
        return self.unexplained_bytes - _sum(self.grown_unidentified)


def compare_usage(evidence: MemoryEvidence) -> UsageDelta:
    """Compare the use of a device before and after the run; its memory must have been read both times."""
    assert evidence.before is not None
    assert evidence.after is not None
    parts, perhaps_grown = _growth(evidence)
    grown = tuple(part for part in parts if part[0].name is not None)
    return UsageDelta(
        shrunk=tuple(_shrinkage(evidence)), gone_unmeasured=tuple(_gone_unmeasured(evidence)), grown=grown,
        grown_unidentified=tuple(part for part in parts if part[0].name is None), perhaps_grown=tuple(perhaps_grown),
        unexplained_bytes=evidence.after - evidence.before - _sum(grown),
    )


def _growth(evidence: MemoryEvidence) -> tuple[list[Share], list[ProcessInfo]]:
    """Return the processes that hold more than before, with how much more, and those that may hold more."""
    grown, perhaps_grown = [], []
    for process in evidence.holders:
        earlier = next((each for each in evidence.held_before if _is_same(each, process)), None)
        if process.memory_used_bytes is None:
            # A process that only has the device file open, as before, has not changed.
            if earlier is None or process.listed:
                perhaps_grown.append(process)
        elif not evidence.listed_before if earlier is None else earlier.memory_used_bytes is None:
            # How much it held before is unknown: without a list, it may have been there unseen.
            perhaps_grown.append(process)
        elif (taken := process.memory_used_bytes - _used(earlier)) > 0:
            grown.append((process, taken))
    grown.sort(key=lambda part: -part[1])
    return grown, perhaps_grown


def _shrinkage(evidence: MemoryEvidence) -> Iterable[Share]:
    for process in evidence.held_before:
        now = next((each for each in evidence.holders if _is_same(process, each)), None)
        unread = now is not None and now.memory_used_bytes is None
        if process.memory_used_bytes is not None and not unread and process.memory_used_bytes > _used(now):
            yield process, process.memory_used_bytes - _used(now)


def _gone_unmeasured(evidence: MemoryEvidence) -> Iterable[ProcessInfo]:
    for process in evidence.held_before:
        stays = any(each.listed and _is_same(process, each) for each in evidence.holders)
        if process.listed and process.memory_used_bytes is None and not stays:
            yield process


def _is_same(earlier: ProcessInfo, now: ProcessInfo) -> bool:
    """Return whether these are one process. Of a process that has ended since, the driver keeps only the pid."""
    return earlier.pid == now.pid and now.created in {None, earlier.created}


def _used(process: ProcessInfo | None) -> int:
    return (process.memory_used_bytes or 0) if process else 0


def _sum(parts: Iterable[Share]) -> int:
    return sum(taken for _, taken in parts)
