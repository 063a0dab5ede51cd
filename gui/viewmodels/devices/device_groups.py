"""The parts of the device list: the GPUs of one model below a heading, and the CPU devices, which are folded away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from core.devices.device import Survey
from core.language import tr, tr_plural
from gui.style.formatting import DASH, memory, percent

from .device_rows import DeviceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The heading above the GPUs of one model."""

    name: str
    count: int

    @property
    def times(self) -> str:
        """How many GPUs follow; the empty string for a single one."""
        return f"{self.count} ×" if self.count > 1 else ""


def headings(rows: Sequence[DeviceRow]) -> dict[int, Heading]:
    """Return the headings by the number of the row that they are above. CPU devices have none.

    Rows stay in their order, the driver's, so a model may have several headings.
    """
    found, first = {}, 0
    for (name, is_cpu), group in groupby(rows, key=lambda row: (row.name, row.is_cpu)):
        count = len(list(group))
        if not is_cpu:
            found[first] = Heading(name=name, count=count)
        first += count
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSummary:
    """The CPU devices in one line."""

    count: int = 0
    utilisation_percent: float | None = None
    """The mean over all cores of these devices."""
    host_used_bytes: int | None = None
    host_total_bytes: int | None = None
    """The memory of the machine."""

    @property
    def devices(self) -> str:
        """`2 devices · 12 %`."""
        devices = tr_plural("{count} device", "{count} devices", self.count)
        return f"{devices} · {percent(self.utilisation_percent)}"

    @property
    def memory(self) -> str:
        """`96.0 / 512 GB`."""
        return memory(self.host_used_bytes, self.host_total_bytes)

    @property
    def host_memory(self) -> str:
        """`host memory 96.0 / 512 GB`."""
        return tr("host memory {memory}", memory=self.memory)

    @property
    def accessible_text(self) -> str:
        """The line as text for a screen reader."""
        busy = percent(self.utilisation_percent)
        return tr(
            "CPU devices: {count}, utilisation {busy}, {memory}",
            count=self.count,
            busy=tr("unknown") if busy == DASH else busy,
            memory=self.host_memory,
        )


def cpu_summary(survey: Survey, available_bytes: int | None) -> CpuSummary:
    """Return what the CPU devices do. `available_bytes`: the memory of the machine that programs can still get."""
    devices = [device for device in survey.devices if device.kind == "cpu"]
    busy = {sample.device_id: sample.utilisation_percent for sample in survey.samples}
    known = [(busy[device.id], len(device.cores)) for device in devices if busy.get(device.id) is not None]
    cores = sum(count for _, count in known)
    total = next((device.memory_total_bytes for device in devices), None)
    return CpuSummary(
        count=len(devices),
        utilisation_percent=sum((each or 0.0) * count for each, count in known) / cores if cores else None,
        host_used_bytes=None if total is None or available_bytes is None else max(total - available_bytes, 0),
        host_total_bytes=total,
    )
