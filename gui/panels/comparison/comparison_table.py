"""The table of a comparison: a row for each run or group, and how far each number is from the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import QHeaderView, QStyledItemDelegate, QStyleOptionViewItem, QTableWidget

from core.language import tr
from gui.style.text_size import scaled
from gui.style.theme import current_theme
from gui.viewmodels.comparison.compared import Entry
from gui.viewmodels.comparison.comparison_rows import Cell, ComparisonRows
from gui.widgets.painting import Index, draw_elided, paint_row_background, small_font
from gui.widgets.plain_text import verbatim
from gui.widgets.table import plain_table, text_item

DIFFERENCE = Qt.ItemDataRole.UserRole + 1
"""Item data: how far the value is from the baseline."""
BETTER = Qt.ItemDataRole.UserRole + 2
"""Item data: whether that is better; None if neither is."""
BEST = Qt.ItemDataRole.UserRole + 3
"""Item data: whether the value is the best of its column."""
COLOUR = Qt.ItemDataRole.UserRole + 4
"""Item data: the colour of the line of a run."""
SIDE_PX, PADDING_PX, ABOVE_PX = 9, 8, 3
ROUNDING_PX = 4
"""More than what a text may be wider than the sum of its letters."""
MAX_COLUMN_PX, TITLE_PX = 240, 150
MEASURED = 12
"""Texts of a column that are measured: the longest."""


class ComparisonTable(QTableWidget):
    """Rows in the order of the entries. Space or a double click makes a row the baseline."""

    baseline_asked = Signal(int)
    """The number of a row."""

    def __init__(self) -> None:
        super().__init__()
        plain_table(self, "comparisonTable", tr("Differences between the runs"), [tr("Run")])
        self.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        self._delegate = _CellDelegate(self)
        self.setItemDelegate(self._delegate)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.cellDoubleClicked.connect(lambda row, _: self.baseline_asked.emit(row))
        self._shown: tuple[object, ...] = ()

    def show_rows(self, entries: Sequence[Entry], table: ComparisonRows) -> None:
        """Show this table; `entries` have the titles and colours of its rows."""
        shown = ([(each.label, each.title, each.colour) for each in entries], table)
        if shown == self._shown:
            return
        self._shown = shown
        chosen = self.currentRow()
        self._set_headings(table)
        self.setRowCount(len(table.rows))
        for row, (entry, cells) in enumerate(zip(entries, table.rows, strict=True)):
            title = text_item(entry.name)
            title.setData(COLOUR, entry.colour)
            title.setData(DIFFERENCE, tr("baseline") if row == table.baseline and len(table.rows) > 1 else "")
            title.setToolTip(verbatim(entry.tip))
            self.setItem(row, 0, title)
            for column, each in enumerate(cells, 1):
                self._set_cell(row, column, each)
        self._fit(table)
        if 0 <= chosen < self.rowCount():
            self.setCurrentCell(chosen, 0)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Make the current row the baseline with Space."""
        if event.key() == Qt.Key.Key_Space and self.currentRow() >= 0:
            self.baseline_asked.emit(self.currentRow())
        else:
            super().keyPressEvent(event)

    def _set_headings(self, table: ComparisonRows) -> None:
        self.setColumnCount(1 + len(table.headings))
        self.setHorizontalHeaderLabels([tr("Run"), *table.headings])
        for column, tip in enumerate(table.tips, 1):
            heading = self.horizontalHeaderItem(column)
            if heading is None:
                continue
            heading.setToolTip(verbatim(tip))
            is_number = all(cells[column - 1].is_number for cells in table.rows)
            side = Qt.AlignmentFlag.AlignRight if is_number else Qt.AlignmentFlag.AlignLeft
            heading.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)

    def _set_cell(self, row: int, column: int, each: Cell) -> None:
        item = text_item(each.text, right=each.is_number)
        for role, value in ((DIFFERENCE, each.difference), (BETTER, each.better), (BEST, each.is_best or None)):
            if value not in {"", None}:
                item.setData(role, value)
        if each.spoken != each.text:
            item.setData(Qt.ItemDataRole.AccessibleTextRole, each.spoken)
        if each.tip:
            item.setToolTip(verbatim(each.tip))
        self.setItem(row, column, item)

    def _fit(self, table: ComparisonRows) -> None:
        """Make columns as wide as their content, and rows high enough for two lines."""
        for column in range(self.columnCount()):
            least, most = scaled(TITLE_PX) if not column else 0, scaled(MAX_COLUMN_PX)
            self.setColumnWidth(column, max(least, min(self._wanted_px(column), most)))
        two = len(table.rows) > 1 or any(each.difference for cells in table.rows for each in cells)
        height = QFontMetrics(self.font()).height() + 2 * ABOVE_PX
        height += QFontMetrics(small_font(self.font())).height() if two else 2 * ABOVE_PX
        for row in range(self.rowCount()):
            self.setRowHeight(row, height)

    def _wanted_px(self, column: int) -> int:
        """Return the width of a column for its heading and its longest texts. To measure all takes too long."""
        model, option = self.model(), QStyleOptionViewItem()
        self.initViewItemOption(option)
        every = [model.index(row, column) for row in range(self.rowCount())]
        longest = sorted(every, key=lambda at: max(len(at.data()), len(at.data(DIFFERENCE) or "")))[-MEASURED:]
        widths = [self._delegate.sizeHint(option, at).width() for at in longest]
        return max([self.horizontalHeader().sectionSizeHint(column), *widths])


class _CellDelegate(QStyledItemDelegate):
    """Paints a value, and below it how far it is from the baseline: with a sign, and in a colour."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Return the room for both lines."""
        bold, small = QFont(option.font), QFontMetrics(small_font(option.font))
        bold.setBold(True)
        text, difference = str(index.data(Qt.ItemDataRole.DisplayRole)), str(index.data(DIFFERENCE) or "")
        mark = SIDE_PX + PADDING_PX if index.data(COLOUR) else 0
        width = max(mark + QFontMetrics(bold).horizontalAdvance(text), mark + small.horizontalAdvance(difference))
        return QSize(width + 2 * PADDING_PX + ROUNDING_PX, option.fontMetrics.height() + small.height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one cell."""
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_row_background(painter, option)
        inside = option.rect.adjusted(PADDING_PX, ABOVE_PX, -PADDING_PX, -ABOVE_PX)
        colour = index.data(COLOUR)
        height, small = option.fontMetrics.height(), small_font(option.font)
        if colour:
            square = QRectF(inside.left(), inside.top() + (height - SIDE_PX) / 2, SIDE_PX, SIDE_PX)
            painter.fillRect(square, QColor(colour))
            inside.adjust(SIDE_PX + PADDING_PX, 0, 0, 0)
        align = index.data(Qt.ItemDataRole.TextAlignmentRole)
        right = bool(Qt.AlignmentFlag(align) & Qt.AlignmentFlag.AlignRight)
        is_best = bool(index.data(BEST))
        font = QFont(option.font)
        font.setBold(is_best)
        line = QRect(inside.left(), inside.top(), inside.width(), height)
        text = str(index.data(Qt.ItemDataRole.DisplayRole))
        draw_elided(
            painter, line, text, current_theme().good if is_best else current_theme().text, font=font, right=right
        )
        if index.data(DIFFERENCE):
            tones = {True: current_theme().good, False: current_theme().bad}
            below = QRect(line.left(), line.bottom() + 1, line.width(), QFontMetrics(small).height())
            tone = tones.get(index.data(BETTER), current_theme().muted)
            draw_elided(painter, below, str(index.data(DIFFERENCE)), tone, font=small, right=right)
        painter.restore()
