"""A field to search a text in: how many places there are, and steps from one to the next."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPushButton, QWidget

from gui.style.theme import mark


class SearchBar(QWidget):
    """Hidden until it is opened. Enter goes on, Shift+Enter back, Escape closes it."""

    changed = Signal(str)
    """Another text is searched for; no text, once it is closed."""
    step_asked = Signal(bool)
    """The next place is wanted; or, if true, the one before."""
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.field = QLineEdit()
        self.field.setObjectName("searchField")
        self.field.setAccessibleName("Search in the log")
        self.field.setPlaceholderText("Search in the log")
        self.field.setClearButtonEnabled(True)
        self.field.installEventFilter(self)
        self.field.textChanged.connect(self._type)
        self.count = QLabel()
        self.count.setObjectName("searchCount")
        self.count.setProperty("role", "small")
        self.previous = _button("Previous", "The place before (Shift+Enter)")
        self.next = _button("Next", "The next place (Enter)")
        close = _button("Close", "Close the search (Escape)")
        self.previous.clicked.connect(lambda: self.step_asked.emit(True))
        self.next.clicked.connect(lambda: self.step_asked.emit(False))
        close.clicked.connect(self.close_search)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(4, 2, 4, 2)
        layout.setSpacing(4)
        layout.addWidget(self.field, 1)
        for widget in (self.count, self.previous, self.next, close):
            layout.addWidget(widget)
        self.show_places(0, 0)
        self.hide()

    def open_search(self) -> None:
        """Show it, ready to type."""
        if self.isHidden() and self.field.text():
            self.changed.emit(self.field.text())
        self.show()
        self.field.setFocus()
        self.field.selectAll()

    def close_search(self) -> None:
        """Hide it; what was searched for stays for the next time."""
        self.hide()
        self.changed.emit("")
        self.closed.emit()

    def show_places(self, at: int, count: int) -> None:
        """Say which of how many places is selected; 0: none of them."""
        wanted = bool(self.field.text())
        text = "" if not wanted else "nothing found" if not count else f"{at} of {count}" if at else f"{count} found"
        if self.count.text() != text:
            self.count.setText(text)
        for button in (self.previous, self.next):
            button.setEnabled(count > 0)
        nothing = wanted and not count
        if nothing is not (self.field.property("tone") == "bad"):
            mark(self.field, tone="bad" if nothing else "")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """The keys that mean something else here."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
                self.step_asked.emit(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
                return True
            if event.key() == Qt.Key.Key_Escape:
                self.close_search()
                return True
        return super().eventFilter(watched, event)

    def _type(self, text: str) -> None:
        self.changed.emit(text)


def _button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setProperty("role", "flat")
    button.setProperty("compact", True)
    button.setToolTip(tip)
    button.setAutoDefault(False)
    return button
