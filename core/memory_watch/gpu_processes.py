"""Find the processes that hold a GPU: those on the driver's lists, and those that have the device file open.

The driver's lists alone are not enough: they attribute the memory of forked data-loader workers to a dead parent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.devices.device import Device, Process
from core.language import tr, tr_plural
from core.schema.event_kinds import ProcessInfo
from core.system import procfs
from core.system.own_processes import asks_drivers
from core.system.processes import describe
from core.system.procfs import PROC

NODE = re.compile(rb"/dev/nvidia(\d+)")
ANY_NODE = b"/dev/nvidia"
WATCHERS = frozenset({
    "nvidia-smi", "nvidia-persiste", "nvtop", "nvitop", "gpustat", "nv-hostengine", "dcgm-exporter", "dcgmi",
})
"""Programs that only read from the device files and hold no memory. The kernel cuts names after 15 characters."""

Open = dict[int, set[str | None]]
"""By pid, the ids of the devices whose files it has open; None for a file that several share, or an unknown one."""


@dataclass(frozen=True, slots=True)
class GpuProcessScan:
    """The result of one search through the machine's processes."""

    holders: tuple[ProcessInfo, ...] = ()
    trouble: str | None = None
    """A sentence on processes that could not be inspected."""
    blind: bool = False
    """Whether there is no `/proc`."""


def scan(
    devices: Sequence[Device], listed: Mapping[str, Sequence[Process] | None], proc: Path = PROC
) -> GpuProcessScan:
    """Return the processes that hold these devices. `listed`: by device id, the driver's list; None or absent if none.

    Raises nothing for processes that cannot be inspected; the result has a sentence with their number.
    """
    pids = procfs.pids(proc)
    opened, closed = _files(pids, proc, _nodes(devices))
    used = {(device.id, each.pid): each.memory_used_bytes for device in devices for each in listed.get(device.id) or ()}
    known = {pid: describe(pid, proc) for pid in sorted({*opened, *(pid for _, pid in used)})}
    holders = [
        replace(known[pid], device_id=name, memory_used_bytes=used_bytes, listed=True)
        for (name, pid), used_bytes in used.items()
    ]
    holders += _unlisted(opened, used, known)
    return GpuProcessScan(tuple(holders), _trouble(pids, closed, proc), blind=not pids)


# -- open files ----------------------------------------------------------------------------------


def _nodes(devices: Sequence[Device]) -> dict[bytes, str | None]:
    """Return the device id by file name; None if several share the file, or for any file if one is unknown."""
    nodes: dict[bytes, str | None] = {}
    for device in devices:
        if device.minor is not None:
            node = b"%s%d" % (ANY_NODE, device.minor)
            nodes[node] = None if node in nodes else device.id  # the MIG devices of a GPU share its file
        elif device.kind == "nvidia":
            nodes[ANY_NODE] = None
    return nodes


def _files(pids: Sequence[int], proc: Path, nodes: Mapping[bytes, str | None]) -> tuple[Open, list[int]]:
    """Return which process has which device open, and the pids that could not be inspected."""
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
    """Return the targets of a process's file descriptors. Raises `PermissionError`."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (thousands of names, twice a second)
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return  # it has exited
    yield from [_link(b"%s/%s" % (folder, name)) for name in names]


def _link(path: bytes) -> bytes:
    try:
        return os.readlink(path)  # noqa: PTH115 (as bytes, which is faster)
    except PermissionError:
        raise
    except OSError:
        return b""  # it has been closed


def _devices(links: Sequence[bytes], nodes: Mapping[bytes, str | None]) -> set[str | None]:
    own = {link for link in links if NODE.fullmatch(link)}
    named = {nodes[link] for link in own if link in nodes}
    if named:
        return named
    # Only shared files, or a device whose file is unknown: some GPU. Otherwise other devices than these.
    return {None} if not own or ANY_NODE in nodes else set()


# -- joined with the driver's lists --------------------------------------------------------------


def _unlisted(
    opened: Open, used: Mapping[tuple[str, int], int | None], known: Mapping[int, ProcessInfo]
) -> list[ProcessInfo]:
    """Return the processes that have a device open but are not on the driver's lists."""
    listed = {pid for _, pid in used}
    found = []
    for pid, names in sorted(opened.items()):
        process = known[pid]
        watches = process.name in WATCHERS and pid not in listed
        if process.name is None or watches or asks_drivers((process.command or "").split()):
            continue
        for name in sorted(names, key=str):
            if name is None and (process.run_id is None or pid in listed):
                continue  # a shared file counts only for processes of a run
            if name is None or (name, pid) not in used:
                found.append(replace(process, device_id=name))
    return found


def _trouble(pids: Sequence[int], closed: Sequence[int], proc: Path) -> str | None:
    if not pids:
        return tr("There is no {proc}: only processes on the driver's lists are known.", proc=proc)
    stats = (procfs.stat(pid, proc) for pid in closed)
    count = sum(stat is not None and not stat.flags & procfs.KERNEL_THREAD for stat in stats)
    if not count:
        return None
    # These may include processes of this user: a key agent, for example, is closed to its own user.
    return tr_plural(
        "{count} process could not be inspected for lack of permission: it may hold a device.",
        "{count} processes could not be inspected for lack of permission: one of them may hold a device.",
        count,
    )
