"""The memory bar of each device: used by this run, other runs, other programs, unattributed, free."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from core.devices.device import Device, Sample, Survey
from core.language import tr, tr_noop
from core.schema.event_kinds import ProcessInfo

PARTS = (tr_noop("This run"), tr_noop("Other runs"), tr_noop("Others"), tr_noop("Unclaimed"), tr_noop("Free"))
THIS_RUN, OTHER_RUNS, OTHERS, UNCLAIMED, FREE = range(len(PARTS))
TIPS = (
    tr_noop("Used by the shown run"),
    tr_noop("Used by your other runs"),
    tr_noop("Used by other programs; for a CPU device, by everything else on this machine"),
    tr_noop("In use but not attributed to a process: mostly the driver's own reserve"),
    tr_noop("Not in use"),
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
    """Bytes of each of `PARTS`; None if unknown."""
    words: str = ""
    """Text in place of the bar; the empty string if there is a bar."""

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of each of `PARTS`, 0 to 1, with a sum of at most 1.

        Used memory of unknown owner counts as unclaimed, otherwise the bar would show it as free.
        """
        total, left, shares = self.total_bytes or 0, 1.0, []
        for index, part in enumerate(self.parts):
            amount = self._unknown_bytes if index == UNCLAIMED and part is None else part or 0
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
    """The inputs of the bars apart from the readings."""

    processes: Sequence[ProcessInfo]
    """One entry for each process and device."""
    run_id: str | None
    """The shown run."""
    memory_of_run: Mapping[str, float]
    """By CPU device, the bytes that the active run reports."""
    available_bytes: Bytes
    """Available memory of the machine."""
    stale_age_s: Mapping[str, int]
    other_runs_on: Collection[str] = ()
    """Devices of active runs other than the shown one."""


def memory_bars(survey: Survey, colours: Mapping[str, str], known: MemoryKnowledge) -> list[MemoryBar]:
    """Return a bar for each device, in the order of the survey."""
    samples = {sample.device_id: sample for sample in survey.samples}
    return [_row(device, samples.get(device.id), colours[device.id], known) for device in survey.devices]


def _row(device: Device, sample: Sample | None, colour: str, known: MemoryKnowledge) -> MemoryBar:
    words = _why_no_bar(device, sample, known)
    total = device.memory_total_bytes
    if words or sample is None:
        parts: tuple[Bytes, ...] = (None,) * len(PARTS)
    elif device.kind == "cpu":
        parts = _cpu_parts(device, known)
    else:
        parts = _gpu_parts(device, sample, known)
    return MemoryBar(id=device.id, label=device.label, colour=colour, total_bytes=total, parts=parts, words=words)


def _why_no_bar(device: Device, sample: Sample | None, known: MemoryKnowledge) -> str:
    """Return the text in place of the bar; the empty string if there is a bar."""
    if sample is None:
        return tr("not read yet")
    unread = device.kind != "cpu" and sample.memory_used_bytes is None
    reasons = (
        (sample.lost, tr("lost: the device no longer answers")),
        (
            device.id in known.stale_age_s,
            tr("last reading {seconds} s ago", seconds=known.stale_age_s.get(device.id)),
        ),
        (sample.asleep, tr("asleep: reading it would wake it")),
        (device.shared_memory, tr("shared memory: its users are unknown")),
        (unread, tr("its driver does not report the memory in use")),
        (not device.memory_total_bytes, tr("memory size unknown")),
    )
    return next((words for applies, words in reasons if applies), "")


def _gpu_parts(device: Device, sample: Sample, known: MemoryKnowledge) -> tuple[Bytes, ...]:
    used, total = sample.memory_used_bytes or 0, device.memory_total_bytes or 0
    on_it = _processes_on(device, known)
    mine = _sum([each for each in on_it if _is_of_shown_run(each, known)])
    runs = _sum([each for each in on_it if each.run_id is not None and not _is_of_shown_run(each, known)])
    others = _sum([each for each in on_it if each.run_id is None])
    if sample.processes is None:  # the driver lists no processes: the owner of the used memory is unknown
        mine, runs, others = (part or None for part in (mine, runs, others))
    unclaimed = None
    if sample.processes is not None and all(process.memory_used_bytes is not None for process in on_it):
        unclaimed = max(used - sum(part or 0 for part in (mine, runs, others)), 0)
    return mine, runs, others, unclaimed, max(total - used, 0)


def _cpu_parts(device: Device, known: MemoryKnowledge) -> tuple[Bytes, ...]:
    """Return the parts of a CPU device, whose memory is that of the whole machine."""
    own = known.memory_of_run.get(device.id)
    mine = (
        int(own)
        if own is not None
        else _sum([each for each in _processes_on(device, known) if _is_of_shown_run(each, known)])
    )
    runs = _sum(
        [each for each in _processes_on(device, known) if each.run_id is not None and not _is_of_shown_run(each, known)]
    )
    if known.available_bytes is None or device.memory_total_bytes is None:
        return mine, runs, None, None, None
    if device.id in known.other_runs_on and not runs:  # only the other runs know how much they use
        return mine, None, None, None, known.available_bytes
    others = max(device.memory_total_bytes - known.available_bytes - (mine or 0) - (runs or 0), 0)
    return mine, runs, others, None, known.available_bytes


def _processes_on(device: Device, known: MemoryKnowledge) -> list[ProcessInfo]:
    return [process for process in known.processes if process.device_id == device.id]


def _is_of_shown_run(process: ProcessInfo, known: MemoryKnowledge) -> bool:
    return process.run_id is not None and process.run_id == known.run_id


def _sum(processes: Sequence[ProcessInfo]) -> Bytes:
    """Return the sum of the known sizes: 0 for no processes, None if all sizes are unknown."""
    known = [process.memory_used_bytes for process in processes if process.memory_used_bytes is not None]
    return None if processes and not known else sum(known)
