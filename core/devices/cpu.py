"""CPU devices: the cores that this process may use, divided into devices, so that all works without a GPU."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from core.devices.cores import shares
from core.devices.device import Device, Sample
from core.devices.process_memory import ProcessMemory
from core.devices.reader import Options, Tier

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

STAT = Path("/proc/stat")
CPUINFO = Path("/proc/cpuinfo")

Ticks = tuple[int, int]
"""Busy and total time of cores since the machine's start, in the kernel's ticks."""


def open_reader(options: Options) -> CpuReader:
    """Return a reader of the CPU devices. Raises `ValueError` as `cpu_devices`."""
    return CpuReader([device for device in cpu_devices() if options.wants(device.id)])


def cpu_devices() -> list[Device]:
    """Return the CPU devices of this process. Raises `ValueError` for a bad setting of their cores."""
    model = _model_name()
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return [_device(number, share, model, total) for number, share in enumerate(shares())]


def _device(number: int, cores: tuple[int, ...], model: str, memory_total_bytes: int) -> Device:
    return Device(
        id=f"cpu:{number}",
        kind="cpu",
        label=f"CPU {number}",
        name=f"{model}, {len(cores)} core{'s' if len(cores) > 1 else ''}",
        memory_total_bytes=memory_total_bytes,
        cores=cores,
    )


def _model_name() -> str:
    # Many ARM machines have no such line.
    lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or os.uname().machine


class CpuReader:
    """Reads the utilisation of CPU devices' cores, and the memory of the runs on them."""

    banner: str | None = None

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = tuple(devices)
        self._ticks: dict[str, Ticks] = {}
        self._memory: dict[str, ProcessMemory] = {}

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """By device id, set the processes of runs on it; for other devices no memory is read any more."""
        self._memory = {device_id: self._watched(device_id, wanted) for device_id, wanted in pids.items()}

    def read(self, now: float, tiers: Collection[Tier]) -> list[Sample]:
        """Return a sample of each device at `now`, unix seconds; utilisation is that since the last reading."""
        if Tier.LOAD not in tiers:
            return []
        ticks = core_ticks()
        return [self._sample(device, now, ticks) for device in self.devices]

    def _watched(self, device_id: str, pids: Sequence[int]) -> ProcessMemory:
        # Keep what is watched already: it identified the processes while they were running.
        known = self._memory.get(device_id)
        return known if known and known.pids == frozenset(pids) else ProcessMemory(pids)

    def _sample(self, device: Device, now: float, ticks: Mapping[int, Ticks]) -> Sample:
        memory = self._memory.get(device.id)
        return Sample(
            device_id=device.id,
            time=now,
            utilisation_percent=self._utilisation_percent(device, ticks),
            memory_used_bytes=None if memory is None else memory.resident_bytes(),
        )

    def _utilisation_percent(self, device: Device, ticks: Mapping[int, Ticks]) -> float | None:
        own = [ticks[core] for core in device.cores if core in ticks]
        latest = (sum(busy for busy, _ in own), sum(total for _, total in own))
        earlier = self._ticks.get(device.id)
        self._ticks[device.id] = latest
        return None if earlier is None else _percent(earlier, latest)


def _percent(earlier: Ticks, latest: Ticks) -> float | None:
    busy, total = latest[0] - earlier[0], latest[1] - earlier[1]
    # Without a tick in between, or with a core gone offline, there is no reading. Idle time may drop by a tick.
    return min(max(100.0 * busy / total, 0.0), 100.0) if total > 0 else None


def core_ticks() -> dict[int, Ticks]:
    """Return busy and total time of each core, from `/proc/stat` as described in proc(5).

    `psutil.cpu_times(percpu=True)` would not do: it renumbers the cores that are online.
    """
    ticks = {}
    with STAT.open(encoding="ascii") as file:
        for line in islice(file, 1, None):  # the first line is the sum of all
            if not line.startswith("cpu"):
                break
            name, *values = line.split()
            # The values after the eighth are time of guests, which is part of user already.
            user, nice, system, idle, iowait, *interrupts = map(int, values[:8])
            busy = user + nice + system + sum(interrupts)
            ticks[int(name[3:])] = (busy, busy + idle + iowait)
    return ticks
