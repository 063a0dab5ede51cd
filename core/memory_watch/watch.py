"""The watch over a run's memory: what its devices held before, at most and after, and whether it came back.

An object that is stepped. It reads nothing and waits for nothing itself, so that it is the same with a GPU and without.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from core.memory_watch.evidence import MemoryEvidence
from core.memory_watch.verdict import judge, waiting
from core.runs.verdicts import Release, Verdict
from core.system.escalation import SURVIVOR_GRACE_S, Processes, ProcessEscalation, TrackedProcess
from core.system.procfs import STUCK
from core.units import BYTES_PER_MB

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from core.devices.device import Device, Process, Sample
    from core.memory_watch.gpu_processes import GpuProcessScan
    from core.schema.settings import ReleaseWatch
    from core.system.process_info import ProcessInfo, TerminatedProcess
    from core.system.processes import ProcessId

LOST_PATIENCE_S = 15.0
"""A device that does not answer is asked again every ten seconds: one more answer is waited for, not the whole time."""
TELL_AFTER_S = 2.0
"""What is waited for is told after so long: mostly memory is back at once."""
HURRY_S = 3.0
"""So much longer is waited once it is to be short: the user logs out, or the machine is being shut down."""
SETTLE_S = 3.0
"""So long after a survivor's end its memory may take to come back, and to be read: whatever the settings say."""
READINGS_AFTER = 2
"""The first reading that arrives after the end may have been begun before it; the next was begun after that one."""


class ProcessAccess(Processes, Protocol):
    """What the watch knows of the machine it runs on."""

    def scan(self, devices: Sequence[Device], listed: Mapping[str, Sequence[Process] | None]) -> GpuProcessScan:
        """As `core.memory_watch.gpu_processes.scan`."""

    def cores(self, pid: int) -> frozenset[int]:
        """The logical cores that a process may run on; none when it is gone."""


@dataclass(slots=True)
class _Account:
    """One device's."""

    device: Device
    before: int | None = None
    held_before: tuple[ProcessInfo, ...] = ()
    listed_before: bool = True
    peak: int | None = None
    latest: Sample | None = None
    listed: tuple[Process, ...] | None = None
    """The latest list of who holds it that the driver gave; None before any, and again from the end on."""
    readings_after: int = 0
    release: Release | None = None

    def ends(self) -> None:
        """What held it has just ended: what counts is only read from now on."""
        self.readings_after = 0
        self.listed = None

    def take(self, sample: Sample, *, after_the_end: bool) -> None:
        self.latest = sample
        if sample.processes is not None:  # None: not this time, or never
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
        """By a reading that was made after the end, whatever the clocks say."""
        if self.latest is None or self.lost or self.readings_after < READINGS_AFTER:
            return None
        return self.latest.memory_used_bytes


