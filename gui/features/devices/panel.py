"""The card of devices: those of this machine, and a section for each host."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from core.devices.device import split_name
from core.language import join_sentences, tr
from gui.features.devices.table import ROOMY_UP_TO, DeviceTable
from gui.machine.device_rows import CpuSummary, DeviceRow, all_together, free_devices
from gui.widgets.buttons import compact_button
from gui.widgets.plain_text import PlainLabel, verbatim

if TYPE_CHECKING:
    from gui.features.devices.sections import HostHeading, HostSection


class MachineList(QScrollArea):
    """Takes a table over from its layout, and gives it back when there is no host any more."""

    rewrapped = Signal()
    """It has another width, and may need another height."""

    def __init__(self, table: DeviceTable) -> None:
        super().__init__()
        self.setObjectName("machineList")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._table = table
        self._sections: list[HostSection] = []
        self._page = QWidget()
        self._column = QVBoxLayout(self._page)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addWidget(table)
        self._column.addStretch(1)
        self.setWidget(self._page)
        table.reached.connect(self._reveal_own)
        self.take_heights()

    def show_sections(self, sections: list[HostSection]) -> None:
        """Show these sections in this order; those that are not among them any more are deleted."""
        for gone in [each for each in self._sections if each not in sections]:
            gone.hide()
            gone.deleteLater()
        for place, section in enumerate(sections, 1):
            if section not in self._sections:
                section.reached.connect(lambda part, section=section: self._reveal(part, section))
            if self._column.indexOf(section) != place:
                self._column.insertWidget(place, section)
        self._sections = list(sections)

    def give_back(self) -> DeviceTable:
        """Return the table of this machine, which is in no layout any more."""
        self._table.reached.disconnect(self._reveal_own)
        self._column.removeWidget(self._table)
        self._table.setMinimumHeight(0)  # that of its own hint
        self.show_sections([])
        return self._table

    def take_heights(self) -> None:
        """Give each list the height of its rows."""
        self._table.setFixedHeight(self._table.sizeHint().height())
        self._page.updateGeometry()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height in which nothing has to be scrolled."""
        return QSize(self._table.sizeHint().width(), self.cuts()[-1])

    def cuts(self) -> list[int]:
        """Return the heights at which nothing is cut."""
        cuts, width = self._table.cuts(), self.viewport().width()
        for section in self._sections:
            above = cuts[-1]
            cuts += [above + each for each in section.cuts(width)]
        return cuts

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Let a wheel scroll by a row. Report another width, since it wraps the texts differently."""
        super().resizeEvent(event)
        self.verticalScrollBar().setSingleStep(self._table.verticalScrollBar().singleStep())
        if event.size().width() != event.oldSize().width():
            self.rewrapped.emit()

    def _reveal_own(self, part: QRect) -> None:
        self._reveal(part, self._table)

    def _reveal(self, part: QRect, widget: QWidget) -> None:
        """Scroll so that a part of a widget can be seen."""
        top = widget.mapTo(self._page, QPoint(0, part.top())).y()
        bar, room = self.verticalScrollBar(), self.viewport().height()
        if top < bar.value():
            bar.setValue(top)
        elif top + part.height() > bar.value() + room:
            bar.setValue(top + part.height() - room)


MAX_CHARACTERS = 240
"""Maximum characters of the banner; the tooltip has the whole text."""
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?]) +(?=[A-Z])|(?<=[。！？])")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRows:
    """What a host's section shows."""

    heading: HostHeading
    rows: Sequence[DeviceRow]
    cpus: CpuSummary


