"""What a run said: its log, and, where there is one, the traceback of its error."""

from __future__ import annotations

from PySide6.QtWidgets import QPlainTextEdit, QStackedWidget, QTabBar

from .log import LogView

LOG_TAB, ERROR_TAB = 0, 1


class Details(QStackedWidget):
    """The pages; `tabs` chooses among them and stands elsewhere, in the heading of the card."""

    def __init__(self) -> None:
        super().__init__()
        self.log = LogView()
        self.error = QPlainTextEdit()
        self.error.setObjectName("errorView")
        self.error.setAccessibleName("Error of the run")
        self.error.setReadOnly(True)
        self.error.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.tabs = QTabBar()
        self.tabs.setAccessibleName("What a run said")
        self.tabs.addTab("Log")
        self.tabs.addTab("Error")
        self.tabs.setTabVisible(ERROR_TAB, False)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.addWidget(self.log)
        self.addWidget(self.error)
        self.tabs.currentChanged.connect(self.setCurrentIndex)

    def show_error(self, text: str) -> None:
        """Offer this as the page for errors; no text takes it away."""
        if text == self.error.toPlainText():
            return
        self.error.setPlainText(text)
        self.tabs.setTabVisible(ERROR_TAB, bool(text))
        if not text:
            self.tabs.setCurrentIndex(LOG_TAB)

    def raise_error(self) -> None:
        """Turn to the page for errors."""
        self.tabs.setCurrentIndex(ERROR_TAB)
