"""Devices, the kinds of devices, samples (readings at a time), and ids of devices on this and other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import NamedTuple

from core.schema.codec import Sentence

SLOWDOWNS = ("hardware slowdown", "too hot", "far too hot", "power supply")
"""The reasons for low clocks that mean trouble: a GPU at its power limit does what it should."""
HEAT = ("too hot", "far too hot")
"""The reasons that are about the temperature."""
ASLEEP_PREFIX = "PCI-"
"""Prefix of the id of a GPU that sleeps and was not woken up to read its UUID; its PCI address follows."""
LABEL_SEPARATOR = " · "
"""Between the name of another machine and the label of a device there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device that training can run on."""

    id: str
    """`cpu:0`, or a GPU's full UUID; never an index, which could come to mean another GPU. That of a device of another
    machine names the machine: see `core.devices.device`."""
    kind: str
    """`cpu` or `nvidia`."""
    label: str
    """Short name for users: `CPU 0`, `GPU 0`, `node2 · GPU 0`."""
    name: str
    """The product's name."""
    memory_total_bytes: int | None = None
    pci_bus_id: str | None = None
    cores: tuple[int, ...] = ()
    """For a CPU device: its share of the machine's logical cores."""
    minor: int | None = None
    """For a GPU: the N of its `/dev/nvidiaN`, if the driver reports it."""
    shared_memory: bool = False
    """Whether host and device share one memory (Jetson, GB10), so that readings cannot be attributed."""
    compute_capability: tuple[int, int] | None = None
    """For a GPU: CUDA's major and minor number of its architecture, if the driver reports it."""
    blocked: Sentence | None = None
    """A sentence why it cannot be ticked, such as that an inherited CUDA_VISIBLE_DEVICES hides it."""

    @property
    def short_name(self) -> str:
        """Its name on the command line: `cpu:0`, `gpu:0`, `gpu:0:mig:1`, `node2/gpu:0`."""
        host, _, label = self.label.rpartition(LABEL_SEPARATOR)
        own = label.lower().replace(" ", ":")
        return f"{host}/{own}" if host else own

    @property
    def host(self) -> str:
        """The name of the machine that it is on; the empty string for this machine."""
        return self.label.rpartition(LABEL_SEPARATOR)[0]

    @property
    def own_label(self) -> str:
        """Its label without that name: `GPU 0`."""
        return self.label.rpartition(LABEL_SEPARATOR)[2]

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG part of a GPU, which has the same `pci_bus_id`."""
        return self.id.removeprefix(f"{self.host}/").startswith("MIG-")


class Process(NamedTuple):
    """A process that uses memory of a device, as listed by the device's driver."""

    pid: int
    memory_used_bytes: int | None = None
    utilisation_percent: float | None = None
    """Its share of the device's last second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A reading of one device. None means no reading."""

    device_id: str
    time: float
    """Unix seconds."""
    utilisation_percent: float | None = None
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    """The limit in force, which an administrator may have lowered."""
    sm_clock_mhz: float | None = None
    """Clock of a GPU's multiprocessors."""
    clock_reasons: tuple[str, ...] = ()
    """The reasons for clocks below their maximum, in words."""
    processes: tuple[Process, ...] | None = None
    lost: Sentence | None = None
    """A sentence if the device does not answer."""
    fault: Sentence | None = None
    """Sentences on what its driver says is wrong with it, and what helps; None if nothing is known to be."""
    asleep: bool = False
    """Whether it sleeps, and was not read because that would wake it up."""

    @property
    def slowdowns(self) -> tuple[str, ...]:
        """The reasons for low clocks that mean trouble, in words."""
        return tuple(reason for reason in self.clock_reasons if reason in SLOWDOWNS)

    @property
    def reading(self) -> tuple[object, ...]:
        """All fields except the time."""
        return _READING(self)

    def at(self, time: float) -> Sample:
        """Return this reading with another time, in unix seconds."""
        # `dataclasses.replace` takes several times as long, twice a second for each device.
        return Sample(
            device_id=self.device_id, time=time, utilisation_percent=self.utilisation_percent,
            memory_used_bytes=self.memory_used_bytes, temperature_celsius=self.temperature_celsius,
            power_watts=self.power_watts, power_limit_watts=self.power_limit_watts, sm_clock_mhz=self.sm_clock_mhz,
            clock_reasons=self.clock_reasons, processes=self.processes, lost=self.lost, fault=self.fault,
            asleep=self.asleep,
        )


_READING: Callable[[Sample], tuple[object, ...]] = attrgetter(
    *(field.name for field in fields(Sample) if field.name != "time")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The devices and their latest readings at a moment."""

    devices: tuple[Device, ...] = ()
    samples: tuple[Sample, ...] = ()
    """The latest reading of each device that has one, in the order of `devices`."""
    banner: Sentence | None = None
    """Sentences about drivers that cannot be used: their errors and the remedies."""
    arrived: Mapping[str, float] = field(default_factory=dict)
    """By device id, when its latest reading arrived, by the sampler's clock (`time.monotonic` by default)."""

    def age_s(self, device_id: str, now: float) -> float | None:
        """Return the age of a device's latest reading at `now`, by the sampler's clock; None if it has none."""
        arrived = self.arrived.get(device_id)
        return None if arrived is None else max(0.0, now - arrived)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of device."""

    name: str
    """The value of `Device.kind`."""
    title: str
    """Its name for users."""
    isolated: bool
    """Whether to read it in a helper process, because its driver can hang or crash."""
    target: str
    """The module that reads it: a string, so that importing this table loads no driver."""
    id_prefixes: tuple[str, ...]
    """Prefixes of its devices' ids. A kind without a wanted device is not read."""


KINDS: tuple[Kind, ...] = (
    Kind(
        name="nvidia", title="NVIDIA", isolated=True, target="core.devices.nvidia.reader", id_prefixes=("GPU-", "MIG-")
    ),
    Kind(name="cpu", title="CPU", isolated=False, target="core.devices.cpu", id_prefixes=("cpu:",)),
)


SEPARATOR = "/"
DEVICE_PREFIXES = tuple(prefix.lower() for kind in KINDS for prefix in (*kind.id_prefixes, "gpu:", ASLEEP_PREFIX))
"""How ids and short names of devices begin, in lower case."""


def full_name(host: str, device: str) -> str:
    """Return the name of a device of a host, from the device's own id or short name."""
    return f"{host}{SEPARATOR}{device}"


def devices_here(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of devices that are on this machine, in their order."""
    return tuple(name for name in names if split_name(name) is None)


def split_name(name: str) -> tuple[str, str] | None:
    """Return host and device of a `full_name`; None for a device of this machine.

    The ids of MIG devices of old drivers have a slash, too: `MIG-GPU-.../1/0`.
    """
    host, separator, device = name.partition(SEPARATOR)
    return (host, device) if separator and device.lower().startswith(DEVICE_PREFIXES) else None


def own_id(name: str) -> str:
    """Return the id of a device on its own machine: `cpu:0` for `node2/cpu:0`, and `cpu:0` for `cpu:0`."""
    parts = split_name(name)
    return name if parts is None else parts[1]


def device_here(host: str, device: Device) -> Device:
    """Return a device of a host with an id and a label that name the host."""
    return replace(device, id=full_name(host, device.id), label=f"{host}{LABEL_SEPARATOR}{device.label}")


def sample_here(host: str, sample: Sample, offset_s: float = 0.0) -> Sample:
    """Return a reading of a host's device under its name here. `offset_s`: how far the clock there is ahead."""
    return replace(sample, device_id=full_name(host, sample.device_id), time=sample.time - offset_s)
