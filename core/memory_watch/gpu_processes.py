"""Who holds a device: the driver's own lists, joined with who has the device's file open.

The driver alone would not do: data-loader workers that were forked hold memory which it books on their dead parent.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.system import procfs
from core.system.own_processes import asks_drivers
from core.system.process_info import ProcessInfo, describe
from core.system.procfs import PROC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from core.devices.device import Device, Process


NODE = re.compile(rb"/dev/nvidia(\d+)")
ANY_NODE = b"/dev/nvidia"
WATCHERS = frozenset({
    "nvidia-smi", "nvidia-persiste", "nvtop", "nvitop", "gpustat", "nv-hostengine", "dcgm-exporter", "dcgmi",
})  # fmt: skip
"""Programs that open the devices' files to read them, and hold no memory; as the kernel cuts names, at 15 letters."""

Open = dict[int, set[str | None]]
"""By pid, the ids of the devices whose files it has open; None: a file that all of them share, or one not known."""


@dataclass(frozen=True, slots=True)
class GpuProcessScan:
    """What one pass over the machine's processes found."""

    holders: tuple[ProcessInfo, ...] = ()
    trouble: str | None = None
    """A sentence on what could not be seen."""
    blind: bool = False
    """Whether there was no `/proc` at all to look into."""


def scan(
    devices: Sequence[Device], listed: Mapping[str, Sequence[Process] | None], proc: Path = PROC
) -> GpuProcessScan:
    """Who holds these devices. `listed`: by device id, the driver's own list; None or absent without one.

    A process that cannot be looked into is no error: how many there were is said in the result.
    """
    pids = procfs.pids(proc)
    opened, closed = _files(pids, proc, _nodes(devices))
    used = _used(devices, listed)
    known = {pid: describe(pid, proc) for pid in sorted({*opened, *(pid for _, pid in used)})}
    holders = [
        replace(known[pid], device_id=name, memory_used_bytes=bytes_, listed=True)
        for (name, pid), bytes_ in used.items()
    ]
    holders += _unlisted(opened, used, known)
    return GpuProcessScan(tuple(holders), _trouble(pids, closed, proc), blind=not pids)


# -- open files ----------------------------------------------------------------------------------


def _nodes(devices: Sequence[Device]) -> dict[bytes, str | None]:
    """By file name the device; None where several share it. With "any" as None where one does not name its own."""
    nodes: dict[bytes, str | None] = {}
    for device in devices:
        if device.minor is not None:
            node = b"%s%d" % (ANY_NODE, device.minor)
            nodes[node] = None if node in nodes else device.id  # the parts of one card have one file
        elif device.kind == "nvidia":
            nodes[ANY_NODE] = None
    return nodes


def _files(pids: Sequence[int], proc: Path, nodes: Mapping[bytes, str | None]) -> tuple[Open, list[int]]:
    """Which process has which device open; and those that could not be looked into."""
    opened: Open = {}
    closed: list[int] = []
    if not nodes:
        return opened, closed
    root = os.fsencode(proc)
    for pid in pids:
        try:
            links = [link for link in _links(b"%s/%d/fd" % (root, pid)) if link.startswith(ANY_NODE)]
        except PermissionError:
            closed.append(pid)
            continue
        if links:
            opened[pid] = _devices(links, nodes)
    return opened, closed


def _links(folder: bytes) -> Iterator[bytes]:
    """What the file descriptors of a process are open on. Raises `PermissionError` where it may not be known."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (thousands of names, twice a second)
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return  # it has ended meanwhile
    yield from [_link(b"%s/%s" % (folder, name)) for name in names]


def _link(path: bytes) -> bytes:
    try:
        return os.readlink(path)  # noqa: PTH115 (as bytes, which is faster)
    except PermissionError:
        raise
    except OSError:
        return b""  # closed meanwhile


def _devices(links: Sequence[bytes], nodes: Mapping[bytes, str | None]) -> set[str | None]:
    own = {link for link in links if NODE.fullmatch(link)}
    named = {nodes[link] for link in own if link in nodes}
    if named:
        return named
    # Only the files that all devices share, or of a device whose file is not known: some GPU. Else it is on others.
    return {None} if not own or ANY_NODE in nodes else set()


# -- joined with the driver's lists --------------------------------------------------------------


def _used(
    devices: Sequence[Device], listed: Mapping[str, Sequence[Process] | None]
) -> dict[tuple[str, int], int | None]:
    return {
        (device.id, process.pid): process.memory_used_bytes
        for device in devices
        for process in listed.get(device.id) or ()
    }


def _unlisted(
    opened: Open, used: Mapping[tuple[str, int], int | None], known: Mapping[int, ProcessInfo]
) -> list[ProcessInfo]:
    """Who has a device open and is on no list of the driver's."""
    listed = {pid for _, pid in used}
    found = []
    for pid, names in sorted(opened.items()):
        holder = known[pid]
        watches = holder.name in WATCHERS and pid not in listed
        if holder.name is None or watches or asks_drivers((holder.command or "").split()):
            continue
        for name in sorted(names, key=str):
            if name is None and (holder.run_id is None or pid in listed):
                continue  # of the files that all share nobody is taken for a holder, but who is of a run
            if name is None or (name, pid) not in used:
                found.append(replace(holder, device_id=name))
    return found


def _trouble(pids: Sequence[int], closed: Sequence[int], proc: Path) -> str | None:
    if not pids:
        return f"There is no {proc} to look into: only processes that the driver names are known."
    stats = (procfs.stat(pid, proc) for pid in closed)
    count = sum(stat is not None and not stat.is_kernel_thread for stat in stats)
    if not count:
        return None
    # Not all are other users': one that may not be dumped, such as an agent of keys, is closed to its own user.
    what, it = ("1 process", "it") if count == 1 else (f"{count} processes", "one of them")
    return f"{what} could not be looked into, for want of permission: {it} may hold a device unseen."
