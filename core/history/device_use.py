"""Find which runs and which other programs use each device."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from core.devices.device import Device, Sample, Survey
from core.devices.names import join_labels
from core.errors import RunError
from core.history.index import RunIndex, all_runs
from core.history.summary import RunSummary, present_facts
from core.history.summary_cache import SummaryCache
from core.language import tr, tr_plural
from core.runs.facts import state_info
from core.runs.run import stat_of
from core.schema.event_kinds import ProcessInfo
from core.schema.paths import SPEC_FILE
from core.schema.spec import read_spec
from core.system.processes import glance
from core.text import first_names, join_names, size

LARGE_SHARE = 0.25
"""Part of a GPU's memory from which other programs on it are reported before a start. A desktop uses less."""
MAX_NAMES = 2
"""Processes of a device that are named; the others are counted."""
MIN_SHARE = 0.01
"""Part of a device's memory below which a process does not count as using it. A desktop uses a little of every GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What uses one device."""

    runs: tuple[RunSummary, ...] = ()
    """Live runs, newest first."""
    others: tuple[ProcessInfo, ...] = ()
    """Other processes that the driver lists, those with the most memory first."""
    others_bytes: int | None = None
    """Device memory that these processes use; None if the driver does not report it."""
    largest: str = ""
    """Of the other processes, the one that is worth mentioning: `blender (anna)`; the empty string if none is."""


class DeviceUsers:
    """Find the live runs on each device. The spec of a run is read once, and again when a resume has changed it."""

    def __init__(self) -> None:
        self._devices: dict[object, tuple[str, ...]] = {}

    def on_devices(self, summaries: Iterable[RunSummary]) -> dict[str, tuple[RunSummary, ...]]:
        """Return the live runs by device id, in the order of the summaries."""
        found: dict[str, tuple[RunSummary, ...]] = {}
        for summary in summaries:
            if not state_info(summary.state).live:
                continue
            known = summary.dir, stat_of(f"{summary.dir}/{SPEC_FILE}")
            if known not in self._devices:
                try:
                    self._devices[known] = read_spec(summary.dir).devices
                except ValueError:  # such as the spec of a newer version
                    self._devices[known] = ()
            for device in self._devices[known]:
                found[device] = (*found.get(device, ()), summary)
        return found


class UseFinder:
    """Finds what uses the devices again and again, for a machine that is watched: what is known is not read again."""

    def __init__(self, runs_root: Path) -> None:
        self._index = RunIndex(runs_root, cache=SummaryCache(runs_root))
        self._users = DeviceUsers()
        self.summaries: list[RunSummary] = []
        """Those of all runs, as far as they could be listed when the uses were found last."""

    def find(self, survey: Survey) -> dict[str, DeviceUse]:
        """Return by device id what uses it now, as `devices_in_use` does."""
        try:
            self.summaries = self._index.poll()
        except RunError:
            self.summaries = []
        return _uses(survey, self._users.on_devices(self.summaries))


def devices_in_use(survey: Survey, runs_root: Path) -> dict[str, DeviceUse]:
    """Return by device id what uses it now, without unused devices. Runs are left out if they cannot be listed."""
    try:
        on_devices = DeviceUsers().on_devices(all_runs(runs_root))
    except RunError:
        on_devices = {}
    return _uses(survey, on_devices)


def _uses(survey: Survey, on_devices: Mapping[str, tuple[RunSummary, ...]]) -> dict[str, DeviceUse]:
    live = {summary.dir for runs in on_devices.values() for summary in runs}
    workers = {each.process.pid for run_dir in live for each in present_facts(run_dir).workers.values()}
    samples = {sample.device_id: sample for sample in survey.samples}
    uses = {
        device.id: _use(device, on_devices.get(device.id, ()), samples.get(device.id), workers)
        for device in survey.devices
    }
    return {device: use for device, use in uses.items() if use.runs or use.others}


