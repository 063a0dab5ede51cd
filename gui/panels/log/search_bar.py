"""A search field with the number of matches and buttons to step through them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from core.language import tr, tr_plural
from gui.style.formatting import number
from gui.style.theme import mark
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel, verbatim


class SearchBar(QWidget):
    """Hidden until opened. Enter selects the next match, Shift+Enter the previous one, Escape closes the bar."""

    changed = Signal(str)
    """The searched text has changed; the empty string after closing."""
    step_asked = Signal(bool)
    """The next match is requested (False), or the previous one (True)."""
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.field = QLineEdit()
        self.field.setObjectName("searchField")
        self.field.setAccessibleName(tr("Search in the log"))
        self.field.setPlaceholderText(tr("Search in the log"))
        self.field.setClearButtonEnabled(True)
        self.field.installEventFilter(self)
        self.field.textChanged.connect(self.changed)
        self.count = PlainLabel(name="searchCount", role="small")
        self.previous = _button(tr("Previous"), tr("Previous match (Shift+Enter)"))
        self.next = _button(tr("Next"), tr("Next match (Enter)"))
        close = _button(tr("Close"), tr("Close the search (Escape)"))
        self.previous.clicked.connect(lambda: self.step_asked.emit(True))
        self.next.clicked.connect(lambda: self.step_asked.emit(False))
        close.clicked.connect(self.close_search)
        hbox(self, (self.field, 1), self.count, self.previous, self.next, close, gap=4, margins=(4, 2, 4, 2))
        self.show_matches(0, 0)
        self.hide()

    def open_search(self) -> None:
        """Show the bar and focus its field."""
        if self.isHidden() and self.field.text():
            self.changed.emit(self.field.text())
        self.show()
        self.field.setFocus()
        self.field.selectAll()

    def close_search(self) -> None:
        """Hide the bar; its text stays for the next search."""
        self.hide()
        self.changed.emit("")
        self.closed.emit()

    def show_matches(self, at: int, here: int, in_file: int | None = None) -> None:
        """Show the number of matches and of the selected one; `at` 0: none is selected.

        `in_file`: the matches in the whole file, of which only those `here` are shown; None if all are.
        """
        wanted = bool(self.field.text())
        some = here > 0 or bool(in_file)
        text = _count_words(at, here, in_file) if wanted else ""
        if self.count.text() != text:
            self.count.setText(text)
        for button in (self.previous, self.next):
            button.setEnabled(some)
        no_match = wanted and not some
        if no_match is not (self.field.property("tone") == "bad"):
            mark(self.field, tone="bad" if no_match else "")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Handle Enter, Shift+Enter and Escape."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
                self.step_asked.emit(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
                return True
            if event.key() == Qt.Key.Key_Escape:
                self.close_search()
                return True
        return super().eventFilter(watched, event)


def _count_words(at: int, here: int, in_file: int | None) -> str:
    """Return `3 of 51`, or `3 of 51 here, 2 062 in all`."""
    if not here and not in_file:
        return tr("no matches")
    if in_file is None:
        return (
            tr("{at} of {count}", at=number(at, 1), count=number(here, 1))
            if at
            else tr_plural("{shown} match", "{shown} matches", here, shown=number(here, 1))
        )
    shown = (
        tr("{at} of {count} here", at=number(at, 1), count=number(here, 1))
        if at
        else tr("{count} here", count=number(here, 1))
    )
    return tr("{shown}, {count} in all", shown=shown, count=number(max(in_file, here), 1))


def _button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setProperty("role", "flat")
    button.setProperty("compact", True)
    button.setToolTip(verbatim(tip))
    button.setAutoDefault(False)
    return button
