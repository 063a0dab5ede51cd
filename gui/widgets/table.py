"""What the tables of texts share: whole rows, no grid, headings and words that read like the rest of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QTableWidget, QTableWidgetItem

if TYPE_CHECKING:
    from collections.abc import Sequence

ROW_PX, HEADING_PX = 24, 26


def plain_table(
    table: QTableWidget, name: str, accessible: str, columns: Sequence[str], numbers: Sequence[int] = ()
) -> None:
    """Shape a table; the headings of columns of `numbers` stand at the right, as their cells do."""
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
    table.verticalHeader().setDefaultSectionSize(ROW_PX)
    table.horizontalHeader().setFixedHeight(HEADING_PX)
    table.horizontalHeader().setHighlightSections(False)


def text_item(text: str = "", *, right: bool = False) -> QTableWidgetItem:
    """A cell that is read and not edited."""
    item = QTableWidgetItem(text)
    item.setTextAlignment(alignment(right=right))
    item.setFlags(Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled)
    return item


def empty_words(text: str = "") -> QLabel:
    """What is said where there is nothing to list: whole, in as many lines as it takes."""
    label = QLabel(text)
    label.setProperty("role", "empty")
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setContentsMargins(8, 6, 8, 6)
    return label


def cell(table: QTableWidget, row: int, column: int) -> QTableWidgetItem:
    """A cell that is there."""
    item = table.item(row, column)
    assert item is not None
    return item


def alignment(*, right: bool) -> Qt.AlignmentFlag:
    """Beside the middle of a cell's height."""
    return (Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft) | Qt.AlignmentFlag.AlignVCenter
