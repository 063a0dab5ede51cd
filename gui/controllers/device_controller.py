"""Show the devices, and pass on which of them are ticked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from gui.style.device_colours import device_colours
from gui.viewmodels.devices.device_rows import DeviceRows

if TYPE_CHECKING:
    from gui.services.services import Services

    from .dock_layout import MainPanels
    from .memory_controller import MemoryController


class DeviceController(QObject):
    """Fills the list of devices with the latest readings."""

    devices_changed = Signal()
    """There are other devices than before."""
    resized = Signal()
    """The list needs another height."""

    def __init__(self, panels: MainPanels, services: Services, memory: MemoryController) -> None:
        super().__init__()
        self._panels, self._panel, self._memory = panels, panels.devices, memory
        self._monitor = services.device_monitor
        self._rows = DeviceRows()
        self._panel.table.ticks_changed.connect(self._pass_on_ticks)
        services.process_scanner.changed.connect(self.show)
        services.run_list.changed.connect(self.show)

    def show(self) -> None:
        """Show the latest readings."""
        survey, table = self._monitor.survey, self._panel.table
        before, size = [row.id for row in table.rows], self._panel.sizeHint()
        colours = device_colours(survey.devices, (), self._panels.theme)
        rows = self._rows.make(survey, colours, self._memory.on_devices())
        table.show_rows(rows)
        self._panel.show_banner(survey.banner)
        if before != [row.id for row in rows]:
            self._panels.setup.show_machine(survey.devices)
            self._pass_on_ticks()
            self.devices_changed.emit()
        if self._panel.sizeHint() != size:
            self.resized.emit()

    def _pass_on_ticks(self) -> None:
        ticked = self._panel.table.ticked()
        self._panels.setup.show_devices([each for each in self._monitor.survey.devices if each.id in ticked])
