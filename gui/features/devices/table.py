"""The list of devices of one machine, and its context menu."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QFocusEvent, QGuiApplication, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableWidget, QTableWidgetItem, QWidget

from core.devices.device import own_id
from core.language import tr, tr_noop
from gui.base.painting import Index
from gui.features.devices.cpu_fold import CpuFold
from gui.features.devices.delegate import FOOT, HEADING, OBSTACLE, ROW, DeviceDelegate, RowSizes
from gui.machine.device_rows import DeviceRow, headings, obstacles
from gui.widgets.context_menu import add_action
from gui.widgets.plain_text import verbatim

UUIDS = ("GPU-", "MIG-")


class DeviceMenu(QMenu):
    """The menu of one device at a time; the signals carry its id."""

    processes_asked = Signal(str)
    alone_asked = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("deviceMenu")
        self.setToolTipsVisible(True)
        self._id = self._name = ""
        self.copy_id = add_action(self, tr("Copy UUID"))
        self.copy_id.triggered.connect(lambda: QGuiApplication.clipboard().setText(self._id))
        self.copy_name = add_action(self, tr("Copy name"))
        self.copy_name.triggered.connect(lambda: QGuiApplication.clipboard().setText(self._name))
        self.addSeparator()
        self.processes = add_action(self, tr("Show its processes"))
        self.processes.triggered.connect(lambda: self.processes_asked.emit(self._id))
        self.tick_only = add_action(self, tr("Tick only this device"))
        self.tick_only.triggered.connect(lambda: self.alone_asked.emit(self._id))

    def show_device(self, row: DeviceRow) -> None:
        """Set the device that the menu is about."""
        self._id, self._name = row.id, row.full_name
        self.copy_id.setText(tr("Copy UUID") if own_id(row.id).startswith(UUIDS) else tr("Copy id"))
        self.copy_id.setToolTip(verbatim(row.id))
        self.copy_name.setToolTip(verbatim(row.full_name))
        self.processes.setVisible(not row.host)  # only those of this machine are listed
        why_not = tr(row.lost or "") or row.why_blocked
        self.tick_only.setEnabled(not why_not)
        self.tick_only.setToolTip(verbatim(why_not or tr("Untick all other devices")))


COLUMNS = (tr_noop("Device"), tr_noop("Utilisation"), tr_noop("Memory"), tr_noop("Status"))
ROOMY_UP_TO = 4
"""Up to this many GPUs get three lines each; more get two."""
MIN_ROWS = 2
FRAME_PX = 2
"""Height of the frames above and below the rows."""


class DeviceTable(QTableWidget):
    """One row per device of one machine. The delegate paints everything in the first column, which has the tick.

    The other columns are hidden; they hold the readings as text. The heading of a model is painted above its first
    GPU, in the same row. Where there are GPUs, the rows of CPU devices are hidden until they are unfolded or ticked.
    """

    ticks_changed = Signal()
    processes_asked = Signal(str)
    """The user wants to see the processes on a device; carries its id."""
    alone_asked = Signal(str)
    """The user wants this device ticked, and no other."""
    resized = Signal()
    """The rows need another height."""
    reached = Signal(QRect)
    """The keys have led to this part of the list, which should be seen."""

    def __init__(self, host: str = "") -> None:
        """`host`: the machine; the empty string for this machine."""
        super().__init__(0, len(COLUMNS))
        self.setObjectName(f"deviceTable-{host}" if host else "deviceTable")
        self.setAccessibleName(tr("Devices of {host}", host=host) if host else tr("Devices"))
        self.setHorizontalHeaderLabels([tr(each) for each in COLUMNS])
        self._rows: list[DeviceRow] = []
        self._ticked: tuple[str, ...] = ()
        self._pending_ticks: set[str] = set()
        self._obstacles: dict[str, str] = {}
        """By device id, why it cannot be ticked now."""
        self._obstacles_for: set[str] = set()
        """The ids that were ticked when `_obstacles` was computed."""
        self._foot_row = -1
        """The last GPU's row if CPU devices follow, whose line is then below it; else -1."""
        self._unfolded = False
        """Whether all CPU devices are shown although there are GPUs."""
        self._only_ticked = False
        self._is_crowded = False
        self._menu: DeviceMenu | None = None
        self._delegate = DeviceDelegate(self)
        self.setItemDelegateForColumn(0, self._delegate)
        self._shape()
        self.cpu_fold = CpuFold(self.viewport(), host)
        self.cpu_fold.hide()
        self.cpu_fold.clicked.connect(self._fold)
        self.cpu_fold.focused.connect(self._scroll_to_fold)
        self.itemChanged.connect(lambda _: self._update_ticks())

    @property
    def rows(self) -> Sequence[DeviceRow]:
        """The shown rows."""
        return self._rows

    def ticked(self) -> tuple[str, ...]:
        """Return the ids of the ticked devices in the order of the rows."""
        return self._ticked

    @property
    def has_shown_rows(self) -> bool:
        """Whether any row is shown."""
        return any(not self.isRowHidden(number) for number in range(self.rowCount()))

    @property
    def cpus_unfolded(self) -> bool:
        """Whether the CPU devices are shown although there are GPUs."""
        return self._unfolded

    def unfold_cpus(self) -> None:
        """Show the CPU devices although there are GPUs."""
        self._unfolded = True
        self._arrange(self._rows)

    def show_only_ticked(self, *, only: bool) -> None:
        """Hide the devices that are not ticked, or show them again."""
        if only is not self._only_ticked:
            self._only_ticked = only
            self._arrange(self._rows)

    def show_crowded(self, *, crowded: bool) -> None:
        """Draw low rows whatever their number is, since other lists are below; or as high as their number allows."""
        if crowded is not self._is_crowded:
            self._is_crowded = crowded
            self._arrange(self._rows)

    def tick(self, ids: Collection[str]) -> None:
        """Tick these devices now, or when they appear."""
        self._pending_ticks = set(ids)
        self._apply_pending_ticks()

    def tick_only(self, ids: Collection[str]) -> None:
        """Tick these devices and no others."""
        self.blockSignals(True)
        for item in self._first_cells():
            if item.data(Qt.ItemDataRole.UserRole) not in ids and _is_ticked(item):
                item.setCheckState(Qt.CheckState.Unchecked)
        self._show_obstacles()
        self.blockSignals(False)
        self.tick(ids)

    def show_rows(self, rows: Sequence[DeviceRow]) -> None:
        """Show these devices and keep the ticks."""
        before, count = self._rows, len(rows)
        changed = [at for at, row in enumerate(rows) if at >= len(before) or not _same(row, before[at])]
        if not changed and count == len(before):
            return
        affects_ticks = count != len(before) or any(rows[at].tick_inputs != before[at].tick_inputs for at in changed)
        if count != len(before) or any(rows[at].id != before[at].id for at in changed):
            self._make_rows(rows)
            changed = list(range(count))
        self.blockSignals(True)
        for at in changed:
            self._fill(at, rows[at])
        self.blockSignals(False)
        self._rows = list(rows)  # Qt repaints only the filled rows
        if count != len(before) or any(rows[at].widths != before[at].widths for at in changed):
            self._fit_columns()
        if affects_ticks:  # otherwise only readings have changed, which do not affect ticks
            self._show_obstacles()
            self._apply_pending_ticks()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all rows."""
        return QSize(300, max(self.ends()) + 2 * FRAME_PX)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of some rows; the table scrolls to the others."""
        ends = self.ends()
        return QSize(240, ends[min(MIN_ROWS, len(ends)) - 1] + 2 * FRAME_PX)

    def whole_rows_px(self, room: int) -> int:
        """Return the largest height, at most `room`, in which no row is cut; that of the first row at least."""
        ends = self.ends()
        fitting = [end for end in ends if end + 2 * FRAME_PX <= room]
        return (fitting[-1] if fitting else ends[0]) + 2 * FRAME_PX

    def ends(self) -> list[int]:
        """Return where each shown row ends, and the line of the CPU devices, from the top of the first row."""
        ends, end = [], 0
        for number in range(self.rowCount()):
            if not self.isRowHidden(number):
                end += self.rowHeight(number)
                if number == self._foot_row:
                    ends.append(end - self._delegate.sizes.heading)
                ends.append(end)
        return ends or [self._delegate.height(heading=False, foot=False)]

    def cuts(self) -> list[int]:
        """Return the heights at which this list cuts no row, with its frame: where each ends, and its whole height."""
        return [*(end + FRAME_PX for end in self.ends()[:-1]), self.sizeHint().height()]

    def _make_rows(self, rows: Sequence[DeviceRow]) -> None:
        ticked = set(self._ticked)
        self._pending_ticks |= ticked
        self.blockSignals(True)
        self.setRowCount(len(rows))
        for number, row in enumerate(rows):
            first = QTableWidgetItem()
            first.setData(Qt.ItemDataRole.UserRole, row.id)
            first.setCheckState(Qt.CheckState.Checked if row.id in ticked else Qt.CheckState.Unchecked)
            self.setItem(number, 0, first)
            for column in range(1, len(COLUMNS)):
                self.setItem(number, column, QTableWidgetItem())
        self.blockSignals(False)
        self._rows = list(rows)
        self._arrange(rows)

    # -- parts of the list -------------------------------------------------------------------------

    def _arrange(self, rows: Sequence[DeviceRow]) -> None:
        """Set what is above and below each row, its height, and which rows are hidden."""
        gpus, delegate = sum(not row.is_cpu for row in rows), self._delegate
        shown = [number for number, row in enumerate(rows) if self._is_shown(number, row, has_gpus=gpus > 0)]
        self._foot_row = gpus - 1 if 0 < gpus < len(rows) and not self._only_ticked else -1
        above = {shown[place]: heading for place, heading in headings([rows[each] for each in shown]).items()}
        delegate.dense = self._is_crowded or (gpus or len(rows)) > ROOMY_UP_TO
        self.verticalHeader().setDefaultSectionSize(delegate.height(heading=False, foot=False))
        self.verticalScrollBar().setSingleStep(delegate.height(heading=False, foot=False))
        self.blockSignals(True)
        for number in range(len(rows)):
            foot = number == self._foot_row
            self._cell(number).setData(HEADING, above.get(number))
            self._cell(number).setData(FOOT, foot)
            self.setRowHeight(number, delegate.height(heading=number in above, foot=foot))
            self.setRowHidden(number, number not in shown)
        self.blockSignals(False)
        self.cpu_fold.setVisible(self._foot_row >= 0)
        self.cpu_fold.setChecked(not any(self.isRowHidden(number) for number in range(len(rows))))
        self._place_fold()
        self._fit_columns()
        self.updateGeometry()
        self.resized.emit()

    def _is_shown(self, number: int, row: DeviceRow, *, has_gpus: bool) -> bool:
        folded = self._only_ticked or (has_gpus and row.is_cpu and not self._unfolded)
        return not folded or _is_ticked(self._cell(number))  # a choice is never hidden

    def _fold(self) -> None:
        """Unfold the CPU devices; or hide those that are not ticked."""
        self._unfolded = any(self.isRowHidden(number) for number in range(self.rowCount()))
        self._arrange(self._rows)
        if self._unfolded:
            self.scrollToItem(self._cell(self.rowCount() - 1))

    def _show_ticked(self) -> None:
        """Unfold the CPU devices if a hidden one has been ticked."""
        hidden = [item for item in self._first_cells() if self.isRowHidden(item.row()) and _is_ticked(item)]
        if hidden:
            self._unfolded |= not self._only_ticked
            self._arrange(self._rows)
            self.scrollToItem(hidden[0])

    def _place_fold(self) -> None:
        if self._foot_row >= 0:
            height = self._delegate.sizes.heading
            below = self.rowViewportPosition(self._foot_row) + self.rowHeight(self._foot_row)
            self.cpu_fold.setGeometry(0, below - height, self.viewport().width(), height)

    def _scroll_to_fold(self) -> None:
        self.reached.emit(self.cpu_fold.geometry())
        bar, fold = self.verticalScrollBar(), self.cpu_fold.geometry()
        below = fold.bottom() + 1 - self.viewport().height()
        bar.setValue(bar.value() + (below if below > 0 else min(fold.top(), 0)))

    def _fit_columns(self) -> None:
        shown = [row for number, row in enumerate(self._rows) if not self.isRowHidden(number)]
        if self._delegate.fit(shown, self.viewport().width()):
            self.viewport().update()

    def _point_at(self, at: QPoint | None) -> None:
        """Highlight the row under the mouse; None if the mouse is elsewhere."""
        number = -1 if at is None else self.rowAt(at.y())
        inside = at is not None and number >= 0 and self._body(number).contains(at)
        before, now = self._delegate.row_under_mouse, number if inside else -1
        if before != now:
            self._delegate.row_under_mouse = now
            for number in {before, now} - {-1}:
                self.viewport().update(self.visualRect(self.model().index(number, 0)))

    def _body(self, number: int) -> QRect:
        index = self.model().index(number, 0)
        return self._delegate.body(self.visualRect(index), index)

    # -- contents ----------------------------------------------------------------------------------

    def _fill(self, number: int, row: DeviceRow) -> None:
        texts = (row.title, row.utilisation, row.memory, row.status)
        for column, text in enumerate(texts):
            self._cell(number, column).setText(text)
        first = self._cell(number)
        first.setData(ROW, row)
        self._set_obstacle(number, row)

    def _set_obstacle(self, number: int, row: DeviceRow) -> None:
        """Enable or disable the tick. A ticked device stays ticked until the user unticks it."""
        first, obstacle = self._cell(number), self._obstacles.get(row.id, "")
        flags = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
        if not obstacle or first.checkState() is Qt.CheckState.Checked:
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        first.setFlags(flags)
        first.setData(OBSTACLE, obstacle)
        more = "" if not obstacle or obstacle in row.tip else f"\n{obstacle}"
        first.setToolTip(verbatim(row.tip + more))
        first.setData(Qt.ItemDataRole.AccessibleTextRole, f"{row.accessible_text}{more.replace(chr(10), ', ')}")

    def _show_obstacles(self) -> None:
        """Update which devices can be ticked, which depends on the ticked ones."""
        ticked = {str(item.data(Qt.ItemDataRole.UserRole)) for item in self._first_cells() if _is_ticked(item)}
        found = obstacles(self._rows, ticked)
        if (found, ticked) == (self._obstacles, self._obstacles_for):
            return
        self._obstacles, self._obstacles_for = found, ticked
        blocked = self.blockSignals(True)
        for number, row in enumerate(self._rows):
            self._set_obstacle(number, row)
        self.blockSignals(blocked)
        self.viewport().update()

    # -- events ------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Give the line of the CPU devices the new width."""
        super().resizeEvent(event)
        self._place_fold()
        self._fit_columns()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Have the present row scrolled into view, also where the list itself is scrolled."""
        super().focusInEvent(event)
        self.reached.emit(self.visualRect(self.model().index(max(self.currentRow(), 0), 0)))

    def scrollTo(  # noqa: N802 (Qt's name)
        self, index: Index, hint: QAbstractItemView.ScrollHint = QAbstractItemView.ScrollHint.EnsureVisible
    ) -> None:
        """Scroll to a row, also where the list itself is scrolled."""
        super().scrollTo(index, hint)
        self.reached.emit(self.visualRect(index))

    def updateGeometries(self) -> None:  # noqa: N802 (Qt's name)
        """Keep the line of the CPU devices below the GPUs."""
        super().updateGeometries()
        self._place_fold()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the font."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            sizes = RowSizes.of(self.font())
            if sizes != self._delegate.sizes:
                self._delegate.sizes = sizes
                self._arrange(self._rows)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """Highlight the row that a click would tick."""
        super().mouseMoveEvent(event)
        self._point_at(event.position().toPoint())

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Remove the highlight when the mouse leaves."""
        if event.type() == QEvent.Type.Leave:
            self._point_at(None)
        return super().viewportEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the menu of the device under the mouse, or of the present one for the key."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        number = self.currentRow() if by_key else self.rowAt(event.pos().y())
        if not 0 <= number < len(self._rows) or self.isRowHidden(number):
            return
        if self._menu is None:
            self._menu = DeviceMenu(self)
            self._menu.processes_asked.connect(self.processes_asked)
            self._menu.alone_asked.connect(self.alone_asked)
        self._menu.show_device(self._rows[number])
        at = self.viewport().mapToGlobal(self._body(number).center()) if by_key else event.globalPos()
        self._menu.popup(at)

    # -- parts -------------------------------------------------------------------------------------

    def _cell(self, number: int, column: int = 0) -> QTableWidgetItem:
        item = self.item(number, column)
        assert item is not None
        return item

    def _apply_pending_ticks(self) -> None:
        self.blockSignals(True)
        for number, row in enumerate(self._rows):
            if row.id in self._pending_ticks:
                self._pending_ticks.discard(row.id)
                if (
                    row.id not in self._obstacles or row.host
                ):  # a host may answer later, and its choices stay until then
                    self._cell(number).setCheckState(Qt.CheckState.Checked)
                    self._show_obstacles()
        self.blockSignals(False)
        self._update_ticks()

    def _first_cells(self) -> list[QTableWidgetItem]:
        return [self._cell(number) for number in range(self.rowCount())]

    def _update_ticks(self) -> None:
        ticked = tuple(str(item.data(Qt.ItemDataRole.UserRole)) for item in self._first_cells() if _is_ticked(item))
        self._show_obstacles()
        self._show_ticked()
        if ticked != self._ticked:
            self._ticked = ticked
            self.ticks_changed.emit()

    def _shape(self) -> None:
        self.horizontalHeader().hide()
        self.verticalHeader().hide()
        self.verticalHeader().setMinimumSectionSize(1)
        self.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in range(1, len(COLUMNS)):
            self.setColumnHidden(column, True)
        self.setShowGrid(False)
        # The delegate shows the focus, and the device under the mouse without the heading above it.
        self.setStyleSheet(
            "QTableView:focus { border-color: transparent; } QTableView::item:hover { background: transparent; }"
        )
        self.setTabKeyNavigation(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)


def _same(row: DeviceRow, before: DeviceRow) -> bool:
    return row is before or row == before or row.shown == before.shown  # usually identical: unchanged rows are reused


def _is_ticked(item: QTableWidgetItem) -> bool:
    return item.checkState() is Qt.CheckState.Checked
