"""This machine's processes, as far as a run may deal with them: its own are looked at and signalled, others named."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from core.memory_watch import gpu_processes
from core.system import process_info, processes, procfs
from core.system.procfs import PROC

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.devices.device import Device, Process
    from core.memory_watch.gpu_processes import GpuProcessScan
    from core.system.process_info import ProcessInfo
    from core.system.processes import ProcessId


class HostProcesses:
    """What the watch of one run knows of it; see `core.memory_watch.watch.Machine`."""

    def __init__(self, run_id: str, proc: Path = PROC) -> None:
        self._run_id, self._proc = run_id, proc

    def tagged(self) -> Sequence[ProcessId] | None:
        """Those that carry the run's tag and are of this user; None without a `/proc`, or with one that is empty."""
        return processes.tagged(self._run_id, self._proc) if procfs.pids(self._proc) else None

    def look(self, process: ProcessId) -> ProcessInfo | None:
        """What this very process is now, with its resident memory; None once it is gone."""
        if not processes.is_alive(process, self._proc):
            return None
        found = process_info.describe(process.pid, self._proc)
        if found.created != process.created:
            return None
        return replace(found, memory_used_bytes=procfs.resident_bytes(process.pid, self._proc))

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        """Signal this very process if it carries the run's tag and is of this user; False when it is not, or gone."""
        return processes.send_tagged(process, self._run_id, number, self._proc)

    def scan(self, devices: Sequence[Device], listed: Mapping[str, Sequence[Process] | None]) -> GpuProcessScan:
        """Who holds these devices."""
        return gpu_processes.scan(devices, listed, self._proc)

    def cores(self, pid: int) -> frozenset[int]:
        """The logical cores that a process may run on; none when it is gone."""
        try:
            return frozenset(os.sched_getaffinity(pid))
        except OSError:
            return frozenset()
