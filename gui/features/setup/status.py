"""What is known of a training before its start: a row per finding, with links that do something about it."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QWidget

from core.config.finding import FIT, PYTHON, Cure, Finding, Mark
from core.language import tr
from gui.base.text_size import scaled
from gui.base.theme import mark
from gui.machine.start_check import StartCheck
from gui.widgets.buttons import compact_button
from gui.widgets.fields import FormScroll, row_of
from gui.widgets.layouts import hbox, vbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import BREAK, PlainLabel, breakable, named

SIGNS = {Mark.READY: ("✓", "good"), Mark.WARNING: ("!", "warn"), Mark.PROBLEM: ("✕", "warn")}
"""The sign of a row, and its tone."""
SIGN_PX, MAX_PX = 12, 72
"""Width of the signs, and height from which the rows scroll if the form needs the room."""


class StartStatus(FormScroll):
    """Shows a `StartCheck`."""

    cured = Signal(object)
    """A link was clicked: its `Cure`."""

    def __init__(self) -> None:
        self._arithmetic = PlainLabel(name="batchLabel", role="muted", wraps=True, selectable=True)
        measure, tip = Cure(does=FIT, words=tr("Will it fit?")), tr("Measure in short runs whether it fits into memory")
        link = compact_button("fitButton", measure.words, tip, role="link", does=lambda: self.cured.emit(measure))
        self._fit_link = named(link, tight=True)
        link.hide()
        self._rows = QWidget()
        head = row_of(self._arithmetic, link, shares=(1, 0))
        self._layout = vbox(self._rows, head, gap=2, margins=(8, 4, 8, 4))
        self._findings: tuple[Finding, ...] = ()
        self._shown: list[QWidget] = []
        super().__init__(self._rows)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all lines at the present width."""
        return QSize(0, self._rows.heightForWidth(self.viewport().width()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return that height, up to `MAX_PX`: a low dock cuts no usual line."""
        return QSize(super().minimumSizeHint().width(), min(self.sizeHint().height(), scaled(MAX_PX)))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Let the dock follow the height that a new width needs."""
        super().resizeEvent(event)
        self.updateGeometry()

    def text(self) -> str:
        """Return the sentences that are shown, in lines."""
        return "\n".join(map(_words, self._findings))

    def offer_fit(self, *, offered: bool) -> None:
        """Offer to measure the memory."""
        if not offered and self._fit_link.hasFocus():
            self.setFocus()  # as below
        self._fit_link.setVisible(offered)

    def show_check(self, check: StartCheck) -> None:
        """Show whether the run can start, or why not."""
        self._arithmetic.show_text(check.arithmetic)
        if check.findings == self._findings:
            return
        self._findings = check.findings
        if self._rows.isAncestorOf(QApplication.focusWidget() or self):
            self.setFocus()  # not the next widget, which the space bar might press
        for each in self._shown:
            each.hide()
            each.deleteLater()
        self._shown = [self._row(each) for each in check.findings]
        self._rows.setAccessibleName(tr("Start: {text}", text=self.text()))
        announce(self._rows, self.text())

    def _row(self, finding: Finding) -> QWidget:
        row, (sign, tone) = QWidget(), SIGNS[finding.mark]
        words = breakable(_words(finding))
        parts = PlainLabel(sign), PlainLabel(words, wraps=True, selectable=BREAK not in words)
        mark(parts[0], tone=tone)
        mark(parts[1], tone=tone if finding is self._findings[0] else "")
        parts[0].setFixedWidth(scaled(SIGN_PX))
        line = hbox(row, gap=6)
        line.addWidget(parts[0], 0, Qt.AlignmentFlag.AlignTop)
        links = hbox(vbox(line, parts[1]), gap=8)
        for cure in finding.cures:
            tip = "".join(cure.values) if cure.does == PYTHON else ""
            cured = partial(self.cured.emit, cure)
            link = compact_button(f"{cure.does}Link", cure.words, tip, role="link", does=cured)
            links.addWidget(named(link, tight=True))
        links.addStretch(1)
        self._layout.addWidget(row)
        return row


def _words(finding: Finding) -> str:
    """Return the sentence, with the remedy if no link says it."""
    return finding.sentence if finding.cures else str(finding)
