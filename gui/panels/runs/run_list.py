"""The list of runs: the newest first; a click, or Enter, looks at one, and a menu begins again from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QPainter
from PySide6.QtWidgets import QListWidget, QListWidgetItem

from .run_delegate import TONE, RunDelegate
from .run_menu import RunMenu

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gui.style.theme import Theme
    from gui.viewmodels.run.run_rows import RunRow

EMPTY = "No runs yet.\n\nWhat you start stays here, also after the window was closed."


class RunList(QListWidget):
    """One item a run: its text has the two lines, its UserRole the directory."""

    chosen = Signal(str)
    """A run's directory."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("runList")
        self.setAccessibleName("Runs")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListWidget.ScrollMode.ScrollPerPixel)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self._rows: list[RunRow] = []
        self._theme = theme
        self._delegate = RunDelegate(theme, self)
        self.setItemDelegate(self._delegate)
        self.run_menu = RunMenu(self)
        self.run_menu.setObjectName("runListMenu")
        self.itemClicked.connect(self._choose)
        self.itemActivated.connect(self._choose)

    def show_rows(self, rows: Sequence[RunRow]) -> None:
        """Show these runs."""
        if rows == self._rows:
            return
        if [row.dir for row in rows] != [row.dir for row in self._rows]:
            self._make_items(rows)
        for number, row in enumerate(rows):
            if number >= len(self._rows) or row != self._rows[number]:
                _fill(self.item(number), row)
        self._rows = list(rows)

    def mark_chosen(self, run_dir: Path | None) -> None:
        """Show which run is looked at."""
        for number, row in enumerate(self._rows):
            if row.dir == run_dir:
                self.setCurrentRow(number)
                return
        self.setCurrentRow(-1)

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._theme = theme
        self._delegate.set_theme(theme)
        self.viewport().update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 (Qt's name)
        """The menu of the run under the mouse; asked for by the keyboard, of the one that is chosen."""
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        item = self.itemAt(event.pos()) if by_mouse else self.currentItem()
        if item is not None:
            self.run_menu.show_run(str(item.data(Qt.ItemDataRole.UserRole)))
            below = self.viewport().mapToGlobal(self.visualItemRect(item).bottomLeft())
            self.run_menu.popup(event.globalPos() if by_mouse else below)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Narrow: the plots need the room."""
        return QSize(210, 200)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Say so where there are none yet."""
        handled = super().viewportEvent(event)
        if event.type() == QEvent.Type.Paint and not self.count():
            painter = QPainter(self.viewport())
            painter.setPen(self._theme.muted)
            area = QRect(self.viewport().rect()).adjusted(8, 4, -8, -8)
            painter.drawText(area, Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignTop, EMPTY)
            painter.end()
        return handled

    def _choose(self, item: QListWidgetItem) -> None:
        self.chosen.emit(str(item.data(Qt.ItemDataRole.UserRole)))

    def _make_items(self, rows: Sequence[RunRow]) -> None:
        """Items for these runs; the one that was chosen stays chosen, and the place scrolled to stays."""
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
    item.setToolTip(row.tip)
