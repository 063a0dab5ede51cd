"""The list of devices with live readings, and ticks to choose those to train on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

from gui.viewmodels.devices.device_rows import obstacles
from gui.widgets.plain_text import verbatim

from .device_delegate import OBSTACLE, ROW, DeviceDelegate

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gui.style.theme import Theme
    from gui.viewmodels.devices.device_rows import DeviceRow

COLUMNS = ("Device", "Utilisation", "Memory", "Status")
ROOMY_UP_TO = 4
"""Up to this many devices get three lines each; more get two."""
MIN_ROWS = 2


class DeviceTable(QTableWidget):
    """One row per device. The delegate paints everything in the first column, which has the tick.

    The other columns are hidden; they hold the readings as text.
    """

    ticks_changed = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__(0, len(COLUMNS))
        self.setObjectName("deviceTable")
        self.setAccessibleName("Devices")
        self.setHorizontalHeaderLabels(list(COLUMNS))
        self._rows: list[DeviceRow] = []
        self._ticked: tuple[str, ...] = ()
        self._pending_ticks: set[str] = set()
        self._obstacles: dict[str, str] = {}
        """By device id, why it cannot be ticked now."""
        self._obstacles_for: set[str] = set()
        """The ids that were ticked when `_obstacles` was computed."""
        self._delegate = DeviceDelegate(theme, self)
        self.setItemDelegateForColumn(0, self._delegate)
        self._shape()
        self.itemChanged.connect(lambda _: self._update_ticks())

    @property
    def rows(self) -> Sequence[DeviceRow]:
        """The shown rows."""
        return self._rows

    def ticked(self) -> tuple[str, ...]:
        """Return the ids of the ticked devices in the order of the rows."""
        return self._ticked

    def tick(self, ids: Collection[str]) -> None:
        """Tick these devices now, or when they appear."""
        self._pending_ticks = set(ids)
        self._apply_pending_ticks()

    def tick_only(self, ids: Collection[str]) -> None:
        """Tick these devices and no others."""
        for item in self._first_cells():
            if item.data(Qt.ItemDataRole.UserRole) not in ids and _is_ticked(item):
                item.setCheckState(Qt.CheckState.Unchecked)
        self.tick(ids)

    def show_rows(self, rows: Sequence[DeviceRow]) -> None:
        """Show these devices and keep the ticks."""
        before, count = self._rows, len(rows)
        changed = [at for at, row in enumerate(rows) if at >= len(before) or not _same(row, before[at])]
        if not changed and count == len(before):
            return
        affects_ticks = count != len(before) or any(
            _tick_inputs(rows[at]) != _tick_inputs(before[at]) for at in changed
        )
        if count != len(before) or any(rows[at].id != before[at].id for at in changed):
            self._make_rows(rows)
            changed = list(range(count))
        self.blockSignals(True)
        for at in changed:
            self._fill(at, rows[at])
        self.blockSignals(False)
        self._rows = list(rows)  # Qt repaints only the filled rows
        if affects_ticks:  # otherwise only readings have changed, which do not affect ticks
            self._show_obstacles()
            self._apply_pending_ticks()
            self._update_ticks()

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self._delegate.set_theme(theme)
        self.viewport().update()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all rows."""
        return QSize(300, max(self.rowCount(), 1) * self.verticalHeader().defaultSectionSize() + 4)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of some rows; the table scrolls to the others."""
        visible = min(max(self.rowCount(), 1), MIN_ROWS)
        return QSize(240, visible * self.verticalHeader().defaultSectionSize() + 4)

    def _make_rows(self, rows: Sequence[DeviceRow]) -> None:
        ticked = set(self._ticked)
        self._pending_ticks |= ticked
        self.blockSignals(True)
        self._delegate.dense = len(rows) > ROOMY_UP_TO
        self.verticalHeader().setDefaultSectionSize(self._delegate.height)
        self.setRowCount(len(rows))
        for number, row in enumerate(rows):
            first = QTableWidgetItem()
            first.setData(Qt.ItemDataRole.UserRole, row.id)
            first.setCheckState(Qt.CheckState.Checked if row.id in ticked else Qt.CheckState.Unchecked)
            self.setItem(number, 0, first)
            for column in range(1, len(COLUMNS)):
                self.setItem(number, column, QTableWidgetItem())
        self.blockSignals(False)
        self._rows = []
        self.setMaximumHeight(self.sizeHint().height())
        self.updateGeometry()

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
        self.blockSignals(True)
        for number, row in enumerate(self._rows):
            self._set_obstacle(number, row)
        self.blockSignals(False)
        self.viewport().update()

    def _cell(self, number: int, column: int = 0) -> QTableWidgetItem:
        item = self.item(number, column)
        assert item is not None
        return item

    def _apply_pending_ticks(self) -> None:
        for number, row in enumerate(self._rows):
            if row.id in self._pending_ticks:
                self._pending_ticks.discard(row.id)
                if row.id not in self._obstacles:
                    self._cell(number).setCheckState(Qt.CheckState.Checked)

    def _first_cells(self) -> list[QTableWidgetItem]:
        return [self._cell(number) for number in range(self.rowCount())]

    def _update_ticks(self) -> None:
        ticked = tuple(str(item.data(Qt.ItemDataRole.UserRole)) for item in self._first_cells() if _is_ticked(item))
        self._show_obstacles()
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
        self.setStyleSheet("QTableView:focus { border-color: transparent; }")  # the row shows the focus
        self.setTabKeyNavigation(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)


def _same(row: DeviceRow, before: DeviceRow) -> bool:
    return row is before or row == before  # usually identical: unchanged rows are reused


def _tick_inputs(row: DeviceRow) -> tuple[object, ...]:
    """Return what decides whether a device can be ticked."""
    return row.id, row.lost, row.blocked, row.is_mig


def _is_ticked(item: QTableWidgetItem) -> bool:
    return item.checkState() is Qt.CheckState.Checked
