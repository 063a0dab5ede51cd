"""Who is on the devices by now: runs of ours, and processes that a driver names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.errors import RunError
from core.runs import index
from core.runs.run import Run
from core.runs.states import state_info
from core.schema.paths import SUPERVISOR_EVENTS
from core.schema.spec import read_spec
from core.system import process_info
from core.units import size

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from core.devices.device import Device, Sample, Survey
    from core.system.process_info import ProcessInfo

GOOD_PART = 0.25
"""Of a GPU's memory: what others hold of it is told from here on. A desktop holds less."""
NAMED = 2
"""So many processes of a device are named, the others counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOccupancy:
    """Who is on one device."""

    runs: tuple[str, ...] = ()
    """The ids of runs that are not over."""
    others: tuple[ProcessInfo, ...] = ()
    """Processes that the device's driver names, and that are no workers of these runs."""
    others_bytes: int | None = None
    """What they hold of the device's memory, as far as that is known."""


@dataclass(frozen=True, slots=True)
class _Live:
    """A run that is not over."""

    id: str
    devices: tuple[str, ...]
    pids: frozenset[int]


def occupancies(found: Survey, runs_root: Path) -> dict[str, DeviceOccupancy]:
    """By device id, who is on it; devices that nobody is on are left out."""
    live = _live(runs_root)
    workers = frozenset[int]().union(*(each.pids for each in live))
    samples = {sample.device_id: sample for sample in found.samples}
    result = {}
    for device in found.devices:
        ours = tuple(each.id for each in live if device.id in each.devices)
        others, held = _others(samples.get(device.id), workers)
        if ours or others:
            result[device.id] = DeviceOccupancy(runs=ours, others=others, others_bytes=held)
    return result


def in_a_sentence(chosen: Collection[Device], known: dict[str, DeviceOccupancy]) -> str | None:
    """Beside whom a run on these devices would train; None when nobody is on them who matters."""
    users: dict[str, list[str]] = {}
    for device in chosen:
        there = known.get(device.id, DeviceOccupancy())
        for run_id in there.runs:
            users.setdefault(f"run {run_id}", []).append(device.label)
        if _matter(there, device):
            part = f"{device.label} with {size(there.others_bytes)} of its {size(device.memory_total_bytes)}"
            users.setdefault(people(there.others), []).append(part)
    told = [f"{who} on {' and '.join(where)}" for who, where in users.items()]
    return f"This run trains beside others: {'; '.join(told)}." if told else None


def people(others: Collection[ProcessInfo]) -> str:
    """Some processes by name, the largest first: `pid 4711 python (anna) and 2 more`."""
    first = sorted(others, key=lambda each: -(each.memory_used_bytes or 0))
    more = len(first) - NAMED
    return ", ".join(each.words for each in first[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _matter(there: DeviceOccupancy, device: Device) -> bool:
    total = device.memory_total_bytes
    return bool(total) and (there.others_bytes or 0) >= GOOD_PART * (total or 0)


def _live(runs_root: Path) -> list[_Live]:
    """The runs that are not over; none where they cannot be listed, which whoever needs them tells."""
    try:
        summaries = index.RunIndex(runs_root).poll()
    except RunError:
        return []
    return [live for each in summaries if not state_info(each.state).over and (live := _looked_at(each.dir))]


def _looked_at(run_dir: Path) -> _Live | None:
    try:
        devices = read_spec(run_dir).devices
    except ValueError:
        return None
    run = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    run.catch_up()
    return _Live(run.id, tuple(devices), frozenset(each.process.pid for each in run.facts.workers.values()))


def _others(sample: Sample | None, workers: Collection[int]) -> tuple[tuple[ProcessInfo, ...], int | None]:
    """The processes that the driver names, without these; and what they hold."""
    listed = [each for each in (sample.processes if sample else None) or () if each.pid not in workers]
    amounts = [each.memory_used_bytes for each in listed if each.memory_used_bytes is not None]
    if sample is None or not listed:
        return (), None
    alone = len(listed) == len(sample.processes or ())
    held = sum(amounts) if amounts else sample.memory_used_bytes if alone else None
    # At a glance: a process that hangs in the kernel must not hold us up.
    return tuple(
        replace(process_info.glance(each.pid), memory_used_bytes=each.memory_used_bytes) for each in listed
    ), held
