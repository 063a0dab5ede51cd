"""Find processes of a run on GPUs that were not ticked (chosen) for it, by the driver's lists of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.devices.reader import PROCESSES_S
from core.language import tr_plural
from core.schema.event_kinds import UntickedDeviceUse
from core.text import first_names, join_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from core.devices.device import Device, Sample, Survey


def find(
    ticked: Collection[str], devices: Sequence[Device], samples: Iterable[Sample], pids: Collection[int]
) -> list[UntickedDeviceUse]:
    """Return the uses of devices outside `ticked`. `pids`: all processes of the run, by its tag.

    A driver that lists no processes, or pids of another namespace (in a container), shows no use: finding none is no
    proof that there is none.
    """
    by_id = {device.id: device for device in devices}
    allowed = set(ticked) | _whole_gpus(ticked, devices)
    found = []
    for sample in samples:
        if sample.device_id in allowed or sample.device_id not in by_id or not sample.processes:
            continue
        here = tuple(sorted({process.pid for process in sample.processes} & set(pids)))
        if here:
            device = by_id[sample.device_id]
            found.append(UntickedDeviceUse(device_id=device.id, pids=here, sentence=_sentence(here, device)))
    return found


class UntickedDeviceWatch:
    """Searches as often as lists of processes are read, and returns each use once."""

    def __init__(self, ticked: Collection[str], pids: Callable[[], Collection[int]]) -> None:
        """`pids` returns all processes of the run; called only while a GPU that was not ticked has any process."""
        self._ticked, self._pids = ticked, pids
        self._reported: dict[str, tuple[int, ...]] = {}
        self._next_search = 0.0

    def poll(self, survey: Survey, now: float) -> list[UntickedDeviceUse]:
        """Return uses by a new process, or of a new device. `now`: seconds of any steady clock."""
        if now < self._next_search:
            return []
        self._next_search = now + PROCESSES_S
        elsewhere = [each for each in survey.samples if each.processes and each.device_id not in self._ticked]
        found = find(self._ticked, survey.devices, elsewhere, self._pids()) if elsewhere else []
        new = [use for use in found if not set(use.pids) <= set(self._reported.get(use.device_id, ()))]
        self._reported = {use.device_id: use.pids for use in found}
        return new


def _whole_gpus(ticked: Collection[str], devices: Sequence[Device]) -> set[str]:
    """Return the GPUs of ticked MIG devices: the list of a GPU has the processes of all its MIG devices."""
    buses = {device.pci_bus_id for device in devices if device.id in ticked and device.is_mig}
    return {device.id for device in devices if device.pci_bus_id in buses and not device.is_mig}


def _sentence(pids: Sequence[int], device: Device) -> str:
    return tr_plural(
        "Process {pids} of this run is on {label} ({name}), which was not chosen for it. "
        "Stop the run, and look for device numbers in its recipe or script.",
        "Processes {pids} of this run are on {label} ({name}), which was not chosen for it. "
        "Stop the run, and look for device numbers in its recipe or script.",
        len(pids),
        pids=join_names(first_names([str(pid) for pid in pids])),
        label=device.label,
        name=device.name,
    )
