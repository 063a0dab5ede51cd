"""The look and the cells that all text tables share."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QAbstractItemView, QTableWidget, QTableWidgetItem

from gui.style.text_size import scaled
from gui.widgets.plain_text import PlainLabel, verbatim

ROW_PX, HEADING_PX = 24, 26


def plain_table(
    table: QTableWidget, name: str, accessible: str, columns: Sequence[str], numbers: Sequence[int] = ()
) -> None:
    """Set up a table; headings of the columns `numbers` are right-aligned like their cells."""
    table.setObjectName(name)
    table.setAccessibleName(accessible)
    table.setColumnCount(len(columns))
    table.setHorizontalHeaderLabels(list(columns))
    for column in range(len(columns)):
        heading = table.horizontalHeaderItem(column)
        if heading is not None:
            heading.setTextAlignment(alignment(right=column in numbers))
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTabKeyNavigation(False)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    table.verticalHeader().hide()
    table.verticalHeader().setMinimumSectionSize(1)
    _Heights(table)
    table.horizontalHeader().setHighlightSections(False)


class _Heights(QObject):
    """Keeps the heights of the rows and of the heading of a table at the size of its text."""

    def __init__(self, table: QTableWidget) -> None:
        super().__init__(table)
        self._table = table
        self._set_heights()
        table.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the font."""
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._set_heights()
        return super().eventFilter(watched, event)

    def _set_heights(self) -> None:
        self._table.verticalHeader().setDefaultSectionSize(scaled(ROW_PX))
        self._table.horizontalHeader().setFixedHeight(scaled(HEADING_PX))


def show_texts(table: QTableWidget, rows: Sequence[Sequence[str]]) -> None:
    """Fill a table that is not changed later; the last column takes the room, its tooltips have the whole text."""
    table.setRowCount(len(rows))
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            table.setItem(number, column, text_item(text))
        cell(table, number, len(row) - 1).setToolTip(verbatim(row[-1]))
    table.resizeColumnsToContents()
    table.horizontalHeader().setStretchLastSection(True)


def text_item(text: str = "", *, right: bool = False) -> QTableWidgetItem:
    """Return a cell that cannot be edited."""
    item = QTableWidgetItem(text)
    item.setTextAlignment(alignment(right=right))
    item.setFlags(Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled)
    return item


def empty_label(text: str = "") -> PlainLabel:
    """Return a wrapping label for an empty table."""
    label = PlainLabel(text, role="empty", wraps=True)
    label.setContentsMargins(8, 6, 8, 6)
    return label


def cell(table: QTableWidget, row: int, column: int) -> QTableWidgetItem:
    """Return an existing cell."""
    item = table.item(row, column)
    assert item is not None
    return item


def alignment(*, right: bool) -> Qt.AlignmentFlag:
    """Return left or right alignment, centred vertically."""
    return (Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft) | Qt.AlignmentFlag.AlignVCenter
