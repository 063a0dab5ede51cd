"""The tab Memory: who uses the memory of each device, and the memory verdicts of the shown run."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, Qt, QTimer
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from core.diagnosis.remedies import Remedy
from core.language import tr, tr_noop
from gui.viewmodels.devices.memory_bars import MemoryBar
from gui.viewmodels.run.memory_verdicts import VerdictRow
from gui.widgets.table import ROW_PX, empty_label

from .memory_table import MemoryTable
from .remedy_list import RemedyList
from .verdict_table import VerdictTable

NO_DEVICES = tr_noop("Waiting for the devices …")


class MemoryTab(QScrollArea):
    """Scrolls as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("memoryTab")
        self.setAccessibleName(tr("Memory of the devices"))
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the table has it
        self.table = MemoryTable()
        self.findings = VerdictTable()
        self.remedies = RemedyList()
        self.nothing = empty_label()
        self.empty = empty_label(tr(NO_DEVICES))
        self._content = QWidget()
        layout = QVBoxLayout(self._content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for part in (self.findings, self.remedies, self.empty, self.table, self.nothing):  # the verdicts matter most
            layout.addWidget(part)
        layout.addStretch(1)
        self.setWidget(self._content)
        self.table.selectionModel().currentRowChanged.connect(lambda index, _: self._scroll_to(index))
        self.show_rows([])

    def show_rows(self, rows: Sequence[MemoryBar]) -> None:
        """Show who uses the memory of these devices."""
        self.table.show_rows(rows)
        self.table.setVisible(bool(rows))
        self.empty.setVisible(not rows)

    def show_findings(self, findings: Sequence[VerdictRow], ended: str, nothing: str, seen: str) -> None:
        """Show the memory verdicts of the run.

        `ended`: which processes were terminated; `nothing`: why verdicts are missing; `seen`: when, in words.
        """
        self.findings.show_findings(findings, ended, seen)
        self.nothing.setText(nothing)
        self.nothing.setVisible(bool(nothing))

    def show_remedies(self, remedies: Sequence[Remedy]) -> None:
        """Show what can be tried about memory that was not released; nothing hides the list."""
        self.remedies.show_remedies(remedies)

    def scroll_to_remedies(self) -> None:
        """Scroll to what can be tried, once it is laid out."""
        QTimer.singleShot(0, self, lambda: self.verticalScrollBar().setValue(self.remedies.y()))

    def _scroll_to(self, index: QModelIndex) -> None:
        """Scroll to the current row: the table itself never scrolls."""
        if index.isValid():
            middle = self.table.viewport().mapTo(self._content, self.table.visualRect(index).center())
            self.ensureVisible(middle.x(), middle.y(), 0, ROW_PX)
