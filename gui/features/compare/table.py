"""The table of a comparison: a row for each run or group, and how far each number is from the baseline."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from core.language import tr
from gui.base.painting import Index, draw_elided, paint_row_background, small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.features.compare.rows import Cell, ComparisonRows
from gui.features.compare.runs import Entry
from gui.widgets.table import ROW, Column, RowsTable

SIDE_PX, PADDING_PX, ABOVE_PX = 9, 8, 3
ROUNDING_PX = 4
"""More than what a text may be wider than the sum of its letters."""
MAX_COLUMN_PX, TITLE_PX = 240, 150
MEASURED = 12
"""Texts of a column that are measured: the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the table."""

    key: Hashable
    colour: str
    """Of the line in the plot."""
    cells: tuple[Cell, ...]
    """The first of them is the title."""


class ComparisonTable(RowsTable[Line]):
    """Rows in the order of the entries. Space or a double click opens a row."""

    def __init__(self) -> None:
        title, space = tr("Differences between the runs"), (Qt.Key.Key_Space,)
        super().__init__("comparisonTable", title, (), key=lambda line: line.key, open_keys=space)
        self._delegate = _CellDelegate(self)
        self.setItemDelegate(self._delegate)
        self._looks: list[tuple[str, str, bool]] = []
        """Heading, its tooltip, and whether the column has numbers."""

    def show_comparison(self, entries: Sequence[Entry], table: ComparisonRows) -> None:
        """Show this table; `entries` have the titles and colours of its rows."""
        lines = [
            Line(key=entry.runs[0].dir, colour=entry.colour, cells=(_title(entry, table, row), *cells))
            for row, (entry, cells) in enumerate(zip(entries, table.rows, strict=True))
        ]
        looks = [(tr("Run"), "", False)] + [
            (heading, tip, all(cells[at].is_number for cells in table.rows))
            for at, (heading, tip) in enumerate(zip(table.headings, table.tips, strict=True))
        ]
        if lines == self.rows and looks == self._looks:
            return
        if looks != self._looks:
            self._looks = looks
            self.show_columns([_column(at, *look) for at, look in enumerate(looks)], lines)
        self.show_rows(lines)
        for column in range(len(looks)):
            least, most = scaled(TITLE_PX) if not column else 0, scaled(MAX_COLUMN_PX)
            self.setColumnWidth(column, max(least, min(self._wanted_px(column), most)))
        self.set_heights()

    def row_px(self) -> int:
        """Return the height of a row, which has two lines if there is a baseline."""
        two = len(self.rows) > 1 or any(each.difference for line in self.rows for each in line.cells)
        height = QFontMetrics(self.font()).height() + 2 * ABOVE_PX
        return height + (QFontMetrics(small_font(self.font())).height() if two else 2 * ABOVE_PX)

    def _wanted_px(self, column: int) -> int:
        """Return the width of a column for its heading and its longest texts. To measure all takes too long."""
        option = QStyleOptionViewItem()
        self.initViewItemOption(option)
        lengths = [max(len(line.cells[column].text), len(line.cells[column].difference)) for line in self.rows]
        longest = sorted(range(len(lengths)), key=lengths.__getitem__)[-MEASURED:]
        widths = [self._delegate.sizeHint(option, self.model().index(row, column)).width() for row in longest]
        return max([self.horizontalHeader().sectionSizeHint(column), *widths])


def _title(entry: Entry, table: ComparisonRows, row: int) -> Cell:
    baseline = tr("baseline") if row == table.baseline and len(table.rows) > 1 else ""
    return Cell(text=entry.name, difference=baseline, is_number=False, tip=entry.tip)


def _column(at: int, heading: str, tip: str, is_number: bool) -> Column[Line]:
    return Column(
        heading, title=heading, text=lambda line: line.cells[at].text, tip=lambda line: line.cells[at].tip,
        spoken=lambda line: line.cells[at].spoken, is_number=is_number, width_px=TITLE_PX, about=tip,
    )


class _CellDelegate(QStyledItemDelegate):
    """Paints a value, and below it how far it is from the baseline: with a sign, and in a colour."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Return the room for both lines."""
        bold, small = QFont(option.font), QFontMetrics(small_font(option.font))
        bold.setBold(True)
        each: Cell = index.data(ROW).cells[index.column()]
        mark = 0 if index.column() else SIDE_PX + PADDING_PX
        width = mark + max(QFontMetrics(bold).horizontalAdvance(each.text), small.horizontalAdvance(each.difference))
        return QSize(width + 2 * PADDING_PX + ROUNDING_PX, option.fontMetrics.height() + small.height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one cell."""
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_row_background(painter, option)
        inside = option.rect.adjusted(PADDING_PX, ABOVE_PX, -PADDING_PX, -ABOVE_PX)
        row: Line = index.data(ROW)
        each = row.cells[index.column()]
        height, small = option.fontMetrics.height(), small_font(option.font)
        if not index.column():
            square = QRectF(inside.left(), inside.top() + (height - SIDE_PX) / 2, SIDE_PX, SIDE_PX)
            painter.fillRect(square, QColor(row.colour))
            inside.adjust(SIDE_PX + PADDING_PX, 0, 0, 0)
        font = QFont(option.font)
        font.setBold(each.is_best)
        line = QRect(inside.left(), inside.top(), inside.width(), height)
        tone = current_theme().good if each.is_best else current_theme().text
        draw_elided(painter, line, each.text, tone, font=font, right=each.is_number)
        if each.difference:
            tone = {True: current_theme().good, False: current_theme().bad, None: current_theme().muted}[each.better]
            below = QRect(line.left(), line.bottom() + 1, line.width(), QFontMetrics(small).height())
            draw_elided(painter, below, each.difference, tone, font=small, right=each.is_number)
        painter.restore()
