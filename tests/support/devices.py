"""The list of devices as a user sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gui.features.devices.rows import DeviceLine, Line, MachineDevices
from gui.machine.device_rows import CpuSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtCore import QModelIndex, QRect

    from gui.features.devices.panel import DeviceView
    from gui.machine.device_rows import DeviceRow


def show_devices(view: DeviceView, rows: Sequence[DeviceRow]) -> None:
    """Show devices of this machine."""
    view.show_machines([MachineDevices(rows=rows, cpus=CpuSummary())])


def shown_devices(view: DeviceView, host: str = "") -> list[str]:
    """Return the ids of the devices of a machine that have a line."""
    return [line.row.id for line in view.lines if isinstance(line, DeviceLine) and line.host == host]


def device_line(view: DeviceView, device: str) -> DeviceLine:
    """Return the line of a device, by its id."""
    return next(line for line in view.lines if isinstance(line, DeviceLine) and line.row.id == device)


def line_of(view: DeviceView, kind: type[Line], host: str = "") -> Line | None:
    """Return the first line of this kind of a machine; None without it."""
    return next((line for line in view.lines if type(line) is kind and line.host == host), None)


def index_of(view: DeviceView, line: Line) -> QModelIndex:
    return view.model().index([*view.lines].index(line), 0)


def place_of(view: DeviceView, line: Line) -> QRect:
    """Return where a line is in the viewport."""
    return view.visualRect(index_of(view, line))
