"""Read the tables of the window as a user sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint
    from PySide6.QtWidgets import QAbstractItemView


def cell(table: QAbstractItemView, row: int, column: int, role: int = Qt.ItemDataRole.DisplayRole) -> object:
    """Return the text of a cell, or what it has for another role; None if there is no such cell."""
    return table.model().index(row, column).data(role)


def cells(table: QAbstractItemView) -> list[tuple[str, ...]]:
    """Return the texts of all rows."""
    model = table.model()
    return [tuple(cell(table, row, at) for at in range(model.columnCount())) for row in range(model.rowCount())]


def headings(table: QAbstractItemView) -> list[str]:
    model = table.model()
    return [str(model.headerData(at, Qt.Orientation.Horizontal) or "") for at in range(model.columnCount())]


def middle(table: QAbstractItemView, row: int, column: int = 0) -> QPoint:
    """Return the middle of a cell in the viewport."""
    return table.visualRect(table.model().index(row, column)).center()
