"""The card of devices: their list with the latest readings, what is wrong with the driver, and what is ticked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from PySide6.QtCore import QObject, QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from core.history.device_use import largest_others
from core.language import join_sentences, tr
from core.system.procfs import available_bytes
from core.text import join_names
from gui.base.colours import device_colours
from gui.base.theme import current_theme, look
from gui.features.devices.rows import MachineDevices
from gui.features.devices.view import DeviceView
from gui.machine.device_rows import DeviceRow, DeviceRows, OnDevices, all_together, cpu_summary, free_devices, obstacle
from gui.widgets.buttons import compact_button
from gui.widgets.fields import row_of
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import PlainLabel, named, verbatim
from gui.window.feature import Feature

MAX_CHARACTERS = 240
"""Maximum characters of the banner; the tooltip has the whole text."""
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?]) +(?=[A-Z])|(?<=[。！？])")


class DevicePanel(QWidget):
    """Shows the banner only while there is a problem."""

    resized = Signal()
    """It needs another height."""
    cpus_chosen = Signal()
    """`shows_cpus` has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen = ChosenDevices()
        self.table = DeviceView(self.chosen)
        self.shows_cpus = True
        """Whether CPU devices are listed where there are GPUs, and not only those that are ticked."""
        self._whole = ""
        """The whole text of the banner."""
        self.banner = named(PlainLabel(wraps=True), "driverBanner", tone="warn")
        self.banner.setContentsMargins(8, 0, 8, 6)
        self.banner.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.banner.hide()
        vbox(self, self.banner, self.table, 0)
        self.tick_bar = self._tick_bar()
        """`tick: free · all · none`, for the heading of the card."""
        self.table.resized.connect(self._take_height)

    def show_cpus(self, *, shown: bool) -> None:
        """List CPU devices where there are GPUs, or only those that are ticked."""
        if shown is not self.shows_cpus:
            self.shows_cpus = shown
            self.cpus_chosen.emit()

    def show_banner(self, sentence: str | None) -> None:
        """Show a text in the banner; None hides it."""
        whole = sentence or ""
        if whole == self._whole:
            return
        self._whole = whole
        self.banner.setText(digest(whole))
        self.banner.setToolTip(verbatim(whole))
        self.banner.setVisible(bool(whole))
        self._take_height()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of the banner and all lines."""
        lines = self.table.sizeHint()
        return QSize(lines.width(), lines.height() + self._banner_px())

    def whole_rows_px(self, room: int) -> int:
        """Return the largest height, at most `room`, in which no line is cut."""
        above = self._banner_px()
        return above + self.table.whole_lines_px(room - above)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Show whole lines only."""
        super().resizeEvent(event)
        self._fit()

    def _take_height(self) -> None:
        self._fit()
        self.updateGeometry()
        self.resized.emit()

    def _fit(self) -> None:
        room = max(self.height(), self.minimumSizeHint().height())
        self.table.setMaximumHeight(self.table.whole_lines_px(room - self._banner_px()))

    def _banner_px(self) -> int:
        width = max(self.width(), self.table.sizeHint().width())
        return 0 if self.banner.isHidden() else self.banner.heightForWidth(width)

    def _tick_bar(self) -> QWidget:
        parts: list[QWidget] = [PlainLabel(tr("tick:"), role="small")]
        for number, (title, name, tip, ids) in enumerate((
            (tr("free"), "tickFree", tr("Tick what nothing uses on this machine, and no others"), free_devices),
            (tr("all"), "tickAll", tr("Tick all GPUs of this machine, or its CPU devices"), all_together),
            (tr("none"), "tickNone", tr("Untick all devices"), lambda _: ()),
        )):
            if number:
                parts.append(PlainLabel("·", role="small"))
            button = compact_button(name, title, tip, role="flat", spoken=tr("Tick {which}", which=title))
            button.clicked.connect(lambda _=False, ids=ids: self.chosen.tick_only(ids(self.chosen.rows_of())))
            parts.append(button)
        return row_of(*parts, spacing_px=0)


