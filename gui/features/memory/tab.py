"""The tab Memory: who uses the memory of the devices, the verdicts after a run, and what helps."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, Qt, QTimer, Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QVBoxLayout, QWidget

from core.language import tr, tr_noop
from core.memory_watch.verdict import Remedy
from gui.base.theme import mark
from gui.features.memory.table import MemoryBar, MemoryTable
from gui.runs.verdicts import VerdictRow
from gui.widgets.buttons import compact_button
from gui.widgets.plain_text import ColouredLabel, PlainLabel, Span
from gui.widgets.table import ROW_PX, empty_label

HEADING = tr_noop("What you can try, gentlest first. Trainyard never does these for you.")

BESIDE_PX = 3
"""Room above a line of text beside a button, which is higher."""


class RemedyList(QWidget):
    """Hidden while there is nothing to do."""

    copy_asked = Signal(str)
    """This command is to be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("remedyList")
        self._shown: list[Remedy] | None = None
        heading = PlainLabel(tr(HEADING))
        heading.setProperty("role", "heading")
        heading.setWordWrap(True)
        self._steps = QWidget()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(9, 4, 6, 6)
        self._layout.setSpacing(4)
        self._layout.addWidget(heading)
        self._layout.addWidget(self._steps)
        self.show_remedies(())

    def show_remedies(self, remedies: Sequence[Remedy]) -> None:
        """Show these steps."""
        if list(remedies) == self._shown:
            return
        self._shown = list(remedies)
        self.setVisible(bool(remedies))
        fresh = QWidget()
        self._layout.replaceWidget(self._steps, fresh)
        self._steps.deleteLater()
        self._steps = fresh
        grid = QGridLayout(fresh)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(3)
        grid.setColumnStretch(1, 1)
        monospace = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
        for number, remedy in enumerate(remedies):
            step = PlainLabel(f"{number + 1}.  {remedy.step}")
            step.setWordWrap(True)
            command = PlainLabel(remedy.command)
            command.setWordWrap(True)
            for text in (step, command):
                text.setContentsMargins(0, BESIDE_PX, 0, 0)
            command.setStyleSheet(f'font-family: "{monospace}";')
            command.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            spoken = tr("Copy the command: {command}", command=remedy.command)
            button = compact_button(f"remedyCopy{number}", tr("Copy"), spoken=spoken)
            button.clicked.connect(lambda _, command=remedy.command: self.copy_asked.emit(command))
            grid.addWidget(step, number, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(command, number, 1, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(button, number, 2, Qt.AlignmentFlag.AlignTop)
        grid.setColumnStretch(0, 1)


COLUMNS = (tr_noop("Device"), tr_noop("Before → peak → after"), tr_noop("Took"), tr_noop("Verdict"))
USAGE, VERDICT = 1, len(COLUMNS) - 1
MIN_PX = 150


class VerdictTable(QWidget):
    """A row of labels and a sentence for each device; hidden while it is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("releaseFindings")
        self._shown: object = None
        self._grid = QWidget()
        self.ended = _label("", "")
        self.ended.setObjectName("endedLabel")
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(9, 6, 6, 2)  # aligned with the table below
        self._layout.setSpacing(4)
        for part in (self._grid, self.ended):
            self._layout.addWidget(part)
        self.show_findings((), "")

    def show_findings(self, findings: Sequence[VerdictRow], ended: str, seen: str = "") -> None:
        """Show these verdicts; `ended`: which processes were terminated; `seen`: when, in words."""
        if (list(findings), ended, seen) == self._shown:
            return
        self._shown = (list(findings), ended, seen)
        self.setVisible(bool(findings or ended))
        self.ended.setText(ended)
        self.ended.setVisible(bool(ended))
        self._show_grid(findings, seen)

    def _show_grid(self, findings: Sequence[VerdictRow], seen: str) -> None:
        fresh = QWidget()
        self._layout.replaceWidget(self._grid, fresh)
        self._grid.deleteLater()
        self._grid = fresh
        fresh.setVisible(bool(findings))
        grid = QGridLayout(fresh)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(3)
        grid.setColumnStretch(VERDICT, 1)
        for column, title in enumerate(COLUMNS):
            heading = _label(tr(", ").join([tr(title), *([seen] if column == VERDICT and seen else [])]), "small")
            heading.setWordWrap(False)
            grid.addWidget(heading, 0, column)
        for number, finding in enumerate(findings):
            for column, label in enumerate(_labels(finding)):
                grid.addWidget(label, 2 * number + 1, column)
            grid.addWidget(_sentence(finding), 2 * number + 2, USAGE, 1, len(COLUMNS) - USAGE)


def _labels(finding: VerdictRow) -> tuple[QWidget, ...]:
    device = ColouredLabel()
    device.show_groups([(Span("\u25a0  ", finding.colour), Span(finding.label))])
    usage, took, verdict = (_label(text, "") for text in (finding.usage, finding.took, finding.verdict))
    mark(verdict, tone=finding.tone)
    for label in (usage, took, verdict):
        label.setWordWrap(False)
    return device, usage, took, verdict


def _sentence(finding: VerdictRow) -> PlainLabel:
    """Return the sentence, which spans all columns except the first."""
    label = _label(finding.sentence, "")
    label.setMinimumWidth(MIN_PX)
    return label


def _label(text: str, role: str) -> PlainLabel:
    label = PlainLabel(text)
    label.setProperty("role", role)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


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
