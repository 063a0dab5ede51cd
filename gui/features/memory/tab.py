"""The tab Memory: who uses the memory of the devices, the verdicts after a run, and what helps."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, Qt, QTimer, Signal
from PySide6.QtWidgets import QScrollArea, QWidget

from core.language import tr, tr_noop
from core.memory_watch.verdict import Remedy
from gui.base.theme import mark
from gui.features.memory.table import MemoryBar, MemoryTable
from gui.runs.verdicts import VerdictRow
from gui.widgets.buttons import compact_button
from gui.widgets.layouts import grid, scroll_down, vbox
from gui.widgets.messages import MessageStrip
from gui.widgets.plain_text import ColouredLabel, PlainLabel, Span, monospaced, named
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
        self._steps = QWidget()
        heading = PlainLabel(tr(HEADING), role="heading", wraps=True)
        vbox(self, heading, self._steps, gap=4, margins=(9, 4, 6, 6))
        self.show_remedies(())

    def show_remedies(self, remedies: Sequence[Remedy]) -> None:
        """Show these steps, which can be tried about memory that was not released."""
        if list(remedies) == self._shown:
            return
        self._shown = list(remedies)
        self.setVisible(bool(remedies))
        self._steps = _replaced(self._steps)
        steps = grid(self._steps)
        steps.setColumnStretch(0, 1)
        for number, remedy in enumerate(remedies):
            step = PlainLabel(f"{number + 1}.  {remedy.step}", wraps=True)
            command = PlainLabel(remedy.command, wraps=True, selectable=True)
            monospaced(command)
            for text in (step, command):
                text.setContentsMargins(0, BESIDE_PX, 0, 0)
            spoken = tr("Copy the command: {command}", command=remedy.command)
            button = compact_button(f"remedyCopy{number}", tr("Copy"), spoken=spoken)
            button.clicked.connect(lambda _, command=remedy.command: self.copy_asked.emit(command))
            for column, part in enumerate((step, command, button)):
                steps.addWidget(part, number, column, Qt.AlignmentFlag.AlignTop)


def _replaced(former: QWidget) -> QWidget:
    """Put an empty widget in the place of another one, and return it."""
    fresh, parent = QWidget(), former.parentWidget()
    layout = parent.layout() if parent is not None else None
    assert layout is not None
    layout.replaceWidget(former, fresh)
    former.deleteLater()
    return fresh


COLUMNS = (tr_noop("Device"), tr_noop("Before → peak → after"), tr_noop("Took"), tr_noop("Verdict"))
USAGE, VERDICT = 1, len(COLUMNS) - 1
MIN_PX = 150


class VerdictTable(QWidget):
    """A row of labels and a sentence for each device; hidden while it is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("releaseFindings")
        self._shown: object = None
        self._rows = QWidget()
        self.ended = PlainLabel(name="endedLabel", wraps=True, selectable=True)
        vbox(self, self._rows, self.ended, gap=4, margins=(9, 6, 6, 2))  # aligned with the table below
        self.show_findings((), "")

    def show_findings(self, findings: Sequence[VerdictRow], ended: str, seen: str = "") -> None:
        """Show these verdicts; `ended`: which processes were terminated; `seen`: when, in words."""
        if (list(findings), ended, seen) == self._shown:
            return
        self._shown = (list(findings), ended, seen)
        self.setVisible(bool(findings or ended))
        self.ended.setText(ended)
        self.ended.setVisible(bool(ended))
        self._rows = _replaced(self._rows)
        self._rows.setVisible(bool(findings))
        rows = grid(self._rows)
        rows.setColumnStretch(1, 0)
        rows.setColumnStretch(VERDICT, 1)
        for column, title in enumerate(COLUMNS):
            text = tr(", ").join([tr(title), *([seen] if column == VERDICT and seen else [])])
            rows.addWidget(PlainLabel(text, role="small", selectable=True), 0, column)
        for line, finding in enumerate(findings):
            device = ColouredLabel()
            device.show_groups([(Span("\u25a0  ", finding.colour), Span(finding.label))])
            texts = (finding.usage, finding.took, finding.verdict)
            labels = [PlainLabel(text, selectable=True) for text in texts]
            mark(labels[-1], tone=finding.tone)
            for column, label in enumerate((device, *labels)):
                rows.addWidget(label, 2 * line + 1, column)
            sentence = PlainLabel(finding.sentence, wraps=True, selectable=True)
            sentence.setMinimumWidth(MIN_PX)
            rows.addWidget(sentence, 2 * line + 2, USAGE, 1, len(COLUMNS) - USAGE)


NO_DEVICES = tr_noop("Waiting for the devices …")


class MemoryTab(QScrollArea):
    """Scrolls as a whole."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "memoryTab", tr("Memory of the devices"))
        scroll_down(self)  # the table has the keys
        self.table = MemoryTable()
        self.findings = VerdictTable()
        self.remedies = RemedyList()
        self.nothing = empty_label()
        self.empty = empty_label(tr(NO_DEVICES))
        self._content = QWidget()
        # The verdicts matter most.
        vbox(self._content, self.findings, self.remedies, self.empty, self.table, self.nothing, 0, gap=2)
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

    def scroll_to_remedies(self) -> None:
        """Scroll to what can be tried, once it is laid out."""
        QTimer.singleShot(0, self, lambda: self.verticalScrollBar().setValue(self.remedies.y()))

    def _scroll_to(self, index: QModelIndex) -> None:
        """Scroll to the current row: the table itself never scrolls."""
        if index.isValid():
            middle = self.table.viewport().mapTo(self._content, self.table.visualRect(index).center())
            self.ensureVisible(middle.x(), middle.y(), 0, ROW_PX)


class LeftoversStrip(MessageStrip):
    """A message about processes of former runs, with two buttons."""

    show_asked = Signal()
    end_asked = Signal()

    def __init__(self) -> None:
        super().__init__("leftoversStrip")
        show, end = tr("Show these processes"), tr("End these processes (asks first)")
        self.show_button = compact_button("showLeftovers", tr("Show"), show, spoken=show)
        self.end_button = compact_button("endLeftovers", tr("End…"), end, spoken=end)
        for button, asked in ((self.show_button, self.show_asked), (self.end_button, self.end_asked)):
            self.add_button(button)
            button.clicked.connect(asked)
