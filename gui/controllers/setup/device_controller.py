"""Show the devices, and pass on which of them are ticked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.language import tr_stored
from core.system.procfs import available_bytes
from gui.style.device_colours import device_colours
from gui.viewmodels.devices.device_groups import cpu_summary
from gui.viewmodels.devices.device_rows import DeviceRows

if TYPE_CHECKING:
    from gui.controllers.run.memory_controller import MemoryController
    from gui.controllers.window.dock_layout import MainPanels
    from gui.services.services import Services


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
        self._shows_cpus = True
        table = self._panel.table
        table.ticks_changed.connect(self._pass_on_ticks)
        table.processes_asked.connect(panels.details.show_processes_on)
        self._is_here = services.machine.is_here
        table.cpu_fold.runs_root = services.run_list.root if self._is_here else None
        self._panel.resized.connect(self.resized)
        services.process_scanner.changed.connect(self.show)
        services.run_list.changed.connect(self.show)
        services.queue.changed.connect(self.show)

    def show_cpus(self, *, shown: bool) -> None:
        """List CPU devices where there are GPUs, or only those that are ticked."""
        if shown is not self._shows_cpus:
            self._shows_cpus = shown
            self.show()

    def show(self) -> None:
        """Show the latest readings."""
        survey, table = self._monitor.survey, self._panel.table
        before = [row.id for row in table.rows]
        colours = device_colours(survey.devices, (), self._panels.theme)
        rows = self._rows.make(survey, colours, self._memory.on_devices())
        if not self._shows_cpus and any(not row.is_cpu for row in rows):
            ticked = table.ticked()  # a choice is never hidden
            rows = [row for row in rows if not row.is_cpu or row.id in ticked]
        table.show_rows(rows)
        if any(not row.is_cpu for row in rows):
            table.cpu_fold.show_summary(cpu_summary(survey, available_bytes() if self._is_here else None))
        self._panel.show_banner(tr_stored(survey.banner or ""))
        if before != [row.id for row in rows]:
            self._panels.setup.show_machine(survey.devices)
            self._pass_on_ticks()
            self.devices_changed.emit()

    def _pass_on_ticks(self) -> None:
        ticked = self._panel.table.ticked()
        self._panels.plots.show_ticks(ticked)
        self._panels.setup.show_devices([each for each in self._monitor.survey.devices if each.id in ticked])
