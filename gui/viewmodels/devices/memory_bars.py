"""Who holds the memory of each device, in parts that make up a bar: this run, others, what is nobody's, free."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence  # noqa: TC003 (of a dataclass)
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.devices.device import Device, Sample, Survey
    from core.system.process_info import ProcessInfo

PARTS = ("This run", "Other runs", "Others", "Unclaimed", "Free")
THIS_RUN, OTHER_RUNS, OTHERS, UNCLAIMED, FREE = range(len(PARTS))
TIPS = (
    "What the run that is looked at holds",
    "What other runs of yours hold",
    "What other programs hold; of a CPU device, all else on this machine",
    "In use, and booked on no process: the driver's own reserve, mostly",
    "What is not in use",
)

Bytes = int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBar:
    """One device, ready to be shown."""

    id: str
    label: str
    colour: str
    """`#rrggbb`, the same as in the plots."""
    total_bytes: Bytes
    parts: tuple[Bytes, ...]
    """Bytes, as `PARTS`; None where it is not known."""
    words: str = ""
    """What stands in the place of the bar, when there is none."""

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the whole, as `PARTS`: from 0 to 1, and together never more than 1.

        What is in use and not known whose counts as unclaimed here: a bar that left it out would show it as free.
        """
        total, left, shares = self.total_bytes or 0, 1.0, []
        for place, part in enumerate(self.parts):
            amount = self._unknown_bytes if place == UNCLAIMED and part is None else part or 0
            share = min(amount / total, left) if total else 0.0
            left -= share
            shares.append(share)
        return tuple(shares)

    @property
    def _unknown_bytes(self) -> int:
        free = self.parts[FREE]
        return 0 if free is None else max((self.total_bytes or 0) - sum(part or 0 for part in self.parts), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryKnowledge:
    """What the bars are made from, beside the readings."""

    holders: Sequence[ProcessInfo]
    """One for each process and device."""
    run_id: str | None
    """The run that is looked at."""
    memory_of_run: Mapping[str, float]
    """By CPU device, bytes that the live run itself reads."""
    available_bytes: Bytes
    """Of the machine's own memory."""
    old_s: Mapping[str, int]
    other_runs_on: Collection[str] = ()
    """The devices that living runs are on, but the one that is looked at."""


def memory_rows(survey: Survey, colours: Mapping[str, str], known: MemoryKnowledge) -> list[MemoryBar]:
    """A row for each device, in the order of the survey."""
    samples = {sample.device_id: sample for sample in survey.samples}
    return [_row(device, samples.get(device.id), colours[device.id], known) for device in survey.devices]


def _row(device: Device, sample: Sample | None, colour: str, known: MemoryKnowledge) -> MemoryBar:
    words = _why_no_bar(device, sample, known)
    total = device.memory_total_bytes
    if words or sample is None:
        parts: tuple[Bytes, ...] = (None,) * len(PARTS)
    elif device.kind == "cpu":
        parts = _of_machine(device, known)
    else:
        parts = _of_gpu(device, sample, known)
    return MemoryBar(id=device.id, label=device.label, colour=colour, total_bytes=total, parts=parts, words=words)


def _why_no_bar(device: Device, sample: Sample | None, known: MemoryKnowledge) -> str:
    """What stands in the place of the bar; no text where there is one."""
    if sample is None:
        return "not read yet"
    unread = device.kind != "cpu" and sample.memory_used_bytes is None
    reasons = (
        (sample.lost, "lost: it no longer answers"),
        (device.id in known.old_s, f"its last reading is {known.old_s.get(device.id)} s old"),
        (sample.asleep, "asleep, and not woken to be read"),
        (device.shared_memory, "shared memory: no reading says whose it is"),
        (unread, "its driver does not say how much is in use"),
        (not device.memory_total_bytes, "its size is not known"),
    )
    return next((words for applies, words in reasons if applies), "")


def _of_gpu(device: Device, sample: Sample, known: MemoryKnowledge) -> tuple[Bytes, ...]:
    used, total = sample.memory_used_bytes or 0, device.memory_total_bytes or 0
    on_it = [holder for holder in known.holders if holder.device_id == device.id]
    mine = _sum([each for each in on_it if _is_this(each, known)])
    runs = _sum([each for each in on_it if each.run_id is not None and not _is_this(each, known)])
    others = _sum([each for each in on_it if each.run_id is None])
    if sample.processes is None:  # the driver names nobody: what is in use may be anybody's
        mine, runs, others = (part or None for part in (mine, runs, others))
    unclaimed = None
    if sample.processes is not None and all(holder.memory_used_bytes is not None for holder in on_it):
        unclaimed = max(used - sum(part or 0 for part in (mine, runs, others)), 0)
    return mine, runs, others, unclaimed, max(total - used, 0)


def _of_machine(device: Device, known: MemoryKnowledge) -> tuple[Bytes, ...]:
    """A CPU device has the machine's own memory, which all of them share."""
    own = known.memory_of_run.get(device.id)
    mine = int(own) if own is not None else _sum([each for each in _on(device, known) if _is_this(each, known)])
    runs = _sum([each for each in _on(device, known) if each.run_id is not None and not _is_this(each, known)])
    if known.available_bytes is None or device.memory_total_bytes is None:
        return mine, runs, None, None, None
    if device.id in known.other_runs_on and not runs:  # only those that run it know how much they hold
        return mine, None, None, None, known.available_bytes
    others = max(device.memory_total_bytes - known.available_bytes - (mine or 0) - (runs or 0), 0)
    return mine, runs, others, None, known.available_bytes


def _on(device: Device, known: MemoryKnowledge) -> list[ProcessInfo]:
    return [holder for holder in known.holders if holder.device_id == device.id]


def _is_this(holder: ProcessInfo, known: MemoryKnowledge) -> bool:
    return holder.run_id is not None and holder.run_id == known.run_id


def _sum(holders: Sequence[ProcessInfo]) -> Bytes:
    """Of those that say how much they hold; None when there are some and none of them does, 0 when there are none."""
    told = [holder.memory_used_bytes for holder in holders if holder.memory_used_bytes is not None]
    return None if holders and not told else sum(told)
