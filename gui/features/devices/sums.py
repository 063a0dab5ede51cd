"""The sums over the devices of the machine, above their plots."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QFrame, QSizePolicy

from core.language import tr, tr_plural
from core.text import BYTES_PER_GB
from gui.base.formatting import gigabytes
from gui.machine.device_rows import CpuSummary, DeviceRow
from gui.widgets.elided_label import ReadoutLabel
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import Span, named


def machine_sums(rows: Sequence[DeviceRow], cpus: CpuSummary, disk_free_bytes: int | None) -> list[str]:
    """Return what is known of the machine as a whole: `8 GPUs, 5 free`, `2.1 of 4.1 kW`, ...

    The power is that of the GPUs that report it. `disk_free_bytes`: None if unknown.
    """
    gpus = [row for row in rows if not row.is_cpu and not row.is_mig]
    devices, free = tr_plural("{count} GPU", "{count} GPUs", len(gpus)), sum(row.free for row in gpus or rows)
    if not gpus:
        devices = tr_plural("{count} CPU device", "{count} CPU devices", len(rows))
    parts = [tr("{devices}, {count} free", devices=devices, count=free)]
    if powered := [row for row in gpus if row.power]:
        watts, limit = sum(row.power_watts or 0 for row in powered), sum(row.power_limit_watts or 0 for row in powered)
        unit, size, places = ("kW", 1000, 1) if max(watts, limit) >= 1000 else ("W", 1, 0)
        used, total = (f"{each / size:.{places}f}" for each in (watts, limit))
        are_limited = all(row.power_limit_watts for row in powered)
        power = tr("{used} of {total} {unit}", used=used, total=total, unit=unit) if are_limited else f"{used} {unit}"
        of_some = tr("{power} ({count} of {all} GPUs)", power=power, count=len(powered), all=len(gpus))
        parts.append(power if len(powered) == len(gpus) else of_some)
    if warm := [row for row in gpus if row.temperature]:
        hottest = max(warm, key=lambda row: row.temperature_celsius or 0)
        parts.append(tr("hottest {label}, {temperature}", label=hottest.own_label, temperature=hottest.temperature))
    if cpus.host_used_bytes is not None and cpus.host_total_bytes is not None:
        used, total = (gigabytes(each).removesuffix(".0") for each in (cpus.host_used_bytes, cpus.host_total_bytes))
        parts.append(tr("host memory {used} of {total} GB", used=used, total=total))
    if disk_free_bytes is not None:
        terabytes = disk_free_bytes / BYTES_PER_GB / 1024
        size_words = f"{terabytes:.1f} TB" if terabytes >= 1 else f"{gigabytes(disk_free_bytes)} GB"
        parts.append(tr("disk {size} free", size=size_words))
    return parts


class MachineSums(QFrame):
    """As many of the sums as there is room for; its name for screen readers has all."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "machineSums", card=True)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._label = ReadoutLabel()
        hbox(self, (self._label, 1), margins=(12, 9, 12, 9))

    def show_sums(self, parts: Sequence[str]) -> None:
        """Show these sums."""
        whole = " · ".join(parts)
        if whole != self.accessibleName():
            self.setAccessibleName(whole)
            groups = [[Span(f"·   {part}" if number else part)] for number, part in enumerate(parts)]
            self._label.show_forms([groups[:count] for count in range(len(groups), 0, -1)])
