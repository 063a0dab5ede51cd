"""What is known of the devices of one kind, and the readings that nobody has fetched yet."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from core.devices.device import ASLEEP_PREFIX, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.devices.device import Device
    from core.devices.protocol import HelperAnswer

KEPT_SAMPLES = 10_000  # of those that nobody fetches: a window that only draws must not grow


class ReadingsStore:
    """Answers, one after the other, as a list of devices, their latest samples, and the new ones."""

    def __init__(self) -> None:
        self.devices: dict[str, Device] = {}
        self.latest: dict[str, Sample] = {}
        self.arrived: dict[str, float] = {}
        """By device id, when its latest sample was taken in, by `time.monotonic()`."""
        self.banner: str | None = None
        self.version = 0
        """Rises with every answer."""
        self._aliases: dict[str, str] = {}
        """By the id of a GPU that sleeps, the one that it had while it was awake."""
        self._unfetched: deque[Sample] = deque(maxlen=KEPT_SAMPLES)

    def enter(self, answer: HelperAnswer) -> None:
        """Take an answer in. A device that was listed once stays, and is lost when it is not listed now."""
        self.version += 1
        if answer.devices is not None:
            self._forget_woken(answer.devices)
            self._aliases = self._asleep_by_now(answer.devices)
            listed = {device.id: device for device in answer.devices if device.id not in self._aliases}
            there = {*listed, *self._aliases.values()}
            self._add(_gone(device) for device in self.devices.values() if device.id not in there)
            self.devices |= listed
        self._add(self._by_its_name(sample) for sample in answer.samples)
        self.banner = answer.banner

    def fetch(self) -> list[Sample]:
        """The samples that were taken in since the last call."""
        samples = list(self._unfetched)
        self._unfetched.clear()
        return samples

    def _by_its_name(self, sample: Sample) -> Sample:
        name = self._aliases.get(sample.device_id)
        return sample if name is None else replace(sample, device_id=name)

    def _forget_woken(self, devices: Iterable[Device]) -> None:
        """A GPU that slept had another id, until it could be asked for its own."""
        awake = {device.pci_bus_id for device in devices if not device.id.startswith(ASLEEP_PREFIX)}
        for device in list(self.devices.values()):
            if device.id.startswith(ASLEEP_PREFIX) and device.pci_bus_id in awake:
                del self.devices[device.id]
                self.latest.pop(device.id, None)
                self.arrived.pop(device.id, None)

    def _asleep_by_now(self, devices: Iterable[Device]) -> dict[str, str]:
        """Those that sleep and were awake before, such as when the helper that knew them had to be started anew."""
        awake = {
            device.pci_bus_id: device.id
            for device in self.devices.values()
            if device.pci_bus_id and not device.id.startswith(ASLEEP_PREFIX) and not device.is_mig
        }
        asleep = [device for device in devices if device.id.startswith(ASLEEP_PREFIX)]
        return {device.id: awake[device.pci_bus_id] for device in asleep if device.pci_bus_id in awake}

    def _add(self, samples: Iterable[Sample]) -> None:
        now = time.monotonic()
        for sample in samples:
            self.latest[sample.device_id] = sample
            self.arrived[sample.device_id] = now
            self._unfetched.append(sample)


def _gone(device: Device) -> Sample:
    return Sample(device_id=device.id, time=time.time(), lost=f"{device.label} is not listed by its driver any more.")
