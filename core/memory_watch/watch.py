"""Watch the memory of a run's devices: before the run, at most, and after it, until there is a verdict on each.

`MemoryWatch` advances by calls of `step`. It makes no readings and never waits, so tests drive it without a GPU.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from core.devices.device import Device, Process, Sample
from core.language import join_sentences
from core.memory_watch import gpu_processes
from core.memory_watch.evidence import MemoryEvidence
from core.memory_watch.gpu_processes import GpuProcessScan
from core.memory_watch.verdict import awaited, judge
from core.schema.event_kinds import ProcessInfo, Release, TerminatedProcess, Verdict
from core.schema.settings import ReleaseWatch
from core.system import processes, procfs
from core.system.processes import ProcessId
from core.system.procfs import STUCK
from core.system.terminate import SURVIVOR_GRACE_S, ProcessEscalation, RunProcesses, TrackedProcess
from core.text import BYTES_PER_MB

LOST_PATIENCE_S = 15.0
"""Seconds to wait for a device that does not answer: it is asked every ten seconds, so this allows one more answer."""
REPORT_AFTER_S = 2.0
"""Seconds before the watch reports what it is waiting for; memory usually returns at once."""
HURRY_S = 3.0
"""Seconds to wait once the user logs out, or the machine shuts down."""
SETTLE_S = 3.0
"""Seconds that the memory of a terminated process may take to return and to be read, whatever the settings say."""
READINGS_AFTER = 2
"""Number of the first reading that counts as made after the end: the one before it may have begun earlier."""


class HostProcesses:
    """The processes of this machine, of which those of one run may be signalled."""

    def __init__(self, own: RunProcesses) -> None:
        self._own, self._proc = own, own.proc

    def tagged(self) -> Sequence[ProcessId] | None:
        """Return this user's processes of the run; None without a `/proc`, or with an empty one."""
        return self._own.find() if procfs.pids(self._proc) else None

    def inspect(self, process: ProcessId) -> ProcessInfo | None:
        """Return what this very process is now, with its resident memory; None once it is gone."""
        if not processes.is_alive(process, self._proc):
            return None
        found = processes.describe(process.pid, self._proc)
        if found.created != process.created:
            return None
        return replace(found, memory_used_bytes=procfs.resident_bytes(process.pid, self._proc))

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        """Signal this very process if it belongs to the run and this user; False if not, or if it is gone."""
        return self._own.send(process, number)

    def scan(self, devices: Sequence[Device], listed: Mapping[str, Sequence[Process] | None]) -> GpuProcessScan:
        """Return the processes that hold these devices; see `core.memory_watch.gpu_processes.scan`."""
        return gpu_processes.scan(devices, listed, self._proc)

    def cores(self, pid: int) -> frozenset[int]:
        """Return the logical cores that a process may run on; none when it is gone."""
        with contextlib.suppress(OSError):
            return frozenset(os.sched_getaffinity(pid))
        return frozenset()


@dataclass(slots=True)
class _DeviceMemory:
    """The readings of one device, and its verdict once there is one."""

    device: Device
    before: int | None = None
    held_before: tuple[ProcessInfo, ...] = ()
    listed_before: bool = True
    peak: int | None = None
    latest: Sample | None = None
    listed: tuple[Process, ...] | None = None
    """The driver's latest list of processes; None before the first, and again from the end on."""
    readings_after: int = 0
    release: Release | None = None

    def ends(self) -> None:
        """Note that a process which held the device has just ended: only readings from now on count."""
        self.readings_after = 0
        self.listed = None

    def take(self, sample: Sample, *, after_the_end: bool) -> None:
        self.latest = sample
        if sample.processes is not None:  # else the driver gave no list this time
            self.listed = sample.processes
        self.readings_after += after_the_end
        if sample.memory_used_bytes is not None and self.readings_after < READINGS_AFTER:
            self.peak = max(self.peak or 0, sample.memory_used_bytes)

    @property
    def lost(self) -> str | None:
        return self.latest.lost if self.latest else None

    @property
    def asleep(self) -> bool:
        return self.readings_after >= READINGS_AFTER and self.latest is not None and self.latest.asleep

    @property
    def after(self) -> int | None:
        """Bytes in use by a reading that was made after the end."""
        if self.latest is None or self.lost or self.readings_after < READINGS_AFTER:
            return None
        return self.latest.memory_used_bytes


