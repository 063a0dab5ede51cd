"""CPU devices: the cores that this process may use, divided into devices, so that all works without a GPU."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from core.devices.device import Device, Sample
from core.devices.reader import Options, Tier
from core.language import tr
from core.system import procfs
from core.system.procfs import PROC

STAT = Path("/proc/stat")
CPUINFO = Path("/proc/cpuinfo")

Ticks = tuple[int, int]
"""Busy and total time of cores since the machine's start, in the kernel's ticks."""


def open_reader(options: Options) -> CpuReader:
    """Return a reader of the CPU devices. Raises `ValueError` as `cpu_devices`."""
    return CpuReader([device for device in cpu_devices() if options.wants(device.id)])


def cpu_devices() -> list[Device]:
    """Return the CPU devices of this process. Raises `ValueError` for a bad setting of their cores."""
    lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    model = next(names, "") or os.uname().machine  # many ARM machines have no such line
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return [
        Device(
            id=f"cpu:{number}", kind="cpu", label=f"CPU {number}", memory_total_bytes=total, cores=cores,
            name=f"{model}, {len(cores)} core{'s' if len(cores) > 1 else ''}",
        )
        for number, cores in enumerate(shares())
    ]


class CpuReader:
    """Reads the utilisation of CPU devices' cores, and the memory of the runs on them."""

    banner: str | None = None

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = tuple(devices)
        self._ticks: dict[str, Ticks] = {}
        self._memory: dict[str, ProcessMemory] = {}

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """By device id, set the processes of runs on it; for other devices no memory is read any more."""
        # Keep what is watched already: it identified the processes while they were running.
        known = {(device_id, memory.pids): memory for device_id, memory in self._memory.items()}
        self._memory = {
            device_id: known.get((device_id, frozenset(wanted))) or ProcessMemory(wanted)
            for device_id, wanted in pids.items()
        }

    def read(self, now: float, tiers: Collection[Tier]) -> list[Sample]:
        """Return a sample of each device at `now`, unix seconds; utilisation is that since the last reading."""
        if Tier.LOAD not in tiers:
            return []
        ticks = core_ticks()
        return [self._sample(device, now, ticks) for device in self.devices]

    def _sample(self, device: Device, now: float, ticks: Mapping[int, Ticks]) -> Sample:
        memory = self._memory.get(device.id)
        own = [ticks[core] for core in device.cores if core in ticks]
        latest = (sum(busy for busy, _ in own), sum(total for _, total in own))
        earlier = self._ticks.get(device.id, latest)
        self._ticks[device.id] = latest
        busy, total = latest[0] - earlier[0], latest[1] - earlier[1]
        return Sample(
            device_id=device.id, time=now,
            # Without a tick in between, or with a core gone offline, there is no reading. Idle time may drop by a tick.
            utilisation_percent=min(max(100.0 * busy / total, 0.0), 100.0) if total > 0 else None,
            memory_used_bytes=None if memory is None else memory.resident_bytes(),
        )


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


COUNT_VARIABLE = "TRAINYARD_CPU_DEVICES"
CORES_VARIABLE = "TRAINYARD_CPU_CORES"
MIN_DEVICES, MIN_OFFERED = 2, 8
"""Devices where nothing is set, and devices that can be asked for, however few the cores: devices then share cores, so
that a run on several devices can be tried on every machine."""
PART = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
"""A core, or a range of cores including the last."""


def shares(environ: Mapping[str, str] = os.environ) -> list[tuple[int, ...]]:
    """Return the cores of each CPU device. Raises `ValueError` if one of the two variables has a bad value."""
    cores = usable_cores(environ.get(CORES_VARIABLE), os.sched_getaffinity(0))
    return divide(cores, device_count(environ.get(COUNT_VARIABLE), len(cores)))


def usable_cores(setting: str | None, usable: Collection[int]) -> list[int]:
    """Return the cores to divide, in order: those of the setting, or all usable ones without it.

    `setting`: a list as for `taskset --cpu-list`, `1,0` or `2-7`. Raises `ValueError` if it does not fit the machine.
    """
    if setting is None:
        return sorted(usable)
    parts = [PART.fullmatch(part) for part in setting.split(",")]
    cores = [core for part in parts if part for core in range(int(part[1]), int(part[2] or part[1]) + 1)]
    if None in parts or not cores or len(set(cores)) < len(cores) or not set(cores) <= set(usable):
        raise ValueError(
            tr(
                "{variable}={value} does not fit this machine: "
                "name each core once, as in 2-5 or 1,0, of {cores}, or unset it.",
                variable=CORES_VARIABLE, value=setting, cores=_listed(sorted(usable)),
            )
        )
    return cores


def device_count(setting: str | None, cores: int) -> int:
    """Return the number of CPU devices. Raises `ValueError` if the setting does not fit the machine."""
    if setting is None:
        return MIN_DEVICES
    most = max(cores, MIN_OFFERED)
    # int() alone would accept "+2", "1_0" and " 2 ".
    count = int(setting) if setting.isascii() and setting.isdecimal() else 0
    if not 1 <= count <= most:
        raise ValueError(
            tr(
                "{variable}={value} does not fit this machine: "
                "set it to a whole number from 1 to {count}, or unset it.",
                variable=COUNT_VARIABLE, value=setting, count=most,
            )
        )
    return count


def divide(cores: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Divide cores into `count` contiguous shares whose sizes differ by one at most, the larger ones first.

    With more devices than cores, each device has one core, and the devices take the cores in turn.
    """
    if count > len(cores):
        return [(cores[number % len(cores)],) for number in range(count)]
    size, larger = divmod(len(cores), count)
    remaining = iter(cores)
    return [tuple(islice(remaining, size + (number < larger))) for number in range(count)]


def _listed(cores: Sequence[int]) -> str:
    """`0-3,8`."""
    ranges: list[list[int]] = []
    for core in cores:
        if ranges and core == ranges[-1][-1] + 1:
            ranges[-1].append(core)
        else:
            ranges.append([core])
    return ",".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in ranges)


TREE_S = 2.0
"""Seconds for which a list of descendants is reused: finding them costs far more than reading their memory."""


class ProcessMemory:
    """The resident set of some processes and of all their descendants."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.pids = frozenset(pids)
        self._roots = {pid: started for pid in self.pids if (started := _started(pid)) is not None}
        self._tree: set[int] = set()
        self._tree_until = 0.0

    def resident_bytes(self) -> int:
        """Return the sum of the resident sets, 0 if all have ended. Shared pages count once per process."""
        now = time.monotonic()
        if now >= self._tree_until:
            # A pid alone is not trusted: the number may belong to another process by now.
            self._tree = descendants(pid for pid, started in self._roots.items() if _started(pid) == started)
            self._tree_until = now + TREE_S
        return sum(procfs.resident_bytes(pid) or 0 for pid in self._tree)


def descendants(pids: Iterable[int]) -> set[int]:
    """Return the processes, their children, their children's children, and so on."""
    children = procfs.children if (PROC / "thread-self" / "children").exists() else _children_by_scan()
    found: set[int] = set()
    todo = list(pids)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children(pid))
    return found


def _children_by_scan() -> Callable[[int], list[int]]:
    """Read the parent of every process once, and return the look-up: not every kernel has lists of children."""
    children: dict[int, list[int]] = {}
    for pid in procfs.pids():
        if (stat := procfs.stat(pid)) is not None:
            children.setdefault(stat.parent, []).append(pid)
    return lambda pid: children.get(pid, [])


def _started(pid: int) -> int | None:
    stat = procfs.stat(pid)
    return None if stat is None else stat.ticks
