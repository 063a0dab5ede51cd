"""The card of devices: their list with the latest readings, what is wrong with the driver, and what is ticked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QMenu, QSizePolicy, QTreeView, QWidget

from core.devices.device import own_id
from core.history.device_use import largest_others
from core.language import tr
from core.series import recent
from core.system.procfs import available_bytes
from core.text import join_names
from gui.base.colours import device_colours
from gui.base.jobs import Jobs, keep_as_it_is
from gui.base.painting import Index
from gui.base.theme import current_theme, look
from gui.features.devices import rows
from gui.features.devices.chosen import ChosenDevices
from gui.features.devices.delegate import LINE, DeviceDelegate, DeviceModel, RowSizes
from gui.features.devices.rows import (
    CpuLine,
    DeviceLine,
    HostLine,
    Line,
    MachineDevices,
    ModelLine,
    NoteLine,
    RetryLine,
)
from gui.features.devices.sums import machine_sums
from gui.machine.device_rows import DeviceRow, DeviceRows, OnDevices, all_together, cpu_summary, free_devices
from gui.widgets.buttons import compact_button
from gui.widgets.context_menu import add_action, open_menu
from gui.widgets.fields import row_of
from gui.widgets.layouts import vbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, named, verbatim
from gui.window.feature import Feature

if TYPE_CHECKING:
    from gui.machine.host_devices import HostHeading
    from gui.widgets.context_menu import Entry

UUIDS = ("GPU-", "MIG-")
MIN_LINES = 2
FRAME_PX = 2
"""Height of the frames above and below the lines."""


class DeviceView(QTreeView):
    """The devices of all machines in one list. A click in a line, or Space, does what its line says."""

    resized = Signal()
    """The lines need another height."""
    processes_asked = Signal(str)
    """The user wants to see the processes on a device; carries its id."""
    health_asked = Signal(str)
    """The user wants to see the health of a GPU; carries its id."""
    retry_asked = Signal(str)
    """The user wants a host to be asked again; carries its name."""

    def __init__(self, chosen: ChosenDevices) -> None:
        super().__init__()
        named(self, "deviceTable", tr("Devices"))
        self.host_entries: Callable[[HostHeading], Sequence[Entry]] = lambda _: ()
        """Returns the entries of the menu of a host."""
        self._chosen = chosen
        self._machines: Sequence[MachineDevices] = ()
        self._lines = DeviceModel(self)
        self._delegate = DeviceDelegate(self)
        self._ends = [self._delegate.sizes.device(is_dense=False)]
        """The heights at which no line is cut, from the top of the list: none ends below the heading of a model."""
        self.setModel(self._lines)
        self.setItemDelegate(self._delegate)
        self.setHeaderHidden(True)
        self.setRootIsDecorated(False)
        self.setIndentation(0)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_Hover)
        # The delegate shows the focus and the line under the mouse.
        self.setStyleSheet(
            "QTreeView:focus { border-color: transparent; } QTreeView::item:hover { background: transparent; }"
        )
        self._pressed: object = None
        """The key of the line on which the mouse was pressed: meanwhile there may be other lines."""
        chosen.changed.connect(self._show_ticks)
        chosen.folded.connect(self._show_lines)

    @property
    def lines(self) -> Sequence[Line]:
        """The lines that are shown."""
        return self._lines.lines

    def show_machines(self, machines: Sequence[MachineDevices]) -> None:
        """Show these devices, and have a change of a host's state read out."""
        if machines == self._machines:
            return
        before = {each.heading.name: each.heading.state for each in self._machines if each.heading is not None}
        self._chosen.show_rows([row for each in machines for row in each.rows])
        self._machines = machines
        self._show_lines()
        for heading in (each.heading for each in machines):
            if heading is not None and before.get(heading.name, heading.state) != heading.state:
                announce(self, heading.accessible_text)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all lines."""
        return QSize(300, self._ends[-1])

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of some lines; the list scrolls to the others."""
        return QSize(240, self._ends[:MIN_LINES][-1])

    def whole_lines_px(self, room: int) -> int:
        """Return the largest height, at most `room`, in which no line is cut; that of the first device at least."""
        return max((end for end in self._ends if end <= room), default=self._ends[0])

    # -- contents ----------------------------------------------------------------------------------

    def _show_lines(self) -> None:
        """Show the present lines. What is in sight stays there, and the current line stays current."""
        current, row = self.currentIndex().data(LINE), self.currentIndex().row()
        scrolled, before = self.verticalScrollBar().value(), self.lines
        changed = self._lines.show(rows.lines(self._machines, self._chosen))
        if changed is None or any(rows.widths(self.lines[at]) != rows.widths(before[at]) for at in changed):
            self._fit_columns()
        if changed is None or any(isinstance(self.lines[at], NoteLine) for at in changed):
            self._lay_out()
        if changed is None:
            if current is not None:
                at = self._index_of(current)
                self.setCurrentIndex(at if at.isValid() else self._lines.index(min(row, len(self.lines) - 1)))
            self.verticalScrollBar().setValue(scrolled)

    def _show_ticks(self) -> None:
        """Show which devices are ticked, and scroll to a device that was folded away."""
        before = {rows.key(line) for line in self.lines}
        self._show_lines()
        new = [line for line in self.lines if rows.key(line) not in before]
        if new:
            self.scrollTo(self._index_of(new[-1]))

    def _index_of(self, line: Line) -> QModelIndex:
        """Return where a line is now; an invalid index if it is not there any more."""
        return self._lines.index(
            next((at for at, each in enumerate(self.lines) if rows.key(each) == rows.key(line)), -1)
        )

    def _lay_out(self) -> None:
        """Give the lines their heights, which depend on the font, and for wrapped lines on the width."""
        self.doItemsLayout()
        ends, end, device_px = [], 2 * FRAME_PX, self._delegate.sizes.device(is_dense=False)
        for line in self.lines:
            height = self._delegate.height(line)
            end += height
            if not isinstance(line, ModelLine):
                ends.append(end)
            if isinstance(line, DeviceLine):
                device_px = height
        self.verticalScrollBar().setSingleStep(device_px)
        if ends and ends != self._ends:
            self._ends = ends
            self.updateGeometry()
            self.resized.emit()

    def _fit_columns(self) -> None:
        devices = [line.row for line in self.lines if isinstance(line, DeviceLine)]
        if self._delegate.fit(devices, self.viewport().width()):
            self.viewport().update()

    def _act(self, index: Index) -> None:
        """Do what a line is for."""
        chosen, line = self._chosen, index.data(LINE)
        match line:
            case DeviceLine():
                chosen.toggle(line.row.id)
            case RetryLine(is_enabled=True):
                self.retry_asked.emit(line.host)
            case HostLine():
                chosen.fold(chosen.folded_hosts ^ {line.host}, unfolded_cpus=chosen.unfolded_cpus)
                self._reveal(line)
            case CpuLine():
                chosen.fold(chosen.folded_hosts, unfolded_cpus=chosen.unfolded_cpus ^ {line.host})
                self._reveal(line)

    def _reveal(self, line: Line) -> None:
        """Scroll to what belongs to a line, as far as the line itself stays in sight."""
        last = [each for each in self.lines if each.host == line.host][-1]
        self.scrollTo(self._index_of(last))
        self.scrollTo(self._index_of(line))

    # -- events ------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """Note the line."""
        super().mousePressEvent(event)
        line = self.indexAt(event.position().toPoint()).data(LINE)
        is_left = event.button() is Qt.MouseButton.LeftButton
        self._pressed = rows.key(line) if line is not None and is_left else None

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """Do what the line is for on which the mouse was pressed."""
        super().mouseReleaseEvent(event)
        at, pressed = self.indexAt(event.position().toPoint()), self._pressed
        self._pressed = None
        line = at.data(LINE)
        if line is not None and pressed is not None and rows.key(line) == pressed:
            self._act(at)

    def scrollTo(  # noqa: N802 (Qt's name)
        self, index: Index, hint: QAbstractItemView.ScrollHint = QAbstractItemView.ScrollHint.EnsureVisible
    ) -> None:
        """Scroll to a line, and to the heading of a model above it."""
        above = self.indexAbove(index)
        if isinstance(above.data(LINE), ModelLine):
            super().scrollTo(above, hint)
        super().scrollTo(index, hint)

    def moveCursor(  # noqa: N802 (Qt's name)
        self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier
    ) -> QModelIndex:
        """Go past the heading of a model, also to the first device."""
        index = super().moveCursor(action, modifiers)
        is_heading = isinstance(index.data(LINE), ModelLine)
        return self._lines.index(index.row() + 1) if is_heading else index

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Do for Space what a click does."""
        if event.key() in {Qt.Key.Key_Space, Qt.Key.Key_Select}:
            self._act(self.currentIndex())
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Wrap texts and fit columns to another width."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit_columns()
            self._lay_out()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the font."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._delegate.sizes = RowSizes(self.font())
            self._fit_columns()
            self._lay_out()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the menu of the line under the mouse, or of the current one for the key."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        at = self.viewport().mapToGlobal(self.visualRect(index).center()) if by_key else event.globalPos()
        match index.data(LINE):
            case DeviceLine(row=row):
                self._device_menu(row).popup(at)
            case HostLine(heading=heading):
                open_menu(self, "hostMenu", self.host_entries(heading), at)

    def _device_menu(self, row: DeviceRow) -> QMenu:
        menu = named(QMenu(self), "deviceMenu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        copy_id = tr("Copy UUID") if own_id(row.id).startswith(UUIDS) else tr("Copy id")
        for title, copied in ((copy_id, row.id), (tr("Copy name"), row.full_name)):
            add_action(menu, title, partial(QGuiApplication.clipboard().setText, copied), tip=copied)
        menu.addSeparator()
        if not row.host:  # only those of this machine are listed
            add_action(menu, tr("Show its processes"), lambda: self.processes_asked.emit(row.id))
            if not row.is_cpu and not row.is_mig and not row.asleep:  # which asking would wake up
                add_action(menu, tr("Health…"), lambda: self.health_asked.emit(row.id))
        why_not = tr(row.lost or "") or row.why_blocked
        tick, tip = partial(self._chosen.tick_only, [row.id]), why_not or tr("Untick all other devices")
        add_action(menu, tr("Tick only this device"), tick, tip).setEnabled(not why_not)
        return menu


DISK_S, SAVED_S = 20.0, 300.0
"""Seconds between two looks at the free room of the disk, and after which the readings are kept for the next window."""


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
        self.banner.show_text(rows.digest(whole))
        self.banner.setToolTip(verbatim(whole))
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


class DeviceController(Feature):
    """Fills the list of devices with the latest readings."""

    def set_up(self) -> None:
        panels, services = self.panels, self.services
        self._panel = panel = panels.devices
        self._scanner, self._queue = services.process_scanner, services.queue
        self._rows = DeviceRows()
        self._host_rows: dict[str, DeviceRows] = {}
        self._disk, self._files = Jobs(self, "disk"), Jobs(self, "readings")
        self._disk_asked, self._saved_at = -inf, 0.0
        self._past = recent.path_of(self._machine.host)
        self._disk_free_bytes: int | None = None
        panel.chosen.changed.connect(self._pass_on_ticks)
        panel.chosen.folded.connect(self._pass_on_ticks)
        panel.table.processes_asked.connect(panels.details.show_processes_on)
        panel.table.health_asked.connect(self._show_health)
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
        every = self._rows.make(survey, colours, self._on_devices())
        cpus = cpu_summary(survey, available_bytes() if self._is_here else None)
        here = MachineDevices(
            rows=self._listed(every), cpus=cpus,
            runs_root=self._run_list.root if self._is_here else None,
        )
        panel.table.show_machines([here, *(self._hosts(colours) if monitor.hosts.states else ())])
        panel.show_banner(tr(survey.banner or ""))
        if self.panels.plots.shows_machine:
            self.panels.sums.show_sums(machine_sums(every, cpus, self._disk_free_bytes))
        if before != [row.id for row in chosen.rows]:
            self.services.devices.set(tuple(monitor.all_machines.devices))
            self._pass_on_ticks()

    take_readings = show

    def opened(self) -> None:
        """Read what earlier windows have read of the devices."""
        path, take, self._saved_at = self._past, self._monitor.take_past, time.monotonic()
        if not self._monitor.has_past:
            self._files.start(lambda: recent.load(path), take, lambda _: take(None))

    def end(self) -> None:
        """Keep what was read of the devices for the next window; without room for it, it is lost."""
        if self._monitor.has_past:
            with contextlib.suppress(OSError):
                recent.save(self._past, recent.pack(self._monitor.series))

    def poll(self) -> None:
        """Keep the readings now and then, and have it found out how much room there is for runs.

        That is done on threads: a disk of another machine may not answer.
        """
        if self._monitor.has_past and time.monotonic() - self._saved_at > SAVED_S:
            self._saved_at, path, packed = time.monotonic(), self._past, recent.pack(self._monitor.series)
            self._files.start(lambda: recent.save(path, packed), keep_as_it_is, keep_as_it_is)
        if self._is_here and time.monotonic() - self._disk_asked > DISK_S:
            root = self._run_list.root
            self._disk_asked = time.monotonic()
            self._disk.start(lambda: rows.free_bytes(root), self._take_disk, keep_as_it_is)

    def _take_disk(self, free_bytes: int | None) -> None:
        self._disk_free_bytes = free_bytes

    def _show_health(self, device_id: str) -> None:
        from gui.features.devices.health import HealthDialog  # with it much that the window does not need

        for device in (each for each in self._monitor.survey.devices if each.id == device_id):  # it may be gone
            HealthDialog(self.panels.window, device, tr(self._session.facts.faults.get(device_id, ""))).show()

    def _on_devices(self) -> OnDevices:
        """Return what is known of the devices besides their readings."""
        survey, living = self._monitor.survey, self._scanner.runs().living
        listed, claimed = self._run_list.on_devices, self._queue.view.claimed
        return OnDevices(
            used_by={
                device: join_names([*(run.name for run in listed.get(device, ())), *claimed.get(device, {}).values()])
                for device in {**listed, **claimed}
            },
            held_by=largest_others(survey, self._scanner.device_processes, living),
            kept_for=self._queue.view.set_aside,
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
        self.panels.plots.leave_out(folded - {*chosen.ticked})
        self.services.chosen.set(tuple(each for each in monitor.all_machines.devices if each.id in chosen.ticked))
