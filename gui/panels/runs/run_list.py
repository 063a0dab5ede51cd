"""The list of runs, newest first. A click or Enter shows a run; its context menu reuses or deletes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QDragMoveEvent, QDropEvent, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QStyleOptionViewItem

from core.language import tr, tr_noop
from gui.style.icons import paint_mark
from gui.widgets.painting import Index, ThemedDelegate, draw_elided, paint_row_background, small_font
from gui.widgets.plain_text import verbatim

from .run_menu import RunMenu

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gui.style.theme import Theme
    from gui.viewmodels.run.run_rows import RunRow

TONE = Qt.ItemDataRole.UserRole + 1
"""Item data: name of a colour of the theme."""
MARK = Qt.ItemDataRole.UserRole + 2
"""Item data: name of the mark of the state."""
STEPS = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
"""Keys that move a queued run, with Alt."""
ABOVE_PX = 5
"""Space above and below the two lines of a run."""
ROWS = 200
"""Rows that are made at once."""
EMPTY = tr_noop("No runs yet.\n\nRuns stay in this list after the window is closed.")


class RunList(QListWidget):
    """One item per run: its text has two lines, its UserRole the directory."""

    chosen = Signal(str)
    """The directory of the chosen run."""
    moved = Signal(str, str)
    """A queued run was dragged: its directory, and that of the run before which it was dropped, or the empty string."""
    step_asked = Signal(str, int)
    """A queued run should be moved up (-1) or down (1)."""
    more_wanted = Signal()
    """The list was scrolled to its end, and `wanted` has grown: more rows are shown if there are any."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("runList")
        self.setAccessibleName(tr("Runs"))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListWidget.ScrollMode.ScrollPerPixel)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setDragDropMode(QListWidget.DragDropMode.DragDrop)
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self._rows: list[RunRow] = []
        self.wanted = ROWS
        """Number of rows to show: thousands of items that nobody looks at would take long to make."""
        self._empty_words = ""
        self._theme = theme
        self._delegate = RunDelegate(theme, self)
        self.setItemDelegate(self._delegate)
        self.run_menu = RunMenu(self)
        self.run_menu.setObjectName("runListMenu")
        self.itemClicked.connect(self._on_item_chosen)
        self.itemActivated.connect(self._on_item_chosen)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)

    def show_rows(self, rows: Sequence[RunRow]) -> None:
        """Show these runs."""
        if rows == self._rows:
            return
        known = [row.dir for row in self._rows]
        if known and [row.dir for row in rows[: len(known)]] == known:
            self._add_items(len(rows) - len(known))  # their end was reached
        elif [row.dir for row in rows] != known:
            self._make_items(rows)
        for number, row in enumerate(rows):
            if number >= len(self._rows) or row != self._rows[number]:
                _fill(self.item(number), row)
        self._rows = list(rows)

    def show_empty_words(self, sentence: str) -> None:
        """Say why no run is listed although there are some; the empty string if there are none."""
        if sentence != self._empty_words:
            self._empty_words = sentence
            self.viewport().update()

    def mark_chosen(self, run_dir: Path | None) -> None:
        """Select the shown run."""
        for number, row in enumerate(self._rows):
            if row.dir == run_dir:
                self.setCurrentRow(number)
                return
        self.setCurrentRow(-1)

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self._theme = theme
        self._delegate.set_theme(theme)
        self.viewport().update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the menu of the run under the mouse, or, from the keyboard, of the selected run."""
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        item = self.itemAt(event.pos()) if by_mouse else self.currentItem()
        if item is not None:
            self.run_menu.show_run(str(item.data(Qt.ItemDataRole.UserRole)))
            below = self.viewport().mapToGlobal(self.visualItemRect(item).bottomLeft())
            self.run_menu.popup(event.globalPos() if by_mouse else below)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Move a queued run with Alt and an arrow."""
        item, step = self.currentItem(), STEPS.get(Qt.Key(event.key()), 0)
        if step and event.modifiers() == Qt.KeyboardModifier.AltModifier and item is not None:
            self.step_asked.emit(str(item.data(Qt.ItemDataRole.UserRole)), step)
        else:
            super().keyPressEvent(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:  # noqa: N802 (Qt's name)
        """Let a queued run be dropped among the others; files are for the window."""
        super().dragMoveEvent(event)
        if event.source() is not self:
            event.ignore()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 (Qt's name)
        """Report where a queued run was dropped. The rows follow when the queue has changed."""
        if event.source() is not self:
            event.ignore()
            return
        self.drop_chosen(event.position().toPoint())
        event.setDropAction(Qt.DropAction.IgnoreAction)
        event.accept()

    def drop_chosen(self, position: QPoint) -> None:
        """Report that the chosen run was dropped here: above the run at this place, or below it in its lower half."""
        item, target = self.currentItem(), self.itemAt(position)
        if item is None:
            return
        row = self.count() if target is None else self.row(target)
        if target is not None and position.y() > self.visualItemRect(target).center().y():
            row += 1
        before = self.item(row)
        run_dir = str(item.data(Qt.ItemDataRole.UserRole))
        self.moved.emit(run_dir, str(before.data(Qt.ItemDataRole.UserRole)) if before is not None else "")

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return a narrow size: the plots need the room."""
        return QSize(210, 200)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Paint a text in an empty list."""
        handled = super().viewportEvent(event)
        if event.type() == QEvent.Type.Paint and not self.count():
            painter = QPainter(self.viewport())
            painter.setPen(self._theme.muted)
            area = QRect(self.viewport().rect()).adjusted(8, 4, -8, -8)
            words = self._empty_words or tr(EMPTY)
            painter.drawText(area, Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignTop, words)
            painter.end()
        return handled

    def _on_item_chosen(self, item: QListWidgetItem) -> None:
        self.chosen.emit(str(item.data(Qt.ItemDataRole.UserRole)))

    def _on_scrolled(self, value: int) -> None:
        """Want more rows when the last ones come into sight."""
        if self.count() >= self.wanted and value + 2 * self.viewport().height() > self.verticalScrollBar().maximum():
            self.wanted += ROWS
            self.more_wanted.emit()

    def _add_items(self, count: int) -> None:
        for _ in range(count):
            self.addItem(QListWidgetItem())

    def _make_items(self, rows: Sequence[RunRow]) -> None:
        """Create items for these runs; keep the selection and the scroll position."""
        current = self.currentItem()
        chosen = current.data(Qt.ItemDataRole.UserRole) if current else None
        scrolled = self.verticalScrollBar().value()
        self.clear()
        for row in rows:
            item = QListWidgetItem()
            self.addItem(item)
            _fill(item, row)
            if str(row.dir) == chosen:
                self.setCurrentItem(item)
        self.verticalScrollBar().setValue(scrolled)


def _fill(item: QListWidgetItem, row: RunRow) -> None:
    item.setText(f"{row.title}\n{row.outcome}")
    item.setData(Qt.ItemDataRole.UserRole, str(row.dir))
    item.setData(TONE, row.tone)
    item.setData(MARK, row.mark)
    item.setToolTip(verbatim(row.tip))
    flags = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
    item.setFlags(flags | Qt.ItemFlag.ItemIsDragEnabled if row.is_queued else flags)


class RunDelegate(ThemedDelegate):
    """Paints two lines per run, cut with an ellipsis; the tooltip has the whole text."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002, N802 (Qt's name)
        """Return the same size for all rows."""
        title, outcome = option.fontMetrics.height(), QFontMetrics(small_font(option.font)).height()
        return QSize(120, 2 * ABOVE_PX + title + outcome)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one run."""
        rect: QRect = option.rect
        title, _, outcome = str(index.data(Qt.ItemDataRole.DisplayRole)).partition("\n")
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_row_background(painter, option, self._theme)
        height, small = option.fontMetrics.height(), small_font(option.font)
        side = round(0.8 * height)
        square = QRectF(rect.left() + 6, rect.top() + ABOVE_PX + (height - side) / 2, side, side)
        paint_mark(painter, str(index.data(MARK)), square, getattr(self._theme, str(index.data(TONE))))
        left = rect.left() + round(1.7 * height)
        line = QRect(left, rect.top() + ABOVE_PX, rect.right() - left - 3, height)
        draw_elided(painter, line, title, self._theme.text)
        below = QRect(left, line.bottom() + 1, line.width(), QFontMetrics(small).height())
        draw_elided(painter, below, outcome, self._theme.muted, font=small)
        painter.restore()
