"""The tabs about a run: log, memory, processes, and the traceback of its error."""

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
    """The pages. The tab bar is part of `heading`, which is the heading of the card."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.log = LogPage(theme)
        self.memory = MemoryTab(theme)
        self.processes = ProcessesTab(theme)
        self.error = QPlainTextEdit()
        self.error.setObjectName("errorView")
        self.error.setAccessibleName("Error of the run")
        self.error.setReadOnly(True)
        self.error.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
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
        self.tabs.setUsesScrollButtons(False)  # all tabs must be visible
        self.tabs.currentChanged.connect(self.setCurrentIndex)
        self.tabs.currentChanged.connect(lambda tab: self.log.controls.setVisible(tab == LOG_TAB))
        self.heading = _heading(self.tabs, self.log.controls)

    @property
    def shows_processes(self) -> bool:
        """True if a page about processes on the devices is visible."""
        is_visible = self.isVisible() and not self.window().isMinimized()
        return is_visible and self.currentIndex() in {MEMORY_TAB, PROCESSES_TAB}

    def raise_processes(self) -> None:
        """Show the tab Processes."""
        self.tabs.setCurrentIndex(PROCESSES_TAB)
        self.processes.table.setFocus()

    def show_error(self, text: str) -> None:
        """Fill the tab Error; the empty string hides it."""
        if text == self.error.toPlainText():
            return
        self.error.setPlainText(text)
        if not text and self.currentIndex() == ERROR_TAB:
            self.tabs.setCurrentIndex(LOG_TAB)  # before hiding the tab, or Qt would show its neighbour
        self.tabs.setTabVisible(ERROR_TAB, bool(text))
        self.tabs.updateGeometry()  # Qt does not: the heading would keep its old width

    def raise_log(self, rank: int, sought: str) -> None:
        """Show the tab Log: of this rank, at the last line that contains a text."""
        self.tabs.setCurrentIndex(LOG_TAB)
        self.log.show_line(rank, sought)

    def raise_error(self) -> None:
        """Show the tab Error."""
        self.tabs.setCurrentIndex(ERROR_TAB)

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self.log.set_theme(theme)
        self.memory.set_theme(theme)
        self.processes.set_theme(theme)


def _heading(tabs: QTabBar, controls: QWidget) -> QWidget:
    """Return the tabs at the left and the controls of the log at the right."""
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
