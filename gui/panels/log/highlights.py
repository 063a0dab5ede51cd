"""Mark what is visible of a log: the matches of a search, and the numbers that became values of a metric.

A number has its tooltip and, for a right click, a menu that says what the number is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QTimer, Signal
from PySide6.QtGui import QAction, QColor, QContextMenuEvent, QHelpEvent, QTextBlock, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QMenu, QTextEdit

from core.language import tr
from core.metrics.rules.rule import METRIC, NO_METRIC, STEP, number_at
from gui.style.contrast import legible, parse
from gui.style.theme import current_theme, look
from gui.widgets.plain_text import menu_text, verbatim

if TYPE_CHECKING:
    from gui.viewmodels.run.log_numbers import LogNumber, LogNumbers

    from .log_view import LogView

MAX_MARKS = 500
"""Maximum number of marked matches."""
NUMBERS_MS = 250
"""Milliseconds between two looks for numbers while text is coming in."""


class Highlights(QObject):
    """Marks visible lines only: there may be a hundred thousand."""

    pointed = Signal(str, int, str)
    """A line, the position of a number in it, and what the user says it is: a role of a rule."""

    def __init__(self, view: LogView) -> None:
        super().__init__(view)
        self._view = view
        self._query = ""
        self._numbers: LogNumbers | None = None
        self._number_marks: list[QTextEdit.ExtraSelection] = []
        self._due = QTimer(self, singleShot=True, interval=NUMBERS_MS)
        self._due.timeout.connect(self._mark_numbers)
        view.viewport().installEventFilter(self)
        look.changed.connect(self.update_marks)

    @property
    def marked(self) -> list[str]:
        """The numbers that are marked."""
        return [mark.cursor.selectedText() for mark in self._number_marks]

    def search(self, query: str) -> None:
        """Mark all visible matches of a text, ignoring case; the empty string removes the marks."""
        self._query = query
        self.update_marks()

    def show_numbers(self, numbers: LogNumbers | None) -> None:
        """Mark the numbers of this run from now on; None: it has none, and none can be taught."""
        self._numbers = numbers
        self._number_marks = []
        self.update_marks()

    def update_marks(self) -> None:
        """Mark what is visible now: the matches at once, the numbers soon."""
        if self._numbers is not None and not self._due.isActive():
            self._due.start()
        self._show()

    def _show(self) -> None:
        marks = [*self._number_marks]
        if self._query:
            match = QTextCharFormat()
            match.setBackground(QColor(current_theme().warn_soft))
            match.setForeground(QColor(current_theme().warn))
            marks += [_mark(found, match) for found in islice(self._visible_matches(), MAX_MARKS)]
        if marks or self._view.extraSelections():
            self._view.setExtraSelections(marks)

    def _mark_numbers(self) -> None:
        if self._numbers is None or not self._view.isVisible():
            return
        looks, theme = {}, current_theme()
        for is_validation, colour in ((False, theme.train), (True, theme.validation)):
            looks[is_validation] = QTextCharFormat()
            ink = legible(parse(colour), parse(theme.panel), theme.text_contrast)
            looks[is_validation].setForeground(QColor(*ink))
            looks[is_validation].setFontUnderline(True)
        self._number_marks = []
        for block in self.visible_blocks():
            for number in self._numbers.of_line(block.text()):
                cursor = QTextCursor(block)
                cursor.setPosition(block.position() + number.begin)
                cursor.setPosition(block.position() + number.end, QTextCursor.MoveMode.KeepAnchor)
                self._number_marks.append(_mark(cursor, looks[number.is_validation]))
        self._show()

    def _visible_matches(self) -> Iterator[QTextCursor]:
        document = self._view.document()
        for block in self.visible_blocks():
            found = QTextCursor(block)
            for _ in range(block.text().lower().count(self._query.lower())):  # else find() goes on to the end
                found = document.find(self._query, found)
                yield QTextCursor(found)

    def visible_blocks(self) -> Iterator[QTextBlock]:
        """Yield the lines that can be seen."""
        block, at = self._view.firstVisibleBlock(), 0.0
        while block.isValid() and at < self._view.viewport().height():
            yield block
            at += self._view.blockBoundingRect(block).height()
            block = block.next()

    # -- the number under the mouse --------------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Show the tooltip of a number, and the menu with what it can be."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            number = self.number_under(event.pos())
            self._view.viewport().setToolTip(verbatim(words(number) if number else ""))  # which Qt shows then
        if isinstance(event, QContextMenuEvent):
            menu = self.menu_at(event.pos())
            menu.popup(event.globalPos())
            return True
        return super().eventFilter(watched, event)

    def number_under(self, position: QPoint) -> LogNumber | None:
        """Return the recorded number at a position of the view; None if there is none."""
        line, at = self._place(position)
        numbers = self._numbers.of_line(line) if self._numbers is not None else ()
        return next((each for each in numbers if each.begin <= at <= each.end), None)

    def menu_at(self, position: QPoint) -> QMenu:
        """Return the menu for a position of the view: the usual one, with what a number there can be."""
        menu: QMenu = self._view.createStandardContextMenu(position)
        line, at = self._place(position)
        span = number_at(line, at) if self._numbers is not None else None
        if span is not None:
            first = menu.actions()[0]
            shown = line[span[0] : span[1]]
            for name, text, role in (
                ("plotNumber", tr("Plot {number} as ...", number=shown), METRIC.strip()),
                ("noMetric", tr("{number} is not a metric", number=shown), NO_METRIC),
                ("stepNumber", tr("{number} is the step", number=shown), STEP),
            ):
                action = QAction(menu_text(text), menu)
                action.setObjectName(name)
                action.triggered.connect(lambda _, role=role, line=line, at=span[0]: self.pointed.emit(line, at, role))
                menu.insertAction(first, action)
            menu.insertSeparator(first)
        menu.aboutToHide.connect(menu.deleteLater)
        return menu

    def _place(self, position: QPoint) -> tuple[str, int]:
        cursor = self._view.cursorForPosition(position)
        return cursor.block().text(), cursor.positionInBlock()


def words(number: LogNumber) -> str:
    """Return what a number is: its metric and its step."""
    return tr("{metric}, step {step}", metric=number.metric, step=number.step)


def _mark(cursor: QTextCursor, look: QTextCharFormat) -> QTextEdit.ExtraSelection:
    mark = QTextEdit.ExtraSelection()
    mark.cursor, mark.format = cursor, look
    return mark
