"""The readings of a host's devices, in the place of a `Sampler`: they arrive through the connection."""

from __future__ import annotations

import time

from core.devices.device import Sample, Survey
from core.devices.reader import PROCESSES_S
from core.devices.sampler import ReadingsStore
from core.hosts.mirror.mirror import Mirror


class HostSampler:
    """Reads nothing itself. While the connection is cut, the latest readings stay, and grow old."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._store = ReadingsStore()
        self._surveyed: tuple[int, Survey] = -1, Survey()

    def poll(self) -> Survey:
        """Return what is known now."""
        for answer in self._mirror.fetch_readings():
            self._store.add(answer, time.monotonic())
            self._store.banner = answer.banner
        if self._surveyed[0] != self._store.version:
            self._surveyed = self._store.version, self._survey()
        return self._surveyed[1]

    def new_samples(self) -> list[Sample]:
        """Return the samples that arrived since the last call, in order of time."""
        return self._store.fetch()

    def set_period(self, period_s: float, *, processes_s: float = PROCESSES_S) -> None:
        """Do nothing: the agent reads twice a second."""

    def close(self) -> None:
        """Do nothing: the connection is closed by its owner."""

    def _survey(self) -> Survey:
        store = self._store
        return Survey(
            devices=tuple(store.devices.values()),
            samples=tuple(store.latest[each] for each in store.devices if each in store.latest),
            banner=store.banner,
            arrived=dict(store.arrived),
        )
