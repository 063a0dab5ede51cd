"""The page about memory: who holds it now, and what became of that of the run that is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from gui.widgets.table import ROW_PX, empty_words

from .findings import VerdictTable
from .memory_table import MemoryTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gui.style.theme import Theme
    from gui.viewmodels.devices.memory_bars import MemoryBar
    from gui.viewmodels.run.memory_verdicts import Finding

NO_DEVICES = "No device answers yet."


class MemoryTab(QScrollArea):
    """Scrolled as a whole."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("memoryTab")
        self.setAccessibleName("Memory of the devices")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the table within has it
        self.table = MemoryTable(theme)
        self.findings = VerdictTable()
        self.nothing = empty_words()
        self.empty = empty_words(NO_DEVICES)
        self._content = QWidget()
        layout = QVBoxLayout(self._content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for part in (self.findings, self.empty, self.table, self.nothing):  # the verdicts are the point: first
            layout.addWidget(part)
        layout.addStretch(1)
        self.setWidget(self._content)
        self.table.currentCellChanged.connect(lambda row, *_: self._follow(row))
        self.show_rows([])

    def show_rows(self, rows: Sequence[MemoryBar]) -> None:
        """Show who holds the memory of these devices."""
        self.table.show_rows(rows)
        self.table.setVisible(bool(rows))
        self.empty.setVisible(not rows)

    def show_findings(self, findings: Sequence[Finding], ended: str, nothing: str, seen: str) -> None:
        """Show what became of the run's memory.

        `ended`: who had to be ended; `nothing`: why there is nothing, or not all yet; `seen`: when that was so, in
        words.
        """
        self.findings.show_findings(findings, ended, seen)
        self.nothing.setText(nothing)
        self.nothing.setVisible(bool(nothing))

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.table.set_theme(theme)

    def _follow(self, row: int) -> None:
        """Scroll to the row that the keyboard has come to: the table itself never scrolls."""
        item = self.table.item(row, 0)
        if item is not None:
            middle = self.table.viewport().mapTo(self._content, self.table.visualItemRect(item).center())
            self.ensureVisible(middle.x(), middle.y(), 0, ROW_PX)
