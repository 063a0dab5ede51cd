"""A row of the device list: what a device is, what it reads now, and who is on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gui.words import DASH, memory, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.devices.device import Device, Sample, Survey

NOISE = ("(R)", "(TM)", "NVIDIA ", "GeForce ", " Processor", " CPU")
"""What makers put into names and nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One device, ready to be shown."""

    id: str
    label: str
    name: str
    full_name: str
    colour: str
    """`#rrggbb`, the same as in the plots."""
    utilisation_percent: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    lost: str | None = None
    used_by: str | None = None
    clock_reasons: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """`GPU 0  RTX 4090`."""
        return f"{self.label}  {self.name}" + ("  lost" if self.lost else "")

    @property
    def utilisation(self) -> str:
        """`82 %`."""
        return percent(None if self.lost else self.utilisation_percent)

    @property
    def memory(self) -> str:
        """`9.1 / 24 GB`."""
        return memory(None if self.lost else self.memory_used_bytes, self.memory_total_bytes)

    @property
    def memory_fraction(self) -> float | None:
        """How much of it is in use; None when that is not known."""
        if self.lost or self.memory_used_bytes is None or not self.memory_total_bytes:
            return None
        return self.memory_used_bytes / self.memory_total_bytes

    @property
    def status(self) -> str:
        """`lost: ...`, `used by 18:03 digits_cnn`, or nothing."""
        if self.lost:
            return f"lost: {self.lost}"
        return f"used by {self.used_by}" if self.used_by else ""

    @property
    def warmth(self) -> str:
        """`64 °C   312 W`; what is not known is left out."""
        heat = None if self.temperature_celsius is None else f"{self.temperature_celsius:.0f} °C"
        power = None if self.power_watts is None else f"{self.power_watts:.0f} W"
        return "   ".join(part for part in (heat, power) if part)

    @property
    def tip(self) -> str:
        """All there is to say, one thing a line."""
        slowed = f"Slowed down: {', '.join(self.clock_reasons)}" if self.clock_reasons else ""
        lines = (f"{self.label}: {self.full_name}", self.id, self.warmth, self.status, slowed)
        return "\n".join(line for line in lines if line)

    @property
    def spoken(self) -> str:
        """The row for who cannot see it."""
        if self.lost:
            return f"{self.label}, {self.name}, {self.status}"
        busy = "unknown" if self.utilisation == DASH else self.utilisation
        parts = (f"{self.label}, {self.name}", f"utilisation {busy}", f"memory {self.memory}", self.warmth, self.status)
        return ", ".join(part for part in parts if part)


def device_rows(
    survey: Survey, colours: Mapping[str, str], used_by: Mapping[str, str], memory_of_run: Mapping[str, float]
) -> list[DeviceRow]:
    """The rows, in the order of the survey. `memory_of_run`: bytes by CPU device, which only the run itself knows."""
    samples = {sample.device_id: sample for sample in survey.samples}
    return [
        _row(device, samples.get(device.id), colours[device.id], used_by.get(device.id), memory_of_run.get(device.id))
        for device in survey.devices
    ]


def _row(
    device: Device, sample: Sample | None, colour: str, used_by: str | None, memory_of_run: float | None
) -> DeviceRow:
    used = sample.memory_used_bytes if sample else None
    return DeviceRow(
        id=device.id,
        label=device.label,
        name=short_name(device.name),
        full_name=device.name,
        colour=colour,
        utilisation_percent=sample.utilisation_percent if sample else None,
        memory_used_bytes=used if used is not None else memory_of_run,
        memory_total_bytes=device.memory_total_bytes,
        temperature_celsius=sample.temperature_celsius if sample else None,
        power_watts=sample.power_watts if sample else None,
        lost=sample.lost if sample else None,
        used_by=used_by,
        clock_reasons=sample.clock_reasons if sample else (),
    )


def short_name(name: str) -> str:
    """A product's name without what makers add: `RTX 4090`."""
    for noise in NOISE:
        name = name.replace(noise, " " if noise.startswith(" ") else "")
    return " ".join(name.split()).replace(" ,", ",")
