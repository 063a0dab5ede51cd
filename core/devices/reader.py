"""The interface of a device kind's reader, and when which of its readings are due."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Protocol

from core.devices.device import Device, Sample
from core.language import tr, tr_noop

PROCESSES_S = 5.0
"""Seconds between two process lists, unless something waits for a process to release memory."""
KERNEL_LOG = tr_noop("Look into the kernel's log (dmesg) for NVRM and Xid; a reboot often helps.")
"""What to do about a driver that fails, if nothing more specific is known."""


class NoDevices(Exception):  # noqa: N818 (nothing is wrong)
    """The machine has no device of the kind."""


class DriverError(Exception):
    """The driver cannot be used. `str()` is a sentence for users: the driver's error and the remedy."""


class Tier(Enum):
    """Readings of similar cost, which are taken together."""

    LOAD = "load"
    """Utilisation and memory."""
    HEAT = "heat"
    """Temperature, power, clock, and the reasons for low clocks."""
    PROCESSES = "processes"
    """The processes that use memory: takes milliseconds per device, and the driver's lock from the training."""
    LIMITS = "limits"
    """What an administrator sets: the power limit."""
    HEALTH = "health"
    """What the driver says is wrong with the device: a dozen questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadIntervals:
    """Seconds between two readings of each tier; the fields are named after the tiers."""

    load: float = 1.0
    heat: float = 2.0
    processes: float = PROCESSES_S
    limits: float = 60.0
    health: float = 60.0

    def __post_init__(self) -> None:
        for each in fields(self):
            if not (value := getattr(self, each.name)) > 0:
                sentence = tr_noop("Devices cannot be read every {seconds} s ({name}); give more than 0.")
                raise ValueError(tr(sentence, seconds=value, name=each.name))


class ReadSchedule:
    """Decides which tiers are due. Times are those of one steady clock, in seconds."""

    def __init__(self, intervals: ReadIntervals) -> None:
        self.intervals = intervals
        """They may be changed, and count from the last readings."""
        self._last: dict[Tier, float] = {}

    def wait_s(self, now: float) -> float:
        """Return the seconds until a tier is due."""
        return max(0.0, self._due(Tier.LOAD) - now)

    def take(self, now: float) -> frozenset[Tier]:
        """Return the tiers to read now and count them as read; none before the load is due."""
        if now < self._due(Tier.LOAD):
            return frozenset()
        # The slower tiers are read together with the load, up to half its interval early.
        reach = now + self.intervals.load / 2
        tiers = frozenset(tier for tier in Tier if self._due(tier) <= reach)
        self._last.update(dict.fromkeys(tiers, now))
        return tiers

    def _due(self, tier: Tier) -> float:
        period_s: float = getattr(self.intervals, tier.value)
        return self._last.get(tier, float("-inf")) + period_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a reader."""

    only: frozenset[str] | None = None
    """Ids of the devices to list and to read; None for all."""
    retry_s: float = 10.0
    """Seconds after which a device or a driver that failed is tried again."""
    wake: frozenset[str] = frozenset()
    """Ids of devices that a run is about to use: if one of them is not awake, sleeping devices are woken up."""
    report_alive: Callable[[], None] = field(default=lambda: None, compare=False)
    """Called after each call of a driver, to distinguish a slow driver from one that hangs."""

    def wants(self, device_id: str) -> bool:
        """Return whether a device is to be listed and read."""
        return self.only is None or device_id in self.only


class Reader(Protocol):
    """Reads the wanted devices of one kind."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices in the order of their labels. A device that was listed once stays listed."""

    @property
    def banner(self) -> str | None:
        """A sentence if some of the devices cannot be listed."""

    def read(self, now: float, tiers: Collection[Tier]) -> list[Sample]:
        """Return one sample of each device, in the order of `devices`, with the time `now` (unix seconds).

        Readings of tiers that are not among `tiers` keep their last values.
        """


class LocalReader(Reader, Protocol):
    """A reader that needs no helper process."""

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """By device id, set the processes of runs on it: the device's memory is theirs and their descendants'."""
