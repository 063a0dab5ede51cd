"""Processes of a run on GPUs that were not ticked: found by the driver's own lists, told in red."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.devices.reader import PROCESSES_S
from core.runs.facts import UntickedDeviceUse
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from core.devices.device import Device, Sample, Survey


def find(
    ticked: Collection[str], devices: Sequence[Device], samples: Iterable[Sample], pids: Collection[int]
) -> list[UntickedDeviceUse]:
    """Which of a run's processes the driver names on devices outside `ticked`.

    `pids`: all processes of the run, by its tag. A device whose driver gives no list of processes, or gives the
    pids of another namespace (in a container), shows nothing: that is no proof that nothing is there.
    """
    by_id = {device.id: device for device in devices}
    ours = set(ticked) | _wholes(ticked, devices)
    found = []
    for sample in samples:
        if sample.device_id in ours or sample.device_id not in by_id or not sample.processes:
            continue
        here = tuple(sorted({process.pid for process in sample.processes} & set(pids)))
        if here:
            device = by_id[sample.device_id]
            found.append(UntickedDeviceUse(device_id=device.id, pids=here, sentence=_sentence(here, device)))
    return found


class UntickedDeviceWatch:
    """Looks as often as lists of processes are read, and tells each finding once."""

    def __init__(self, ticked: Collection[str], pids: Callable[[], Collection[int]]) -> None:
        """`pids` tells all processes of the run; it is asked only while somebody is on a GPU that was not ticked."""
        self._ticked, self._pids = ticked, pids
        self._told: dict[str, tuple[int, ...]] = {}
        self._look_at = 0.0

    def look(self, survey: Survey, now: float) -> list[UntickedDeviceUse]:
        """What is new at `now`, seconds of any steady clock: a process more on a device, or a device more."""
        if now < self._look_at:
            return []
        self._look_at = now + PROCESSES_S
        elsewhere = [each for each in survey.samples if each.processes and each.device_id not in self._ticked]
        found = find(self._ticked, survey.devices, elsewhere, self._pids()) if elsewhere else []
        fresh = [stray for stray in found if not set(stray.pids) <= set(self._told.get(stray.device_id, ()))]
        self._told = {stray.device_id: stray.pids for stray in found}
        return fresh


def _wholes(ticked: Collection[str], devices: Sequence[Device]) -> set[str]:
    """The GPUs of which a MIG device is ticked: their lists name the processes of all their MIG devices."""
    buses = {device.pci_bus_id for device in devices if device.id in ticked and device.is_mig}
    return {device.id for device in devices if device.pci_bus_id in buses and not device.is_mig}


def _sentence(pids: Sequence[int], device: Device) -> str:
    processes, are = ("Process", "is") if len(pids) == 1 else ("Processes", "are")
    return (
        f"{processes} {join_names(map(str, pids))} of this run {are} on {device.label} ({device.name}), "
        "which was not ticked. "
        "Stop the run; check the recipe for device numbers."
    )
