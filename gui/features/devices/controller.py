"""Show the devices, and pass on which of them are ticked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.language import tr
from core.system.procfs import available_bytes
from gui.base.colours import device_colours
from gui.base.theme import current_theme
from gui.features.devices.panel import HostRows
from gui.machine.device_rows import DeviceRow, DeviceRows, cpu_summary

if TYPE_CHECKING:
    from gui.features.memory.controller import MemoryController
    from gui.window.layout import MainPanels
    from gui.window.services import Services


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
        self._host_rows: dict[str, DeviceRows] = {}
        self._shows_cpus = True
        panel = self._panel
        panel.ticks_changed.connect(self._pass_on_ticks)
        panel.folded.connect(self._pass_on_ticks)
        panel.processes_asked.connect(panels.details.show_processes_on)
        self._is_here = services.machine.is_here
        panel.table.cpu_fold.runs_root = services.run_list.root if self._is_here else None
        panel.resized.connect(self.resized)
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
        monitor, panel = self._monitor, self._panel
        monitor.hosts.want(panel.wanted())
        survey = monitor.survey
        before = [row.id for row in panel.rows]
        colours = device_colours(monitor.all_machines.devices, (), current_theme())
        rows = self._listed(self._rows.make(survey, colours, self._memory.on_devices()), panel.table.ticked())
        panel.table.show_rows(rows)
        if any(not row.is_cpu for row in rows):
            panel.table.cpu_fold.show_summary(cpu_summary(survey, available_bytes() if self._is_here else None))
        if monitor.hosts.states or panel.sections:
            panel.show_hosts(self._hosts(colours))
        panel.show_banner(tr(survey.banner or ""))
        if before != [row.id for row in panel.rows]:
            self._panels.setup.show_machine(monitor.all_machines.devices)
            self._pass_on_ticks()
            self.devices_changed.emit()

    def _hosts(self, colours: Mapping[str, str]) -> list[HostRows]:
        """Return the sections of the hosts."""
        from gui.features.devices.sections import host_heading
        from gui.machine.host_devices import on_host, shown_rows  # only where there are hosts

        monitor, wanted, found = self._monitor, self._panel.wanted(), []
        for state, survey in zip(monitor.hosts.states, monitor.hosts.surveys, strict=True):
            maker = self._host_rows.setdefault(state.host.name, DeviceRows())
            rows = maker.make(survey, colours, on_host(state, monitor.stale_age_s))
            listed = shown_rows(state, self._listed(rows, wanted), wanted)
            summary = cpu_summary(survey, state.uses.available_bytes)
            found.append(HostRows(heading=host_heading(state, rows), rows=listed, cpus=summary))
        return found

    def _listed(self, rows: list[DeviceRow], wanted: Collection[str]) -> list[DeviceRow]:
        """Leave out the CPU devices of a machine with GPUs if the user wants that; a choice is never hidden."""
        if self._shows_cpus or all(row.is_cpu for row in rows):
            return rows
        return [row for row in rows if not row.is_cpu or row.id in wanted]

    def _pass_on_ticks(self) -> None:
        panel, monitor = self._panel, self._monitor
        ticked = panel.ticked()
        monitor.hosts.want(panel.wanted())
        folded = {row.id for each in panel.sections.values() if each.is_folded for row in each.table.rows}
        self._panels.plots.show_ticks(ticked, folded)
        self._panels.setup.show_devices([each for each in monitor.all_machines.devices if each.id in ticked])
