"""What a supervisor watches besides its workers: the readings and the use of devices, progress, and the disk.

The readings are recorded. Found are devices used but not ticked, or ticked but not used; slow devices; no step although
all processes live; and a full disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.devices.device import HEAT, SLOWDOWNS, Device, Sample, Survey
from core.devices.nvidia.preflight import TIMEOUT_S
from core.devices.reader import PROCESSES_S
from core.devices.sampler import Sampler
from core.errors import RunError
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.schema.event_kinds import DeviceFault, DeviceReading, Slowed, UntickedDeviceUse
from core.schema.events import Writer
from core.schema.paths import DEVICE_EVENTS, EVENTS, RESERVE
from core.system.procfs import mount_of
from core.text import first_names, join_names

FAST_PERIOD_S = 0.5
"""Seconds between two readings while the release of the devices is watched."""


class DeviceLog:
    """Takes the readings of a run's devices from a sampler, and writes them into its events."""

    def __init__(
        self, run_dir: Path, sampler: Sampler, device_ids: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock`: returns the seconds of any steady clock."""
        self._sampler, self._device_ids, self._clock = sampler, device_ids, clock
        self._writer = Writer(run_dir / EVENTS / DEVICE_EVENTS)
        self._faults: dict[str, str] = {}
        self.records = True
        """Whether readings are recorded."""
        self.survey = Survey()
        """The latest readings of all devices, also of those that are not the run's."""

    def find(self) -> list[Device]:
        """Return the run's devices in the order of its spec. Raises `RunError` when one is missing or blocked."""
        deadline = self._clock() + TIMEOUT_S
        self.survey = survey = self._sampler.survey(TIMEOUT_S)
        by_id = {device.id: device for device in survey.devices}
        gone = [name for name in self._device_ids if name not in by_id]
        if gone and self._clock() >= deadline:  # the survey returns early once all readers have listed their devices
            what = tr(
                "Device {names} was not listed within {timeout_s:g} s.", names=", ".join(gone), timeout_s=TIMEOUT_S
            )
            remedy = tr("An idle driver can take this long to wake up. Start the run again.")
            raise RunError(join_sentences([what, survey.banner, remedy]))
        if gone:
            reason = survey.banner or tr("It was there when it was chosen: check its power and its driver.")
            raise RunError(
                tr("Device {gone} is not on this machine any more. {reason}", gone=", ".join(gone), reason=reason)
            )
        blocked = [by_id[name].blocked for name in self._device_ids if by_id[name].blocked]
        if blocked:
            raise RunError(join_sentences(blocked))
        return [by_id[name] for name in self._device_ids]

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """Set by CPU device the pids whose memory counts as that of the device."""
        self._sampler.watch(pids)

    def poll(self) -> list[Sample]:
        """Return and record new readings, in order. Raises `RecordError` when they cannot be written."""
        self.survey = self._sampler.poll()
        return self.take()

    def take(self) -> list[Sample]:
        """Return and record the readings that the sampler has taken in already. Raises `RecordError`."""
        samples = [sample for sample in self._sampler.new_samples() if sample.device_id in self._device_ids]
        for each in samples if self.records else ():
            self._writer.write(
                DeviceReading(
                    device_id=each.device_id, utilisation_percent=each.utilisation_percent,
                    memory_used_bytes=each.memory_used_bytes, temperature_celsius=each.temperature_celsius,
                    power_watts=each.power_watts, sm_clock_mhz=each.sm_clock_mhz, slowdowns=each.slowdowns,
                    lost=each.lost,
                )
            )
            if each.fault and each.fault != self._faults.get(each.device_id):
                self._faults[each.device_id] = each.fault
                self._writer.write(DeviceFault(device_id=each.device_id, sentence=each.fault))
        return samples

    def hasten(self) -> None:
        """Read devices and their processes often from now on."""
        self._sampler.set_period(FAST_PERIOD_S, processes_s=FAST_PERIOD_S)

    def close(self) -> None:
        self._sampler.close()
        self._writer.close()


MIN_READINGS = 10
"""Readings of a device below which nothing is said: a short program may compute between two of them."""
USED_PERCENT = 1.0
USED_BYTES = 64 * 2**20
"""A device is used if it was busier than the one, or had more memory in use than before the run by the other."""


class IdleDeviceWatch:
    """Follows how busy each GPU of a run is, from before its first process."""

    def __init__(self, devices: Sequence[Device], before: Iterable[Sample]) -> None:
        self._devices = [device for device in devices if device.kind != "cpu" and not device.shared_memory]
        self._before = {each.device_id: each.memory_used_bytes for each in before}
        self._readings: dict[str, int] = {}
        self._used: set[str] = set()

    def take(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            if sample.utilisation_percent is None or sample.memory_used_bytes is None:
                continue
            device, before = sample.device_id, self._before.get(sample.device_id)
            self._readings[device] = self._readings.get(device, 0) + 1
            grown = before is not None and sample.memory_used_bytes - before > USED_BYTES
            if sample.utilisation_percent > USED_PERCENT and (grown or before is None):
                self._used.add(device)

    def sentence(self) -> str | None:
        """Return which GPUs were never used while others were; None if all were, or if it is not known."""
        idle = [
            device
            for device in self._devices
            if device.id not in self._used and self._readings.get(device.id, 0) >= MIN_READINGS
        ]
        if not idle or not self._used:
            return None
        return tr_plural(
            "The script did not use {idle}, which was chosen for it. It used {used}. Choose only what it uses, or "
            "launch one process per device if it is written for that.",
            "The script did not use {idle}, which were chosen for it. It used {used}. Choose only what it uses, or "
            "launch one process per device if it is written for that.",
            len(idle),
            idle=join_names([device.label for device in idle]),
            used=join_names([device.label for device in self._devices if device.id in self._used]),
        )


def find(
    ticked: Collection[str], devices: Sequence[Device], samples: Iterable[Sample], pids: Collection[int]
) -> list[UntickedDeviceUse]:
    """Return the uses of devices outside `ticked`. `pids`: all processes of the run, by its tag.

    A driver that lists no processes, or pids of another namespace (in a container), shows no use: finding none is no
    proof that there is none.
    """
    by_id = {device.id: device for device in devices}
    buses = {device.pci_bus_id for device in devices if device.id in ticked and device.is_mig}
    # The list of a GPU has the processes of all its MIG devices.
    allowed = {*ticked, *(device.id for device in devices if device.pci_bus_id in buses and not device.is_mig)}
    found = []
    for sample in samples:
        if sample.device_id in allowed or sample.device_id not in by_id or not sample.processes:
            continue
        here = tuple(sorted({process.pid for process in sample.processes} & set(pids)))
        if here:
            device = by_id[sample.device_id]
            found.append(UntickedDeviceUse(device_id=device.id, pids=here, sentence=_use(here, device)))
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


def _use(pids: Sequence[int], device: Device) -> str:
    return tr_plural(
        "Process {pids} of this run is on {label} ({name}), which was not chosen for it. "
        "Stop the run, and look for device numbers in its recipe or script.",
        "Processes {pids} of this run are on {label} ({name}), which was not chosen for it. "
        "Stop the run, and look for device numbers in its recipe or script.",
        len(pids), pids=join_names(first_names([str(pid) for pid in pids])), label=device.label, name=device.name,
    )


PATIENCE_S = 60.0
"""Minimum seconds without a step before a stall is reported."""
FIRST_PATIENCE_S = 300.0
"""As `PATIENCE_S`, before the first step: frameworks compile, and data are read for the first time."""
PAUSE_FACTOR = 10.0
"""A stall is longer than this many times the longest pause between two steps so far, such as a validation."""


class StallWatch:
    """Reports when no step has ended for too long, and when steps go on."""

    def __init__(self, device_ids: Collection[str], *, patience_s: float = PATIENCE_S) -> None:
        self._device_ids, self._patience_s = device_ids, patience_s
        self._step: int | None = None
        self._since: float | None = None
        self._longest_s = 0.0
        self._reported = False

    def poll(self, step: int | None, survey: Survey, now: float) -> str | None:
        """Return a sentence on a new stall, the empty string when steps go on after one, and None otherwise.

        `step`: the latest reported since training began; None before the first. `now`: seconds of a steady clock.
        """
        since = now if self._since is None else self._since
        if step != self._step or self._since is None:
            if self._step is not None:
                self._longest_s = max(self._longest_s, now - since)
            was_reported, self._reported = self._reported, False
            self._step, self._since = step, now
            return "" if was_reported else None
        min_s = self._patience_s if step is not None else max(self._patience_s, FIRST_PATIENCE_S)
        if self._reported or now - since < max(min_s, PAUSE_FACTOR * self._longest_s):
            return None
        self._reported = True
        return _stall(step, now - since, self._busy(survey))

    def _busy(self, survey: Survey) -> str:
        """Return `GPU 0: 100 %, GPU 1: 0 %` for the run's devices that have readings."""
        percent = {sample.device_id: sample.utilisation_percent for sample in survey.samples}
        labels = {device.id: device.label for device in survey.devices}
        known = [each for each in self._device_ids if percent.get(each) is not None and each in labels]
        return ", ".join(f"{labels[each]}: {percent[each]:.0f} %" for each in known)


def _stall(step: int | None, still_s: float, busy: str) -> str:
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - still_s))
    which = tr_noop("since training began at {since}") if step is None else tr_noop("since step {step} at {since}")
    return tr(
        "No step has been reported {which}, but all processes are running{devices}. A process may be waiting for data "
        "or for another process; a long validation looks the same. If training does not continue, “Why does it hang?” "
        "(trainyard doctor) names the worker that holds the others up.",
        which=tr(which, step=step, since=since), devices=f" ({busy})" if busy else "",
    )


LASTS_S = 5.0
"""Seconds that a slowdown lasts before it is reported: three readings."""
QUIET_S = 15.0
"""Seconds without a slowdown after which an episode is over: a GPU at its limit goes to and fro."""
POWER = "power supply"


@dataclass(slots=True)
class _Episode:
    """A time in which a device is slowed down, with short breaks."""

    began: float
    last: float
    reported: bool = False


class SlowdownWatch:
    """Follows devices, or all. `waits`: whether each of several waits for the slowest. `reasons`: those that count."""

    def __init__(self, device_ids: Collection[str] | None, *, waits: bool = False, lasts_s: float = LASTS_S,
                 reasons: Collection[str] = SLOWDOWNS) -> None:
        self._device_ids, self._waits = device_ids, waits and len(device_ids or ()) > 1
        self._lasts_s, self._reasons = lasts_s, frozenset(reasons)
        self._episodes: dict[str, _Episode] = {}

    def poll(self, survey: Survey, now: float) -> list[Slowed]:
        """Return the episodes that began or ended. `now`: seconds of any steady clock."""
        devices = {device.id: device for device in survey.devices}
        found = (
            self._follow(devices[sample.device_id], sample, now)
            for sample in survey.samples
            if sample.device_id in devices and (self._device_ids is None or sample.device_id in self._device_ids)
        )
        return [each for each in found if each is not None]

    def _follow(self, device: Device, sample: Sample, now: float) -> Slowed | None:
        if sample.lost:
            return None  # it is not known whether the slowdown goes on
        episode = self._episodes.get(device.id)
        if not self._reasons.isdisjoint(sample.slowdowns):
            if episode is None:
                episode = self._episodes[device.id] = _Episode(now, now)
            episode.last = now
            if episode.reported or now - episode.began < self._lasts_s:
                return None
            episode.reported = True
            return Slowed(device_id=device.id, sentence=self._sentence(device, sample))
        if episode is None or (episode.reported and now - episode.last < QUIET_S):
            return None
        del self._episodes[device.id]
        if not episode.reported:
            return None
        return Slowed(device_id=device.id, sentence="", seconds=round(episode.last - episode.began, 1))

    def _sentence(self, device: Device, sample: Sample) -> str:
        what, remedy = _what_and_remedy(device.label, sample)
        return join_sentences([what, tr("It holds the others up.") if self._waits else None, remedy])


def _what_and_remedy(label: str, sample: Sample) -> tuple[str, str]:
    celsius = sample.temperature_celsius
    if not set(HEAT).isdisjoint(sample.slowdowns):
        hot = tr("{device} is slowed down: it is too hot.", device=label)
        if celsius is not None:
            hot = tr("{device} is slowed down: {celsius:.0f} °C.", device=label, celsius=celsius)
        return hot, tr("Check its cooling.")
    if POWER in sample.slowdowns:
        return tr("{device} is slowed down by its power supply.", device=label), tr("Check its power cables.")
    return tr("{device} is slowed down by its hardware.", device=label), tr("Check its cooling and its power cables.")


class DiskWatch:
    """Remembers when the disk of a run directory was first seen full."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._reserve = run_dir, run_dir / EVENTS / RESERVE
        self._sentence = ""

    def poll(self) -> str:
        """Return in a sentence which disk was full when; the empty string if it was not."""
        if not self._sentence and self._is_full():
            mount = mount_of(self._run_dir)
            disk = tr("The disk of {run_dir}", run_dir=self._run_dir)
            if mount is not None:
                disk = tr("The disk at {point} ({kind})", point=mount.point, kind=mount.kind)
            self._sentence = tr("{disk} was full at {time}.", disk=disk, time=time.strftime("%H:%M:%S"))
        return self._sentence

    def _is_full(self) -> bool:
        """Return whether there is no room, or a process of the run had to use its reserve since there was none."""
        try:
            found = os.statvfs(self._run_dir)
        except OSError:
            return False
        free = found.f_bfree if os.geteuid() == 0 else found.f_bavail  # some blocks are kept for root
        return (free == 0 and found.f_blocks > 0) or not self._reserve.exists()
