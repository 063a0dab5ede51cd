"""The readings of a run's devices, recorded as they come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.devices.device import Survey
from core.devices.nvidia.preflight import TIMEOUT_S
from core.errors import RunError
from core.language import join_sentences, tr
from core.schema.event_kinds import DeviceReading
from core.schema.events import Writer
from core.schema.paths import DEVICE_EVENTS, EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from core.devices.device import Device, Sample
    from core.devices.sampler import Sampler

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
        self._recorded = True
        self.survey = Survey()
        """The latest readings of all devices, also of those that are not the run's."""

    def find(self) -> list[Device]:
        """Return the run's devices in the order of its spec. Raises `RunError` when one is missing or blocked."""
        deadline = self._clock() + TIMEOUT_S
        self.survey = survey = self._sampler.survey(TIMEOUT_S)
        by_id = {device.id: device for device in survey.devices}
        gone = [name for name in self._device_ids if name not in by_id]
        if gone and self._clock() >= deadline:  # the survey returns early once all readers have listed their devices
            raise RunError(_not_listed(gone, survey.banner))
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
        for sample in samples if self._recorded else ():
            self._writer.write(_reading(sample))
        return samples

    def stop_recording(self) -> None:
        """Record no more readings: the disk may be full, and the last events need the room."""
        self._recorded = False

    def hasten(self) -> None:
        """Read devices and their processes often from now on."""
        self._sampler.set_period(FAST_PERIOD_S, processes_s=FAST_PERIOD_S)

    def close(self) -> None:
        """Close the sampler and the file."""
        self._sampler.close()
        self._writer.close()


def _not_listed(names: Sequence[str], banner: str | None) -> str:
    what = tr("Device {names} was not listed within {timeout_s:g} s.", names=", ".join(names), timeout_s=TIMEOUT_S)
    remedy = tr("An idle driver can take this long to wake up. Start the run again.")
    return join_sentences([what, banner, remedy])


def _reading(sample: Sample) -> DeviceReading:
    return DeviceReading(
        device_id=sample.device_id, utilisation_percent=sample.utilisation_percent,
        memory_used_bytes=sample.memory_used_bytes, temperature_celsius=sample.temperature_celsius,
        power_watts=sample.power_watts, sm_clock_mhz=sample.sm_clock_mhz, slowdowns=sample.slowdowns, lost=sample.lost,
    )  # fmt: skip
