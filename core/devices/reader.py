"""What every device kind offers: a reader; and when which of its readings are due."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from core.devices.device import Device, Sample


PROCESSES_S = 5.0  # seconds between two process lists, when nobody is waiting for a process to let go
KERNEL_LOG = "Look into the kernel's log (dmesg) for NVRM and Xid; a reboot often helps."
"""What to do about a driver that fails, where nothing better is known."""


class NoDevices(Exception):  # noqa: N818 (nothing is wrong: the machine has no device of this kind)
    """This machine has nothing of the kind, and will not have it soon."""


class DriverError(Exception):
    """The driver cannot be asked. `str()` is a sentence for people: what it said, and the cure."""


class Tier(Enum):
    """Readings that are taken together, because they cost alike."""

    LOAD = "load"
    """Utilisation and memory."""
    HEAT = "heat"
    """Temperature, power, and why the clocks are low."""
    PROCESSES = "processes"
    """Who holds memory: milliseconds per device, and the driver's lock is taken from the training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadIntervals:
    """How often each tier is read, in seconds; the fields are named after the tiers."""

    load: float = 1.0
    heat: float = 2.0
    processes: float = PROCESSES_S

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:
                raise ValueError(f"Devices cannot be read every {value} s ({each.name}); give more than 0.")

    def period_s(self, tier: Tier) -> float:
        """Seconds between two readings of a tier."""
        period: float = getattr(self, tier.value)
        return period


class ReadSchedule:
    """Says which tiers are due. Times are those of any one steady clock, in seconds."""

    def __init__(self, pace: ReadIntervals) -> None:
        self._pace = pace
        self._last: dict[Tier, float] = {}

    def change(self, pace: ReadIntervals) -> None:
        """Go on at another pace, counted from the last readings."""
        self._pace = pace

    def wait_s(self, now: float) -> float:
        """Seconds until something is due."""
        return max(0.0, self._due(Tier.LOAD) - now)

    def take(self, now: float) -> frozenset[Tier]:
        """The tiers to read now, none before the load is due; they count as read."""
        if now < self._due(Tier.LOAD):
            return frozenset()
        # The slower tiers ride along with the load: half a period early rather than half a period late.
        reach = now + self._pace.load / 2
        tiers = frozenset(tier for tier in Tier if self._due(tier) <= reach)
        self._last.update(dict.fromkeys(tiers, now))
        return tiers

    def _due(self, tier: Tier) -> float:
        last = self._last.get(tier)
        return float("-inf") if last is None else last + self._pace.period_s(tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a reader is opened with."""

    only: frozenset[str] | None = None
    """Ids of the devices to list and to read; None: all."""
    retry_s: float = 10.0
    """Seconds after which a device or a driver that failed is asked again."""
    wake: frozenset[str] = frozenset()
    """Ids of devices that a run is about to use: if one is not among those that are awake, the others are woken up."""
    beat: Callable[[], None] = field(default=lambda: None, compare=False)
    """Called after each question to a driver: slow answers are told from none at all."""

    def wants(self, device_id: str) -> bool:
        """Whether a device is to be listed and read."""
        return self.only is None or device_id in self.only


class Reader(Protocol):
    """Reads all wanted devices of one kind."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices, in the order of their labels. One that was listed stays listed."""

    @property
    def banner(self) -> str | None:
        """A sentence, when a part of the devices cannot be listed."""

    def read(self, now: float, tiers: Collection[Tier]) -> list[Sample]:
        """One sample of each device, in the order of `devices`, with `now` (unix seconds) as its time.

        Readings of tiers that are not asked for are those of the last time they were.
        """


class LocalReader(Reader, Protocol):
    """A reader that is used in the process which shows or records its readings."""

    def watch(self, pids: Mapping[str, Sequence[int]]) -> None:
        """By device id, the processes of runs whose memory (with their descendants') is the device's."""