class MemoryWatch:
    """Of one leg of a run: `begin`, `take` readings, `end`, and then `step` until it is `done`."""

    def __init__(
        self, run_id: str, devices: Sequence[Device], settings: ReleaseWatch, machine: ProcessAccess,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`clock`: any steady one, in seconds."""
        self._run_id, self._settings, self._machine, self._clock = run_id, settings, machine, clock
        self._accounts = {device.id: _Account(device) for device in devices}
        self._survivors = ProcessEscalation(machine)
        self._own: set[ProcessId] = set()
        self._scan: GpuProcessScan | None = None
        self._scan_is_old = True
        self._ended_at: float | None = None
        self._wait_s = settings.wait_s
        self._latest_s = max(settings.wait_s, 2 * SURVIVOR_GRACE_S) + SETTLE_S
        self._hurried = False
        self._told: tuple[object, ...] = ()
        self.signalled: Sequence[tuple[signal.Signals, list[ProcessInfo]]] = ()
        """Who was sent what by the last step."""

    def begin(self, samples: Iterable[Sample]) -> None:
        """Before the first worker is started: the readings that what comes later is compared with."""
        for sample in samples:
            self._accounts[sample.device_id].take(sample, after_the_end=False)
        found = self._look_for_holders() if self._gpus else None
        for account in self._accounts.values():
            account.before = account.latest.memory_used_bytes if account.latest else None
            account.listed_before = account.listed is not None
            if found is not None:
                here = (each for each in found.holders if each.device_id == account.device.id)
                account.held_before = tuple(each for each in here if not self._is_own(each))

    def take(self, samples: Iterable[Sample]) -> None:
        """Readings that have arrived, in order."""
        for sample in samples:
            self._accounts[sample.device_id].take(sample, after_the_end=self._ended_at is not None)
            self._scan_is_old = True

    def adopt(self, killed: Iterable[ProcessId]) -> None:
        """Take charge of processes of the run that were sent KILL, with their worker or as one that did not end."""
        for process in killed:
            self._survivors.adopt(process, self._clock())

    def end(self, workers: Iterable[ProcessId]) -> None:
        """The last worker has ended. All readings that had been made by now have been taken in."""
        if self._ended_at is None:
            self._ended_at = self._clock()
            for account in self._accounts.values():
                account.ends()
        self._own.update(workers)

    def hurry(self, wait_s: float = HURRY_S) -> None:
        """Wait no longer than this from now on, whatever the settings say; before the end: from the end on."""
        seconds = 0.0 if self._ended_at is None else self._seconds
        if seconds + wait_s < self._wait_s:
            self._wait_s, self._hurried = seconds + wait_s, True

    def step(self) -> list[Release]:
        """End what is left of the run, look at the devices, and return what has been found out since the last step."""
        ended = len(self._survivors.gone)
        self.signalled = self._survivors.step(self._clock(), hurried=self._hurried)
        self._own.update(survivor.process for survivor in self._survivors.living)
        if self._pending and self._gpus and (self._is_due() or (self._scan_is_old and self._has_news())):
            self._scan, self._scan_is_old = self._look_for_holders(), False
            self._survivors.look()  # who is missing there may just have ended
        if len(self._survivors.gone) > ended:
            self._read_again()
        found = [self._judge(account) for account in self._pending]
        return [release for release in found if release is not None]

    @property
    def done(self) -> bool:
        """Whether all has been found out, and nothing of the run is left that could still be ended."""
        return not self._pending and (not self._survivors.living or self._is_due(for_own=True))

    @property
    def survivors(self) -> list[TrackedProcess]:
        """The processes of the run that are left: they are being ended, or, once all is done, could not be."""
        return self._survivors.living

    def ended(self) -> list[TerminatedProcess]:
        """The processes that had to be ended, and have."""
        return self._survivors.ended()

    def waiting(self) -> str | None:
        """What is waited for, in a sentence, when it is another thing than at the last call."""
        if self._seconds < TELL_AFTER_S or not self._pending:
            return None
        cases = [self._case(account) for account in self._pending]
        told = tuple((case.device.id, bool(case.own), case.lost, case.after is None) for case in cases)
        if told == self._told:
            return None
        self._told = told
        return " ".join(map(waiting, cases))

    def _read_again(self) -> None:
        """A process of the run has ended just now: no reading made until now tells of its memory."""
        for account in self._pending:
            account.ends()
        self._wait_s = max(self._wait_s, min(self._seconds + SETTLE_S, self._latest_s))

    # -- one device ------------------------------------------------------------------------------

    def _judge(self, account: _Account) -> Release | None:
        case = self._case(account)
        ruling = judge(case)
        if ruling is None:
            return None
        verdict, sentence = ruling
        account.release = Release(
            device_id=account.device.id, verdict=verdict, before_bytes=case.before, peak_bytes=case.peak,
            after_bytes=case.after, seconds=case.seconds, sentence=sentence,
            holders=() if verdict is Verdict.RELEASED else (*case.own, *case.gone, *case.holders),
        )  # fmt: skip
        return account.release

    def _case(self, account: _Account) -> MemoryEvidence:
        device, scan, seconds = account.device, self._scan, self._seconds
        is_cpu = device.kind == "cpu"
        own = self._own_on_cpu(device) if is_cpu else self._own_on_gpu(device)
        gone, others = self._others(device)
        blind = self._survivors.blind or bool(scan and scan.blind)
        before, after = _held_on_cpu(own, blind=blind) if is_cpu else (account.before, account.after)
        return MemoryEvidence(
            device=device, tolerance_bytes=self._settings.tolerance_mb * BYTES_PER_MB,
            before=before, peak=account.peak, after=after, lost=account.lost, asleep=account.asleep,
            held_before=account.held_before, listed_before=account.listed_before, holders=others, own=own, gone=gone,
            sent={each.holder.key: each.signal.name for each in self._survivors.living if each.signal is not None},
            ended=tuple(f"pid {each.pid} {each.name}" for each in self._survivors.ended()),
            trouble=scan.trouble if scan else None, blind=blind,
            seconds=seconds, due=self._is_due(for_own=bool(own)),
            patient=seconds < min(self._wait_s, LOST_PATIENCE_S), hurried=self._hurried,
        )  # fmt: skip

    def _own_on_cpu(self, device: Device) -> tuple[ProcessInfo, ...]:
        """The processes of the run that are left and may run on this device's cores, or on those of several."""
        found = []
        for survivor in self._survivors.living:
            cores = self._machine.cores(survivor.process.pid)
            homes = [name for name, each in self._accounts.items() if cores <= frozenset(each.device.cores)]
            if device.id in homes or not homes:
                found.append(replace(survivor.holder, device_id=device.id))
        return tuple(found)

    def _own_on_gpu(self, device: Device) -> tuple[ProcessInfo, ...]:
        living = {holder.key: holder for holder in (each.holder for each in self._survivors.living)}
        if self._scan is None:  # it is not known yet who holds what
            return tuple(replace(holder, device_id=None, memory_used_bytes=None) for holder in living.values())
        gone = {each.holder.key for each in self._survivors.gone}
        seen = {holder.key for holder in self._scan.holders}
        # A process on its way out has let go of its files already, and of its environment with the tag.
        leaving = [each for key, each in living.items() if each.state == STUCK and key not in seen]
        here = [
            holder
            for holder in self._scan.holders
            if holder.device_id in {device.id, None} and self._is_own(holder) and holder.key not in gone
        ]
        return (*here, *(replace(holder, device_id=None, memory_used_bytes=None) for holder in leaving))

    def _others(self, device: Device) -> tuple[tuple[ProcessInfo, ...], tuple[ProcessInfo, ...]]:
        """Who else is said to hold a device: this run's that have ended, and all that are not of this run."""
        here = [each for each in (self._scan.holders if self._scan else ()) if each.device_id == device.id]
        gone = tuple(each for each in here if self._was_own(each))
        others = tuple(each for each in here if not self._is_own(each) and not self._was_own(each))
        return gone, others

    def _is_own(self, holder: ProcessInfo) -> bool:
        return holder.run_id == self._run_id and holder.ours

    def _was_own(self, holder: ProcessInfo) -> bool:
        """Whether the driver means a process of the run that has ended, or that nobody has waited for yet."""
        if self._is_own(holder):
            return False
        return any(own.pid == holder.pid and holder.created in {None, own.created} for own in self._own)

    # -- time ------------------------------------------------------------------------------------

    @property
    def _seconds(self) -> float:
        assert self._ended_at is not None
        return self._clock() - self._ended_at

    def _is_due(self, *, for_own: bool = False) -> bool:
        """Whether the time is over; what is left of the run is given that of its signals in any case."""
        return self._seconds >= (max(self._wait_s, 2 * SURVIVOR_GRACE_S) if for_own else self._wait_s)

    @property
    def _pending(self) -> list[_Account]:
        return [account for account in self._accounts.values() if account.release is None]

    @property
    def _gpus(self) -> list[Device]:
        return [account.device for account in self._accounts.values() if account.device.kind != "cpu"]

    def _has_news(self) -> bool:
        return any(account.readings_after >= READINGS_AFTER for account in self._pending)

    def _look_for_holders(self) -> GpuProcessScan:
        listed = {name: account.listed for name, account in self._accounts.items()}
        return self._machine.scan(self._gpus, listed)


def _held_on_cpu(own: Sequence[ProcessInfo], *, blind: bool) -> tuple[int | None, int | None]:
    """Bytes before and after: what the run's processes hold, and so nothing before it. None where nobody could look."""
    if blind:
        return None, None
    held = [each.memory_used_bytes for each in own]
    return 0, None if None in held else sum(bytes_ or 0 for bytes_ in held)
