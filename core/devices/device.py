"""A device is what it is; a sample is a reading of it at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


ASLEEP_PREFIX = "PCI-"
"""How the id of a GPU begins that sleeps and was not woken up to tell its UUID: its address follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device that training can run on."""

    id: str
    """`cpu:0`, or a GPU's full UUID: never an index that could come to mean another card."""
    kind: str
    """`cpu` or `nvidia`."""
    label: str
    """What people read: `CPU 0`, `GPU 0`."""
    name: str
    """The product's name."""
    memory_total_bytes: int | None = None
    pci_bus_id: str | None = None
    cores: tuple[int, ...] = ()
    """For a CPU device: the machine's logical cores that were dealt to it."""
    minor: int | None = None
    """For a GPU: the N of its `/dev/nvidiaN`, where the driver tells it."""
    shared_memory: bool = False
    """One memory for the host and the device (Jetson, GB10): no reading says whose it is."""
    blocked: str | None = None
    """Why it cannot be ticked, in a sentence: it lies outside an inherited CUDA_VISIBLE_DEVICES, ..."""

    @property
    def short_name(self) -> str:
        """What can be typed for it: `cpu:0`, `gpu:0`, `gpu:0:mig:1`."""
        return self.label.lower().replace(" ", ":")

    @property
    def is_mig(self) -> bool:
        """Whether it is a part of a GPU, which has the same `pci_bus_id`."""
        return self.id.startswith("MIG-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that holds memory of a device, as the device's driver names it."""

    pid: int
    memory_used_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A reading of one device. None is "no reading", never zero."""

    device_id: str
    time: float
    """Unix seconds."""
    utilisation_percent: float | None = None
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    clock_reasons: tuple[str, ...] = ()
    """Why the clocks are lower than they could be, in words."""
    processes: tuple[Process, ...] | None = None
    lost: str | None = None
    """A sentence, when the device no longer answers."""
    asleep: bool = False
    """It sleeps, and was not asked, since that would wake it up."""

    @property
    def reading(self) -> tuple[object, ...]:
        """All of it but the time: two samples with the same one read the same."""
        return _READING(self)

    def at(self, time: float) -> Sample:
        """The same reading at another time, unix seconds."""
        # Written out: `dataclasses.replace` takes several times as long, twice a second for each device.
        return Sample(
            device_id=self.device_id,
            time=time,
            utilisation_percent=self.utilisation_percent,
            memory_used_bytes=self.memory_used_bytes,
            temperature_celsius=self.temperature_celsius,
            power_watts=self.power_watts,
            clock_reasons=self.clock_reasons,
            processes=self.processes,
            lost=self.lost,
            asleep=self.asleep,
        )


_READING: Callable[[Sample], tuple[object, ...]] = attrgetter(
    *(field.name for field in fields(Sample) if field.name != "time")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """All that is known of the devices at a moment."""

    devices: tuple[Device, ...] = ()
    samples: tuple[Sample, ...] = ()
    """The latest reading of each device that has one, in the order of `devices`."""
    banner: str | None = None
    """A sentence, when a driver cannot be asked at all: what it said, and the cure."""
    arrived: Mapping[str, float] = field(default_factory=dict)
    """By device id, when its latest reading came in, by `time.monotonic()`: no clock that is set changes it."""

    def age_s(self, device_id: str, now: float) -> float | None:
        """How old the latest reading of a device is at `now` (`time.monotonic()`); None when it has none."""
        arrived = self.arrived.get(device_id)
        return None if arrived is None else max(0.0, now - arrived)
