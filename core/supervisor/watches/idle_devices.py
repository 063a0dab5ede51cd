"""Find chosen GPUs that a script never used: it has one model on one of two GPUs, or its ranks chose the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr_plural
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from core.devices.device import Device, Sample

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
        """Take new readings."""
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