def digest(whole: str) -> str:
    """Shorten a text to whole sentences. Of repeated sentences, such as advice, keep the last; count the rest."""
    sentences = BETWEEN_SENTENCES.split(" ".join(whole.split()))
    once = [each for number, each in enumerate(sentences) if each not in sentences[number + 1 :]]
    lengths = [len(" ".join(once[: number + 1])) for number in range(len(once))]
    shown = [each for number, each in enumerate(once) if not number or lengths[number] <= MAX_CHARACTERS]
    left = len(once) - len(shown)
    return join_sentences([*shown, *([tr("And {count} more: see the tooltip.", count=left)] if left else [])])


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


class ChosenDevices(QObject):
    """The ticked devices of all machines, and the parts of the list that are folded.

    A device can be ticked before it appears. If one of this machine vanishes, it is ticked again when it is back. Those
    of a host that is silent keep their rows; when a host is removed, its devices are forgotten.
    """

    changed = Signal(tuple)
    """Carries the ids of the ticked devices."""
    folded = Signal()
    """A part was folded or unfolded."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[DeviceRow] = ()
        """The devices of all machines, also those that are folded away."""
        self.ticked: tuple[str, ...] = ()
        """The ids of the ticked devices in the order of the rows."""
        self.obstacles: dict[str, str] = {}
        """By device id, why it cannot be ticked now."""
        self.folded_hosts: frozenset[str] = frozenset()
        """The names of the hosts that the user has folded, whether they are in the list now or not."""
        self.unfolded_cpus: frozenset[str] = frozenset()
        """The machines with GPUs whose CPU devices are shown; the empty string is this machine."""
        self.kept: frozenset[str] = frozenset()
        """What stays in sight in a folded part: the devices that were ticked when it was folded, or since."""
        self._awaited: set[str] = set()
        """Devices to be ticked that have no row yet."""

    @property
    def wanted(self) -> tuple[str, ...]:
        """The ids of the ticked devices, and of those that are ticked as soon as they appear."""
        return (*self.ticked, *sorted(self._awaited))

    def rows_of(self, host: str = "") -> list[DeviceRow]:
        """Return the devices of a host; without a name those of this machine."""
        return [row for row in self.rows if row.host == host]

    def show_rows(self, rows: Sequence[DeviceRow]) -> None:
        """Take the devices that there are now."""
        before, self.rows = self.rows, rows
        if len(before) == len(rows) and all(
            one is other or one.tick_inputs == other.tick_inputs for one, other in zip(before, rows, strict=True)
        ):
            return
        present = {row.id for row in rows}
        self._awaited |= {row.id for row in before if row.id in self.ticked and row.id not in present and not row.host}
        self._settle(present.intersection(self.ticked))

    def tick(self, ids: Collection[str]) -> None:
        """Tick these devices now, or when they appear."""
        self._awaited = set(ids)
        self._settle(set(self.ticked))

    def tick_only(self, ids: Collection[str]) -> None:
        """Tick these devices and no others."""
        self._awaited = set(ids)
        self._settle({each for each in self.ticked if each in ids})

    def toggle(self, device: str) -> None:
        """Untick a device, or tick it if nothing prevents that."""
        if device in self.ticked:
            self._settle({*self.ticked} - {device})
        elif device not in self.obstacles:
            self._awaited.add(device)
            self._settle({*self.ticked})

    def fold(self, hosts: Collection[str], *, unfolded_cpus: Collection[str]) -> None:
        """Fold these hosts now, or when they appear; of machines with GPUs, show the CPU devices of these."""
        self.folded_hosts, self.unfolded_cpus = frozenset(hosts), frozenset(unfolded_cpus)
        self.kept = frozenset(self.ticked)
        self.folded.emit()

    def _settle(self, ticked: set[str]) -> None:
        """Tick also the awaited devices that have a row, and report it if other devices are ticked than before."""
        for row in self.rows:
            if row.id not in self._awaited or row.id in ticked:
                continue
            # A host may answer later, and what was chosen there stays until then.
            if row.host or not obstacle(row, [each for each in self.rows if each.id in ticked]):
                ticked.add(row.id)
        self._awaited -= {row.id for row in self.rows}
        chosen = [row for row in self.rows if row.id in ticked]
        found = {row.id: obstacle(row, chosen) for row in self.rows}
        self.obstacles = {device: reason for device, reason in found.items() if reason}
        before, self.ticked = self.ticked, tuple(row.id for row in chosen)
        self.kept |= ticked
        if self.ticked != before:
            self.changed.emit(self.ticked)
