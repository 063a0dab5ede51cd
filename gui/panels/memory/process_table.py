"""The table of processes: sorts by the clicked column and highlights the shown run."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QHeaderView, QTableWidget

from core.language import tr
from gui.style.text_size import scaled
from gui.style.theme import current_theme, look
from gui.viewmodels.devices.process_rows import (
    AGE,
    COLUMNS,
    COMMAND,
    DEVICE,
    MEMORY,
    NAME,
    PID,
    RUN,
    USER,
    ProcessRow,
    ordered,
)
from gui.widgets.plain_text import verbatim
from gui.widgets.table import cell, plain_table, text_item

NUMBERS = (PID, AGE, MEMORY)
DESCENDING_FIRST = (AGE, MEMORY)
WIDTHS_PX = {PID: 72, USER: 68, NAME: 76, AGE: 56, MEMORY: 84, DEVICE: 104, RUN: 116}
"""Initial column widths; the command line gets the rest. Tooltips have the whole texts."""
DESCENDING, ASCENDING = "▾", "▴"
MIN_PX, NARROW_PX, NARROW_DEVICE_PX = 44, 640, 66
"""Below `NARROW_PX` the column of runs is hidden and the device column has room for one name."""


class ProcessTable(QTableWidget):
    """Keeps the selected process selected while rows change."""

    def __init__(self) -> None:
        super().__init__()
        self._unsorted: list[ProcessRow] = []
        self._rows: list[ProcessRow] = []
        self._column, self._descending = MEMORY, True
        look.changed.connect(self._recolour)
        plain_table(self, "processTable", tr("Processes on the devices"), [tr(each) for each in COLUMNS], NUMBERS)
        self.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setMinimumSectionSize(MIN_PX)
        for column, width in WIDTHS_PX.items():
            header.resizeSection(column, width)
        header.setSectionResizeMode(COMMAND, QHeaderView.ResizeMode.Stretch)
        header.setSectionsClickable(True)
        header.sectionClicked.connect(self.sort_by)
        self._show_order()

    @property
    def rows(self) -> Sequence[ProcessRow]:
        """The shown rows in their order."""
        return self._rows

    def chosen(self) -> ProcessRow | None:
        """Return the selected row."""
        selected = self.selectionModel().selectedRows()
        return self._rows[selected[0].row()] if selected and selected[0].row() < len(self._rows) else None

    def show_rows(self, rows: Sequence[ProcessRow]) -> None:
        """Show these processes."""
        if rows == self._unsorted:
            return
        self._unsorted = list(rows)
        self._show()

    def choose_device(self, device: str) -> None:
        """Select the first process on a device, by its id."""
        number = next((number for number, row in enumerate(self._rows) if device in row.entry.devices), None)
        if number is None:
            self.clearSelection()
        else:
            self.selectRow(number)

    def sort_by(self, column: int) -> None:
        """Sort by a column; the same column again reverses the order."""
        self._descending = not self._descending if column == self._column else column in DESCENDING_FIRST
        self._column = column
        self._show_order()
        self._show()

    def _recolour(self) -> None:
        for number, row in enumerate(self._rows):
            self._fill(number, row)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide the column of runs if there is little room; the tooltip has the run."""
        super().resizeEvent(event)
        narrow = event.size().width() < scaled(NARROW_PX)
        if narrow is not self.isColumnHidden(RUN):  # otherwise keep the widths that the user set
            self.setColumnHidden(RUN, narrow)
            self.horizontalHeader().resizeSection(DEVICE, NARROW_DEVICE_PX if narrow else WIDTHS_PX[DEVICE])

    def _show(self) -> None:
        chosen, scrolled = self.chosen(), self.verticalScrollBar().value()
        before, self._rows = self._rows, ordered(self._unsorted, self._column, descending=self._descending)
        self.blockSignals(True)
        if len(before) != len(self._rows):
            self.setRowCount(len(self._rows))
        for number, row in enumerate(self._rows):
            if number >= len(before):
                for column in range(len(COLUMNS)):
                    self.setItem(number, column, text_item(right=column in NUMBERS))
            if number >= len(before) or row != before[number]:
                self._fill(number, row)
        self._choose(chosen)
        self.blockSignals(False)
        self.verticalScrollBar().setValue(scrolled)
        self.itemSelectionChanged.emit()

    def _choose(self, chosen: ProcessRow | None) -> None:
        keys = [row.key for row in self._rows]
        if chosen is None or chosen.key not in keys:
            self.clearSelection()
        elif self.chosen() is None or self.chosen() is not self._rows[keys.index(chosen.key)]:
            self.selectRow(keys.index(chosen.key))

    def _fill(self, number: int, row: ProcessRow) -> None:
        for column, text in enumerate(row.texts):
            item = cell(self, number, column)
            item.setText(text)
            item.setToolTip(verbatim("\n".join(filter(None, dict.fromkeys((text, row.texts[RUN], row.why_not))))))
            font = item.font()
            font.setBold(row.of_this_run)
            item.setFont(font)
            tone = current_theme().accent if row.of_this_run and column == RUN else current_theme().text
            item.setForeground(QColor(current_theme().muted if row.why_not and not row.of_this_run else tone))

    def _show_order(self) -> None:
        """Add an arrow to the heading's text: Qt's own would be above the text or cut it."""
        for column, title in enumerate(map(tr, COLUMNS)):
            heading = self.horizontalHeaderItem(column)
            assert heading is not None
            heading.setText(
                f"{title} {DESCENDING if self._descending else ASCENDING}" if column == self._column else title
            )