class MemoryWatch:
    """The watch of a run, from one start to its end: `begin`, `take` readings, `end`, then `step` until `done`."""

    def __init__(
        self, run_id: str, devices: Sequence[Device], settings: ReleaseWatch, access: HostProcesses,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: returns the seconds of any steady clock."""
        self._run_id, self._settings, self._access, self._clock = run_id, settings, access, clock
        self._devices = {device.id: _DeviceMemory(device) for device in devices}
        self._survivors = ProcessEscalation(access)
        self._own: set[ProcessId] = set()
        self._scan: GpuProcessScan | None = None
        self._scan_is_old = True
        self._ended_at: float | None = None
        self._wait_s = settings.wait_s
        self._latest_s = max(settings.wait_s, 2 * SURVIVOR_GRACE_S) + SETTLE_S
        self._hurried = False
        self._reported: tuple[object, ...] = ()
        self.signalled: Sequence[tuple[signal.Signals, list[ProcessInfo]]] = ()
        """The signals that the last step sent, each with its processes."""

    def begin(self, samples: Iterable[Sample]) -> None:
        """Take the readings from before the first worker, with which later ones are compared."""
        for sample in samples:
            self._devices[sample.device_id].take(sample, after_the_end=False)
        found = self._scan_processes() if self._gpus else None
        for memory in self._devices.values():
            memory.before = memory.latest.memory_used_bytes if memory.latest else None
            memory.listed_before = memory.listed is not None
            if found is not None:
                here = (each for each in found.holders if each.device_id == memory.device.id)
                memory.held_before = tuple(each for each in here if not self._is_own(each))

    def take(self, samples: Iterable[Sample]) -> None:
        """Take readings that have arrived, in order."""
        for sample in samples:
            self._devices[sample.device_id].take(sample, after_the_end=self._ended_at is not None)
            self._scan_is_old = True

    def track_killed(self, killed: Iterable[ProcessId]) -> None:
        """Track processes of the run to which the supervisor has sent SIGKILL."""
        for process in killed:
            self._survivors.track_killed(process, self._clock())

    def end(self, workers: Iterable[ProcessId]) -> None:
        """Note that the last worker has ended. `take` must have had all readings that were made until now."""
        if self._ended_at is None:
            self._ended_at = self._clock()
            for memory in self._devices.values():
                memory.ends()
        self._own.update(workers)

    def hurry(self, wait_s: float = HURRY_S) -> None:
        """Wait at most `wait_s` seconds from now on, whatever the settings say; before the end, from the end on."""
        seconds = 0.0 if self._ended_at is None else self._seconds
        if seconds + wait_s < self._wait_s:
            self._wait_s, self._hurried = seconds + wait_s, True

    def step(self) -> list[Release]:
        """Terminate processes of the run that are left, judge the devices, and return the new verdicts."""
        ended = len(self._survivors.gone)
        self.signalled = self._survivors.step(self._clock(), hurried=self._hurried)
        self._own.update(survivor.process for survivor in self._survivors.living)
        has_news = self._scan_is_old and any(each.readings_after >= READINGS_AFTER for each in self._pending)
        if self._pending and self._gpus and (self._is_due() or has_news):
            self._scan, self._scan_is_old = self._scan_processes(), False
            self._survivors.update()  # a process that the scan lacks may just have ended
        if len(self._survivors.gone) > ended:
            self._read_again()
        return [release for memory in self._pending if (release := self._judge(memory)) is not None]

    @property
    def done(self) -> bool:
        """Whether there is a verdict on every device, and no process of the run is left that a signal may end."""
        return not self._pending and (not self._survivors.living or self._is_due(for_own=True))

    @property
    def survivors(self) -> list[TrackedProcess]:
        """The processes of the run that are left: being terminated or, once `done`, impossible to terminate."""
        return self._survivors.living

    def ended(self) -> list[TerminatedProcess]:
        """Return the processes that were terminated."""
        return self._survivors.ended()

    def waiting(self) -> str | None:
        """Return what the watch is waiting for, in sentences; None when that has not changed since the last call."""
        if self._seconds < REPORT_AFTER_S or not self._pending:
            return None
        evidence = [self._evidence(memory) for memory in self._pending]
        reported = tuple((each.device.id, bool(each.own), each.lost, each.after is None) for each in evidence)
        if reported == self._reported:
            return None
        self._reported = reported
        return join_sentences(map(awaited, evidence))

    def _read_again(self) -> None:
        """Note that a process of the run has just ended: earlier readings include its memory."""
        for memory in self._pending:
            memory.ends()
        self._wait_s = max(self._wait_s, min(self._seconds + SETTLE_S, self._latest_s))

    # -- one device ------------------------------------------------------------------------------

    def _judge(self, memory: _DeviceMemory) -> Release | None:
        evidence = self._evidence(memory)
        if (ruling := judge(evidence)) is None:
            return None
        verdict, sentence = ruling
        memory.release = Release(
            device_id=memory.device.id, verdict=verdict, before_bytes=evidence.before, peak_bytes=evidence.peak,
            after_bytes=evidence.after, seconds=round(evidence.seconds, 3), sentence=sentence,
            holders=() if verdict is Verdict.RELEASED else (*evidence.own, *evidence.gone, *evidence.holders),
        )
        return memory.release

    def _evidence(self, memory: _DeviceMemory) -> MemoryEvidence:
        device, scan, seconds = memory.device, self._scan, self._seconds
        is_cpu = device.kind == "cpu"
        own = self._own_on_cpu(device) if is_cpu else self._own_on_gpu(device)
        gone, others = self._others(device)
        blind = self._survivors.blind or bool(scan and scan.blind)
        before, after = _held_on_cpu(own, blind=blind) if is_cpu else (memory.before, memory.after)
        return MemoryEvidence(
            device=device, tolerance_bytes=self._settings.tolerance_mb * BYTES_PER_MB,
            before=before, peak=memory.peak, after=after, lost=memory.lost, asleep=memory.asleep,
            fault=memory.latest.fault if memory.latest else None,
            held_before=memory.held_before, listed_before=memory.listed_before, holders=others, own=own, gone=gone,
            sent={each.info.key: each.signal.name for each in self._survivors.living if each.signal is not None},
            ended=tuple(f"pid {each.pid} {each.name}" for each in self._survivors.ended()),
            trouble=scan.trouble if scan else None, blind=blind,
            seconds=seconds, due=self._is_due(for_own=bool(own)),
            may_wait=seconds < min(self._wait_s, LOST_PATIENCE_S), cut_short=self._hurried,
        )

    def _own_on_cpu(self, device: Device) -> tuple[ProcessInfo, ...]:
        """Return the processes of the run that are left and may run on this device's cores, or on any."""
        found = []
        for survivor in self._survivors.living:
            cores = self._access.cores(survivor.process.pid)
            homes = [name for name, each in self._devices.items() if cores <= frozenset(each.device.cores)]
            if device.id in homes or not homes:
                found.append(replace(survivor.info, device_id=device.id))
        return tuple(found)

    def _own_on_gpu(self, device: Device) -> tuple[ProcessInfo, ...]:
        living = {process.key: process for process in (each.info for each in self._survivors.living)}
        if self._scan is None:  # which process holds which device is not known yet
            return tuple(replace(process, device_id=None, memory_used_bytes=None) for process in living.values())
        gone = {each.info.key for each in self._survivors.gone}
        seen = {process.key for process in self._scan.holders}
        # An exiting process has closed its files and lost its environment, which holds the tag.
        leaving = [each for key, each in living.items() if each.state == STUCK and key not in seen]
        here = [
            process
            for process in self._scan.holders
            if process.device_id in {device.id, None} and self._is_own(process) and process.key not in gone
        ]
        return (*here, *(replace(process, device_id=None, memory_used_bytes=None) for process in leaving))

    def _others(self, device: Device) -> tuple[tuple[ProcessInfo, ...], tuple[ProcessInfo, ...]]:
        """Return ended processes of this run that the driver still lists on a device, and processes of others."""
        here = [each for each in (self._scan.holders if self._scan else ()) if each.device_id == device.id]
        gone = tuple(each for each in here if self._was_own(each))
        others = tuple(each for each in here if not self._is_own(each) and not self._was_own(each))
        return gone, others

    def _is_own(self, process: ProcessInfo) -> bool:
        known = any(process.key == each.info.key for each in self._survivors.living)  # also one without a tag
        return process.ours and (known or process.run_id == self._run_id)

    def _was_own(self, process: ProcessInfo) -> bool:
        """Return whether this is a process of the run that has ended, perhaps without having been reaped."""
        if self._is_own(process):
            return False
        return any(own.pid == process.pid and process.created in {None, own.created} for own in self._own)

    # -- time ------------------------------------------------------------------------------------

    @property
    def _seconds(self) -> float:
        assert self._ended_at is not None
        return self._clock() - self._ended_at

    def _is_due(self, *, for_own: bool = False) -> bool:
        """Return whether the waiting time is over.

        `for_own`: for processes of the run, which have at least the time of both signals.
        """
        return self._seconds >= (max(self._wait_s, 2 * SURVIVOR_GRACE_S) if for_own else self._wait_s)

    @property
    def _pending(self) -> list[_DeviceMemory]:
        return [memory for memory in self._devices.values() if memory.release is None]

    @property
    def _gpus(self) -> list[Device]:
        return [memory.device for memory in self._devices.values() if memory.device.kind != "cpu"]

    def _scan_processes(self) -> GpuProcessScan:
        listed = {name: memory.listed for name, memory in self._devices.items()}
        return self._access.scan(self._gpus, listed)


def _held_on_cpu(own: Sequence[ProcessInfo], *, blind: bool) -> tuple[int | None, int | None]:
    """Return bytes before and after, counting the run's processes alone: 0 before. None when no process is visible."""
    if blind:
        return None, None
    held = [each.memory_used_bytes for each in own]
    return 0, None if None in held else sum(bytes_ or 0 for bytes_ in held)