class DevicePanel(QWidget):
    """Shows the banner only while there is a problem, and sections only for hosts that the user has added."""

    resized = Signal()
    """It needs another height."""
    ticks_changed = Signal()
    processes_asked = Signal(str)
    """The user wants to see the processes on a device; carries its id."""
    retry_asked = Signal(str)
    """The user wants a host to be asked again; carries its name."""
    folded = Signal()
    """The user has folded or unfolded a host."""
    host_made = Signal(QWidget)
    """There is a new section."""
    cpus_chosen = Signal()
    """`shows_cpus` has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = DeviceTable()
        """The devices of this machine."""
        self.shows_cpus = True
        """Whether CPU devices are listed where there are GPUs, and not only those that are ticked."""
        self.sections: dict[str, HostSection] = {}
        """By the name of the host."""
        self._machines: MachineList | None = None
        """Has the table and the sections, while there are any."""
        self._awaited: dict[str, set[str]] = {}
        """By host, devices to be ticked that have no row yet."""
        self._folded: set[str] = set()
        self._whole = ""
        """The whole text of the banner."""
        self.banner = PlainLabel()
        self.banner.setObjectName("driverBanner")
        self.banner.setProperty("tone", "warn")
        self.banner.setWordWrap(True)
        self.banner.setContentsMargins(8, 0, 8, 6)
        self.banner.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.banner.hide()
        self._layout = layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banner)
        layout.addWidget(self.table)
        layout.addStretch(1)
        self.tick_bar = self._tick_bar()
        """`tick: free · all · none`, for the heading of the card."""
        self._connect(self.table)

    def _connect(self, table: DeviceTable) -> None:
        table.resized.connect(self._take_height)
        table.ticks_changed.connect(self.ticks_changed)
        table.processes_asked.connect(self.processes_asked)
        table.alone_asked.connect(lambda device: self.tick_only([device]))

    # -- ticks -------------------------------------------------------------------------------------

    @property
    def tables(self) -> list[DeviceTable]:
        """The lists of all machines."""
        return [self.table, *(each.table for each in self.sections.values())]

    @property
    def rows(self) -> list[DeviceRow]:
        """The rows of all machines."""
        return [row for table in self.tables for row in table.rows]

    def ticked(self) -> tuple[str, ...]:
        """Return the ids of the ticked devices in the order of the rows."""
        return tuple(device for table in self.tables for device in table.ticked())

    def wanted(self) -> tuple[str, ...]:
        """Return the ids of the ticked devices, and of those that are ticked as soon as their host has answered."""
        awaited = [device for devices in self._awaited.values() for device in sorted(devices)]
        return tuple(dict.fromkeys([*self.ticked(), *awaited]))

    def tick(self, ids: Collection[str]) -> None:
        """Tick these devices now, or when they appear."""
        by_host: dict[str, set[str]] = {}
        for device in ids:
            parts = split_name(device)
            by_host.setdefault(parts[0] if parts else "", set()).add(device)
        self.table.tick(by_host.pop("", ()))
        self._awaited = by_host
        for name in list(by_host):
            self._tick_awaited(name)

    def tick_only(self, ids: Collection[str]) -> None:
        """Tick these devices and no others."""
        for table in self.tables:
            table.tick_only([device for device in ids if device in {row.id for row in table.rows}])
        self.tick(ids)

    def _tick_awaited(self, name: str) -> None:
        """Tick the awaited devices of a host that have rows now."""
        section, awaited = self.sections.get(name), self._awaited.get(name, set())
        listed = {row.id for row in section.table.rows} if section is not None else set()
        if section is not None and awaited & listed:
            section.table.tick(awaited & listed)
            self._awaited[name] = awaited - listed

    # -- hosts -------------------------------------------------------------------------------------

    @property
    def folded_hosts(self) -> list[str]:
        """The names of the hosts that the user has folded, whether they are in the list now or not."""
        return sorted(self._folded)

    def fold_hosts(self, names: Collection[str]) -> None:
        """Fold these hosts now, or when they appear."""
        self._folded = set(names)
        for name, section in self.sections.items():
            section.fold(folded=name in self._folded)

    def show_hosts(self, hosts: Sequence[HostRows]) -> None:
        """Show these hosts, in this order, below this machine's devices."""
        if list(self.sections) != [each.heading.name for each in hosts]:
            self._arrange(hosts)
        gpus = sum(not row.is_cpu for row in (*self.table.rows, *(row for each in hosts for row in each.rows)))
        for host in hosts:
            name = host.heading.name
            self.sections[name].show_host(host.heading, host.rows, host.cpus)
            self._tick_awaited(name)
        for table in self.tables:
            table.show_crowded(crowded=bool(hosts) and gpus > ROOMY_UP_TO)

    def _arrange(self, hosts: Sequence[HostRows]) -> None:
        """Make the sections of new hosts, and bring all into their order."""
        before, self.sections = self.sections, {}
        for host in hosts:
            name = host.heading.name
            self.sections[name] = before.pop(name) if name in before else self._make_section(host.heading)
        if self.sections and self._machines is None:
            self._layout.removeWidget(self.table)
            self._machines = MachineList(self.table)
            self._machines.rewrapped.connect(self._take_height)
            self._layout.insertWidget(1, self._machines)
        if self._machines is not None:
            self._machines.show_sections([*self.sections.values()])
        if not self.sections and self._machines is not None:
            self._layout.insertWidget(1, self._machines.give_back())
            self._machines.deleteLater()
            self._machines = None
        if any(each.table.ticked() for each in before.values()):
            self.ticks_changed.emit()
        self._take_height()

    def _make_section(self, heading: HostHeading) -> HostSection:
        from gui.features.devices.sections import HostSection  # imported here, since many windows have no hosts

        section = HostSection(heading)
        section.fold(folded=section.name in self._folded)
        section.resized.connect(self._take_height)
        section.retry_asked.connect(self.retry_asked)
        section.folded.connect(lambda: self._note_fold(section))
        self._connect(section.table)
        self.host_made.emit(section)
        return section

    def _note_fold(self, section: HostSection) -> None:
        self._folded.discard(section.name)
        if section.is_folded:
            self._folded.add(section.name)
        self.folded.emit()

    def show_cpus(self, *, shown: bool) -> None:
        """List CPU devices where there are GPUs, or only those that are ticked."""
        if shown is not self.shows_cpus:
            self.shows_cpus = shown
            self.cpus_chosen.emit()

    # -- size --------------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of the banner and all rows."""
        rows = self.table.sizeHint()
        shown = self.table if self._machines is None else self._machines
        return QSize(rows.width(), shown.sizeHint().height() + self._banner_px())

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

    def whole_rows_px(self, room: int) -> int:
        """Return the largest height, at most `room`, in which no row is cut."""
        above = self._banner_px()
        if self._machines is None:
            return above + self.table.whole_rows_px(room - above)
        cuts = self._machines.cuts()
        return above + max((cut for cut in cuts if above + cut <= room), default=cuts[0])

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Show whole rows only."""
        super().resizeEvent(event)
        self._fit()

    def _take_height(self) -> None:
        if self._machines is not None:
            self._machines.take_heights()
        self._fit()
        self.updateGeometry()
        self.resized.emit()

    def _fit(self) -> None:
        shown = self.table if self._machines is None else self._machines
        shown.setMaximumHeight(
            self.whole_rows_px(max(self.height(), self.minimumSizeHint().height())) - self._banner_px()
        )

    def _banner_px(self) -> int:
        width = max(self.width(), self.table.sizeHint().width())
        return 0 if self.banner.isHidden() else self.banner.heightForWidth(width)

    def _tick_bar(self) -> QWidget:
        bar = QWidget()
        layout = QHBoxLayout(bar)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(_small(tr("tick:")))
        for number, (title, name, tip, chosen) in enumerate((
            (tr("free"), "tickFree", tr("Tick what nothing uses on this machine, and no others"), free_devices),
            (tr("all"), "tickAll", tr("Tick all GPUs of this machine, or its CPU devices"), all_together),
            (tr("none"), "tickNone", tr("Untick all devices"), lambda _: ()),
        )):  # fmt: skip
            if number:
                layout.addWidget(_small("·"))
            button = compact_button(name, title, tip, role="flat", spoken=tr("Tick {which}", which=title))
            button.clicked.connect(lambda _=False, chosen=chosen: self.tick_only(chosen(self.table.rows)))
            layout.addWidget(button)
        return bar


def digest(whole: str) -> str:
    """Shorten a text to whole sentences. Of repeated sentences, such as advice, keep the last; count the rest."""
    sentences = BETWEEN_SENTENCES.split(" ".join(whole.split()))
    once = [each for number, each in enumerate(sentences) if each not in sentences[number + 1 :]]
    shown = [each for number, each in enumerate(once) if not number or _length(once[: number + 1]) <= MAX_CHARACTERS]
    left = len(once) - len(shown)
    return join_sentences([*shown, *([tr("And {count} more: see the tooltip.", count=left)] if left else [])])


def _length(sentences: list[str]) -> int:
    return len(" ".join(sentences))


def _small(text: str) -> PlainLabel:
    label = PlainLabel(text)
    label.setProperty("role", "small")
    return label
