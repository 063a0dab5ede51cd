"""Show the devices, and pass on which of them are ticked."""

from __future__ import annotations

from collections.abc import Mapping

from core.history.device_use import largest_others
from core.language import tr
from core.system.procfs import available_bytes
from core.text import join_names
from gui.base.colours import device_colours
from gui.base.theme import current_theme, look
from gui.features.devices.rows import MachineDevices
from gui.machine.device_rows import DeviceRow, DeviceRows, OnDevices, cpu_summary
from gui.window.feature import Feature


class DeviceController(Feature):
    """Fills the list of devices with the latest readings."""

    def set_up(self) -> None:
        panels, services = self.panels, self.services
        self._panel = panel = panels.devices
        self._scanner, self._queue = services.process_scanner, services.queue
        self._rows = DeviceRows()
        self._host_rows: dict[str, DeviceRows] = {}
        panel.chosen.changed.connect(self._pass_on_ticks)
        panel.chosen.folded.connect(self._pass_on_ticks)
        panel.table.processes_asked.connect(panels.details.show_processes_on)
        self._is_here = self._machine.is_here
        panel.cpus_chosen.connect(self.show)
        look.changed.connect(self.show)
        for source in (self._scanner, self._run_list, self._queue):
            source.changed.connect(self.show)

    def show(self) -> None:
        """Show the latest readings."""
        monitor, panel, chosen = self._monitor, self._panel, self._panel.chosen
        monitor.hosts.want(chosen.wanted)
        survey = monitor.survey
        before = [row.id for row in chosen.rows]
        colours = device_colours(monitor.all_machines.devices, (), current_theme())
        here = MachineDevices(
            rows=self._listed(self._rows.make(survey, colours, self._on_devices())),
            cpus=cpu_summary(survey, available_bytes() if self._is_here else None),
            runs_root=self._run_list.root if self._is_here else None,
        )
        panel.table.show_machines([here, *(self._hosts(colours) if monitor.hosts.states else ())])
        panel.show_banner(tr(survey.banner or ""))
        if before != [row.id for row in chosen.rows]:
            self.services.devices.set(tuple(monitor.all_machines.devices))
            self._pass_on_ticks()

    take_readings = show

    def _on_devices(self) -> OnDevices:
        """Return what is known of the devices besides their readings."""
        survey, living = self._monitor.survey, self._scanner.runs().living
        return OnDevices(
            used_by={
                device: join_names(run.name for run in on_it) for device, on_it in self._run_list.on_devices.items()
            },
            held_by=largest_others(survey, self._scanner.device_processes, living),
            kept_for=self._queue.set_aside,
            memory_of_run=self._session.memory_now(),
            stale_age_s=self._monitor.stale_age_s,
        )

    def _hosts(self, colours: Mapping[str, str]) -> list[MachineDevices]:
        """Return the devices of the hosts."""
        from gui.machine.host_devices import host_heading, on_host, shown_rows  # only where there are hosts

        monitor, wanted, found = self._monitor, self._panel.chosen.wanted, []
        for state, survey in zip(monitor.hosts.states, monitor.hosts.surveys, strict=True):
            maker = self._host_rows.setdefault(state.host.name, DeviceRows())
            rows = maker.make(survey, colours, on_host(state, monitor.stale_age_s))
            found.append(
                MachineDevices(
                    rows=shown_rows(state, self._listed(rows), wanted),
                    cpus=cpu_summary(survey, state.uses.available_bytes),
                    heading=host_heading(state, rows),
                )
            )
        return found

    def _listed(self, rows: list[DeviceRow]) -> list[DeviceRow]:
        """Leave out the CPU devices of a machine with GPUs if the user wants that; a choice is never hidden."""
        if self._panel.shows_cpus or all(row.is_cpu for row in rows):
            return rows
        return [row for row in rows if not row.is_cpu or row.id in self._panel.chosen.wanted]

    def _pass_on_ticks(self) -> None:
        chosen, monitor = self._panel.chosen, self._monitor
        monitor.hosts.want(chosen.wanted)
        folded = {row.id for row in chosen.rows if row.host in chosen.folded_hosts}
        self.panels.plots.show_ticks(chosen.ticked, folded)
        self.services.chosen.set(tuple(each for each in monitor.all_machines.devices if each.id in chosen.ticked))