def _use(device: Device, runs: tuple[RunSummary, ...], sample: Sample | None, workers: AbstractSet[int]) -> DeviceUse:
    listed = (sample.processes if sample else None) or ()
    others = sorted(
        (each for each in listed if each.pid not in workers), key=lambda each: each.memory_used_bytes or 0, reverse=True
    )
    amounts = [each.memory_used_bytes for each in others if each.memory_used_bytes is not None]
    all_used = sample.memory_used_bytes if sample and others and len(others) == len(listed) else None
    # `glance` does not block on a process that hangs in the kernel.
    described = tuple(replace(glance(each.pid), memory_used_bytes=each.memory_used_bytes) for each in others)
    most = (others[0].memory_used_bytes or 0) if others else 0
    return DeviceUse(
        runs=runs,
        others=described,
        others_bytes=sum(amounts) if amounts else all_used,
        largest=program_name(described[0]) if most > MIN_SHARE * (device.memory_total_bytes or 0) else "",
    )


def use_sentences(devices: Iterable[Device], users: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], str]:
    """Return `GPU 0 and GPU 1 are used by A and B`, or `GPU 0 to 7 ...`, for each set of users.

    `users`: names by device id.
    """
    labels: dict[tuple[str, ...], list[str]] = {}
    for device in devices:
        if users.get(device.id):
            labels.setdefault(tuple(users[device.id]), []).append(device.label)
    return {
        names: tr_plural("{devices} is used by {names}", "{devices} are used by {names}", len(those),
                         devices=join_labels(those), names=join_names(names))
        for names, those in labels.items()
    }


def sharing_sentence(chosen: Collection[Device], uses: Mapping[str, DeviceUse]) -> str | None:
    """Return what else uses the devices of a run; None if nothing does, or other programs use little memory."""
    words = users_words(chosen, uses)
    return tr("This run shares its devices: {sentences}.", sentences=words) if words else None


def users_words(chosen: Collection[Device], uses: Mapping[str, DeviceUse]) -> str:
    """Return `GPU 0 is used by run A`, without other programs that use little memory; the empty string for none."""
    users: dict[str, list[str]] = {}
    for device in chosen:
        use, total = uses.get(device.id, DeviceUse()), device.memory_total_bytes
        users[device.id] = [tr("run {dir}", dir=run.dir.name) for run in use.runs]
        if total and (use.others_bytes or 0) >= LARGE_SHARE * total:
            others = first_processes([each.words for each in use.others])
            users[device.id].append(tr("{use} with {others_bytes} of its {total}", use=others,
                                       others_bytes=size(use.others_bytes), total=size(total)))
    return "; ".join(use_sentences(chosen, users).values())


def first_processes(processes: Sequence[str]) -> str:
    """Return `pid 4711 python (anna) and 2 more`."""
    return join_names(first_names(processes, MAX_NAMES))


def largest_others(survey: Survey, processes: Iterable[ProcessInfo], living: Iterable[str]) -> dict[str, str]:
    """Return by device id the program with the most memory on it, such as `blender (anna)`; not runs in `living`.

    A process whose amount is not known counts only if a good part of the used memory belongs to no known process.
    """
    used = {sample.device_id: sample.memory_used_bytes or 0 for sample in survey.samples}
    ours = {*living}
    by_device: dict[str | None, list[ProcessInfo]] = {}
    for process in processes:
        by_device.setdefault(process.device_id, []).append(process)
    found = {}
    for device in survey.devices:
        here = by_device.get(device.id, [])
        others = [each for each in here if each.run_id not in ours]
        others.sort(key=lambda each: each.memory_used_bytes or 0, reverse=True)
        min_bytes = MIN_SHARE * (device.memory_total_bytes or 0)
        unexplained = used.get(device.id, 0) - sum(each.memory_used_bytes or 0 for each in here)
        unknown = next((each for each in others if each.memory_used_bytes is None), None)
        if others and (others[0].memory_used_bytes or 0) >= max(min_bytes, 1):
            found[device.id] = program_name(others[0])
        elif unknown is not None and unexplained > min_bytes:
            found[device.id] = program_name(unknown)
    return found


def program_name(process: ProcessInfo) -> str:
    """Return `blender (anna)`; the pid for a process that is not known here."""
    if process.name is None:
        return process.words
    return f"{process.name} ({process.user})" if process.user else process.name
