"""The list of devices, and its context menu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QMenu, QTreeView

from core.devices.device import own_id
from core.language import tr
from gui.base.painting import Index
from gui.features.devices import rows
from gui.features.devices.delegate import LINE, DeviceDelegate, RowSizes
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
from gui.widgets.context_menu import add_action, open_menu
from gui.widgets.messages import announce
from gui.widgets.plain_text import named, verbatim

if TYPE_CHECKING:
    from gui.features.devices.panel import ChosenDevices
    from gui.machine.device_rows import DeviceRow
    from gui.machine.host_devices import HostHeading
    from gui.widgets.context_menu import Entry

UUIDS = ("GPU-", "MIG-")
MIN_LINES = 2
FRAME_PX = 2
"""Height of the frames above and below the lines."""


class DeviceModel(QAbstractListModel):
    """One row for each line. Says only of lines that look otherwise than before that they have changed."""

    def __init__(self, parent: QAbstractItemView) -> None:
        super().__init__(parent)
        self.lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> Sequence[int] | None:
        """Show these lines. Return the numbers of those that have changed; None if there are others than before."""
        before, self.lines = self.lines, lines
        changed = [at for at, (new, old) in enumerate(zip(lines, before, strict=False)) if new != old]
        if len(lines) != len(before) or any(rows.key(lines[at]) != rows.key(before[at]) for at in changed):
            self.beginResetModel()
            self.endResetModel()
            return None
        changed = [at for at in changed if rows.looks(lines[at]) != rows.looks(before[at])]
        for at in changed:
            self.dataChanged.emit(self.index(at), self.index(at))
        return changed

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 (Qt's name and default)
        """Return the number of lines."""
        return 0 if parent.isValid() else len(self.lines)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:  # noqa: N802 (Qt's name)
        """Return the name of the only column, which is read out and not shown."""
        is_name = orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole
        return tr("Device") if is_name else super().headerData(section, orientation, role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Let the keys pass over the headings of models."""
        line, flags = self.lines[index.row()], Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren
        if isinstance(line, DeviceLine) and line.can_be_ticked:
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        return flags if isinstance(line, ModelLine) else flags | Qt.ItemFlag.ItemIsEnabled

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return the line, or what it says."""
        line = self.lines[index.row()]
        match role:
            case Qt.ItemDataRole.UserRole:
                return line
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return rows.spoken(line)
            case Qt.ItemDataRole.AccessibleDescriptionRole:
                return rows.effect(line)
            case Qt.ItemDataRole.ToolTipRole:
                return verbatim(rows.tip(line))
            case Qt.ItemDataRole.CheckStateRole if isinstance(line, DeviceLine):
                return Qt.CheckState.Checked if line.is_ticked else Qt.CheckState.Unchecked
        return None


class DeviceView(QTreeView):
    """The devices of all machines in one list. A click in a line, or Space, does what its line says."""

    resized = Signal()
    """The lines need another height."""
    processes_asked = Signal(str)
    """The user wants to see the processes on a device; carries its id."""
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
            action = add_action(menu, title)
            action.setToolTip(verbatim(copied))
            action.triggered.connect(lambda _, copied=copied: QGuiApplication.clipboard().setText(copied))
        menu.addSeparator()
        if not row.host:  # only those of this machine are listed
            processes = add_action(menu, tr("Show its processes"))
            processes.triggered.connect(lambda: self.processes_asked.emit(row.id))
        tick_only = add_action(menu, tr("Tick only this device"))
        why_not = tr(row.lost or "") or row.why_blocked
        tick_only.setEnabled(not why_not)
        tick_only.setToolTip(verbatim(why_not or tr("Untick all other devices")))
        tick_only.triggered.connect(lambda: self._chosen.tick_only([row.id]))
        return menu
