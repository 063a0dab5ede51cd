"""The table of memory use: a bar with its numbers for each device."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QHeaderView, QSizePolicy, QTableWidget

from core.language import tr, tr_noop
from gui.style.formatting import fine_gigabytes, gigabytes
from gui.style.text_size import scaled
from gui.style.theme import current_theme, look
from gui.viewmodels.devices.memory_bars import FREE, PARTS, TIPS, UNCLAIMED, MemoryBar
from gui.widgets.plain_text import verbatim
from gui.widgets.table import HEADING_PX, ROW_PX, cell, plain_table, text_item

from .memory_bar import ROW, MemoryBarDelegate, part_brushes, swatch

DEVICE, BAR, FIRST_PART = 0, 1, 2
COLUMNS = (tr_noop("Device"), tr_noop("Memory, GB"), *PARTS)
MIN_PX, NARROW_PX = 240, 560
"""Below `NARROW_PX` the column of unattributed memory is hidden: the bar needs the room."""
MEASURED_PX = 11
"""Font size to measure headings with: Qt measures in bold, and bold 11 is as wide as the theme's regular 12."""


class MemoryTable(QTableWidget):
    """As high as its rows. A square beside each number serves as the legend."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[MemoryBar] = []
        look.changed.connect(self._recolour)
        plain_table(self, "memoryHolders", tr("Memory use of the devices"), [tr(each) for each in COLUMNS])
        self.setItemDelegateForColumn(BAR, MemoryBarDelegate(self))
        self.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        header = self.horizontalHeader()
        header.setMinimumSectionSize(44)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(BAR, QHeaderView.ResizeMode.Stretch)
        measured = QFont(self.font())
        measured.setPixelSize(scaled(MEASURED_PX))
        for number, tip in enumerate(TIPS):
            heading = self.horizontalHeaderItem(FIRST_PART + number)
            if heading is not None:
                heading.setToolTip(verbatim(tr(tip)))
                heading.setFont(measured)

    @property
    def rows(self) -> Sequence[MemoryBar]:
        """The shown devices."""
        return self._rows

    def show_rows(self, rows: Sequence[MemoryBar]) -> None:
        """Show these devices."""
        if rows == self._rows:
            return
        if len(rows) != self.rowCount():
            self.setRowCount(len(rows))
            for number in range(len(rows)):
                for column in range(len(COLUMNS)):
                    self.setItem(number, column, text_item())
            self.updateGeometry()
        before = self._rows if len(rows) == len(self._rows) else [None] * len(rows)
        self._rows = list(rows)
        for number, row in enumerate(rows):
            if row != before[number]:
                self._fill(number, row)

    def _recolour(self) -> None:
        for number, row in enumerate(self._rows):
            self._fill(number, row)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all rows."""
        return QSize(MIN_PX, scaled(HEADING_PX) + self.rowCount() * scaled(ROW_PX) + 4)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all rows: the surrounding area scrolls."""
        return self.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide a column if there is little room."""
        super().resizeEvent(event)
        self.setColumnHidden(FIRST_PART + UNCLAIMED, event.size().width() < scaled(NARROW_PX))

    def _fill(self, number: int, row: MemoryBar) -> None:
        brushes = part_brushes(row.colour)
        total = [] if row.total_bytes is None else [tr("{size} GB in total", size=gigabytes(row.total_bytes))]
        device = cell(self, number, DEVICE)
        device.setText(row.label)
        device.setToolTip(verbatim(tr(", ").join([row.id, *total])))
        bar = cell(self, number, BAR)
        bar.setData(ROW, row)
        bar.setToolTip(verbatim(_accessible_text(row)))
        bar.setData(Qt.ItemDataRole.AccessibleTextRole, _accessible_text(row))
        for index, (part, brush) in enumerate(zip(row.parts, brushes, strict=True)):
            item = cell(self, number, FIRST_PART + index)
            item.setText(fine_gigabytes(part))
            item.setToolTip(verbatim(tr(TIPS[index])))
            border = current_theme().field_border if index == FREE else brush.color().name()
            item.setData(
                Qt.ItemDataRole.DecorationRole,
                None if part is None else swatch(brush, border, max(self.devicePixelRatioF(), 1.0)),
            )


def _accessible_text(row: MemoryBar) -> str:
    """Return the bar as text for a screen reader."""
    if row.words:
        return f"{row.label}: {row.words}"
    known = ((name, part) for name, part in zip(PARTS, row.parts, strict=True) if part is not None)
    parts = [f"{tr(name)} {fine_gigabytes(part)} GB" for name, part in known]
    return f"{row.label}: {tr(', ').join(parts)}"
