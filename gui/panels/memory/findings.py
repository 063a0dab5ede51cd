"""What was found out about the memory of a run: before, at most, after, and the verdict, for each of its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QVBoxLayout, QWidget

from gui.style.theme import mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gui.viewmodels.run.memory_verdicts import Finding

COLUMNS = ("Device", "Before → most → after", "Took", "Verdict")
FALL, VERDICT = 1, len(COLUMNS) - 1
MIN_PX = 150


class VerdictTable(QWidget):
    """A row of labels for each device, and a sentence below it; nothing is seen where there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("releaseFindings")
        self._shown: object = None
        self._grid = QWidget()
        self.ended = _label("", "")
        self.ended.setObjectName("endedLabel")
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(9, 6, 6, 2)  # as far in as what the table below it says
        self._layout.setSpacing(4)
        for part in (self._grid, self.ended):
            self._layout.addWidget(part)
        self.show_findings((), "")

    def show_findings(self, findings: Sequence[Finding], ended: str, seen: str = "") -> None:
        """Show these; `ended`: who had to be ended; `seen`: when that was so, in words."""
        if (list(findings), ended, seen) == self._shown:
            return
        self._shown = (list(findings), ended, seen)
        self.setVisible(bool(findings or ended))
        self.ended.setText(ended)
        self.ended.setVisible(bool(ended))
        self._show_grid(findings, seen)

    def _show_grid(self, findings: Sequence[Finding], seen: str) -> None:
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
            heading = _label(f"{title}, {seen}" if column == VERDICT and seen else title, "small")
            heading.setWordWrap(False)
            grid.addWidget(heading, 0, column)
        for number, finding in enumerate(findings):
            for column, label in enumerate(_labels(finding)):
                grid.addWidget(label, 2 * number + 1, column)
            grid.addWidget(_sentence(finding), 2 * number + 2, FALL, 1, len(COLUMNS) - FALL)


def _labels(finding: Finding) -> tuple[QLabel, ...]:
    device = QLabel(f'<span style="color:{finding.colour}">\u25a0</span>&nbsp; {finding.label}')
    fall, took, verdict = (_label(text, "") for text in (finding.fall, finding.took, finding.verdict))
    mark(verdict, tone=finding.tone)
    for label in (fall, took, verdict):
        label.setWordWrap(False)
    return device, fall, took, verdict


def _sentence(finding: Finding) -> QLabel:
    """Across all columns but the first: beside its device, and not in a narrow column of its own."""
    label = _label(finding.sentence, "")
    label.setMinimumWidth(MIN_PX)
    return label


def _label(text: str, role: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setProperty("role", role)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
