"""The memory verdicts of a run: before, peak, after and verdict of each device."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from core.language import tr, tr_noop
from gui.style.theme import mark
from gui.viewmodels.run.memory_verdicts import VerdictRow
from gui.widgets.plain_text import ColouredLabel, PlainLabel, Span

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
