"""What a run said, and what became of it: its log, who holds memory, the processes; and the traceback of its error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QSizePolicy, QStackedWidget, QTabBar, QWidget

from gui.panels.log.log_page import LogPage
from gui.panels.memory.memory_tab import MemoryTab
from gui.panels.memory.processes_tab import ProcessesTab

if TYPE_CHECKING:
    from gui.style.theme import Theme

LOG_TAB, MEMORY_TAB, PROCESSES_TAB, ERROR_TAB = range(4)


class DetailTabs(QStackedWidget):
    """The pages; `tabs` chooses among them and stands elsewhere: in `heading`, which is that of the card."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.log = LogPage(theme)
        self.memory = MemoryTab(theme)
        self.processes = ProcessesTab(theme)
        self.error = QPlainTextEdit()
        self.error.setObjectName("errorView")
        self.error.setAccessibleName("Error of the run")
        self.error.setReadOnly(True)
        self.error.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.tabs = QTabBar()
        self.tabs.setAccessibleName("Log, memory, processes")
        for title, page in (
            ("Log", self.log), ("Memory", self.memory), ("Processes", self.processes), ("Error", self.error),
        ):  # fmt: skip
            self.tabs.addTab(title)
            self.addWidget(page)
        self.tabs.setTabVisible(ERROR_TAB, False)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(False)  # all of them are always to be seen
        self.tabs.currentChanged.connect(self.setCurrentIndex)
        self.tabs.currentChanged.connect(lambda tab: self.log.controls.setVisible(tab == LOG_TAB))
        self.heading = _heading(self.tabs, self.log.controls)

    @property
    def shows_holders(self) -> bool:
        """Whether a page can be seen that tells who is on the devices."""
        can_be_seen = self.isVisible() and not self.window().isMinimized()
        return can_be_seen and self.currentIndex() in {MEMORY_TAB, PROCESSES_TAB}

    def raise_processes(self) -> None:
        """Turn to the page with the processes."""
        self.tabs.setCurrentIndex(PROCESSES_TAB)
        self.processes.table.setFocus()

    def show_error(self, text: str) -> None:
        """Offer this as the page for errors; no text takes it away."""
        if text == self.error.toPlainText():
            return
        self.error.setPlainText(text)
        if not text and self.currentIndex() == ERROR_TAB:
            self.tabs.setCurrentIndex(LOG_TAB)  # before it goes: Qt would turn to the page beside it
        self.tabs.setTabVisible(ERROR_TAB, bool(text))
        self.tabs.updateGeometry()  # which Qt leaves out: the heading would keep the width of the tabs before

    def raise_error(self) -> None:
        """Turn to the page for errors."""
        self.tabs.setCurrentIndex(ERROR_TAB)

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.log.set_theme(theme)
        self.memory.set_theme(theme)
        self.processes.set_theme(theme)


def _heading(tabs: QTabBar, controls: QWidget) -> QWidget:
    """The tabs on the left, and on the right what belongs to a page."""
    heading = QWidget()
    grows = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
    grows.setHorizontalStretch(100)
    heading.setSizePolicy(grows)
    layout = QHBoxLayout(heading)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.addWidget(tabs)
    layout.addStretch(1)
    layout.addWidget(controls)
    return heading
