"""The checks of one click, and the dialog whose rows fill in while they run."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from core.check.check import Check, Level, Result, State, run
from core.check.scope import leave_out_work, scope_of
from core.check.table import WORDS, chosen, closing_line, page
from core.language import tr, tr_noop
from core.text import capital
from gui.base.formatting import DASH
from gui.widgets.dialogs import InfoDialog
from gui.widgets.forms import one_of
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel, named
from gui.widgets.table import Column, RowsTable

if TYPE_CHECKING:
    from core.check.check import Scope
    from core.devices.device import Survey

LEVELS = (
    (tr_noop("Look only (about 10 s)"), Level.QUICK),
    (tr_noop("Compute on the GPUs, too (about 2 min)"), Level.WORK),
    (tr_noop("Train, too (about 5 min)"), Level.FULL),
)
TONES = {State.PASS: "good", State.PROBLEM: "bad", State.COULD_NOT: "warn", State.NOT_APPLICABLE: "muted"}
WIDTH, HEIGHT, SEEN, LEVEL = 128, 38, 70, 44
"""Size of the dialog, and widths of a column and of the box, in characters and lines."""

Row = tuple[Check, Result | None]
"""A check, and its result as soon as there is one."""


class Checks:
    """The checks of one click, for a thread; without Qt."""

    def __init__(self, survey: Survey, runs: Path, level: Level) -> None:
        self._survey, self._runs, self._level = survey, runs, level
        self._stack = ExitStack()
        self._scope: Scope | None = None
        self.rows: list[Row] = [(check, None) for check in chosen(level)]

    def look(self, number: int) -> None:
        """Do one check. Raises `RunError` or `ValueError` if none can be done."""
        if self._scope is None:
            computes = self._level > Level.QUICK
            self._scope = self._stack.enter_context(scope_of(self._survey, (), computes=computes))
            leave_out_work(self._scope, self._runs)
        [result] = run([self.rows[number][0]], self._scope)
        self.rows[number] = (result.check, result)

    def close(self) -> None:
        """End what the checks have started."""
        self._stack.close()

    @property
    def results(self) -> list[Result]:
        return [result for _, result in self.rows if result is not None]

    def page(self) -> str:
        """Return the results for an issue."""
        assert self._scope is not None
        return page(self._scope, self.results)


class CheckDialog(InfoDialog):
    """A row for each check; below, what helps against the selected problem."""

    begun = Signal(object)
    """The user wants the checks of this level."""
    copied = Signal(str, str)
    """A text for the clipboard, and the message that says so."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, name="checkDialog", heading=tr("Check this machine"))
        self.checks: Checks | None = None
        levels = [(tr(title), level.name) for title, level in LEVELS]
        tip = tr("How much work the checks are")
        self._level = one_of("checkLevelBox", tr("What to do"), tip, lambda: None, levels)
        self._begin = self.add_button("beginCheckButton", tr("Check"), self._ask)
        self._copy_remedy = self.add_button("copyRemedyButton", tr("Copy what helps"), self._copy)
        self._share = self.add_button("shareCheckButton", tr("Copy for an issue"), self._copy_page)
        self._table: RowsTable[Row] = RowsTable("checkTable", tr("Checks"), self._columns(), key=lambda row: row[0].id)
        self._table.chosen_changed.connect(self._show_remedy)
        self._table.horizontalHeader().setStretchLastSection(True)
        self._remedy = named(PlainLabel(wraps=True, selectable=True), "checkRemedy")
        self._remedy.setMinimumHeight(self.lines(3))
        self._closing = named(PlainLabel(wraps=True), "checkClosing")
        self._level.widget.setMinimumWidth(self.characters(LEVEL))
        hbox(self.content, self._level.widget, 0)
        self.content.addWidget(self._table, 1)
        self.content.addWidget(self._remedy)
        self.content.addWidget(self._closing)
        self.resize(self.characters(WIDTH), self.lines(HEIGHT))
        self.show_rows((), busy=False)

    def show_rows(self, rows: tuple[Row, ...] | list[Row], *, busy: bool) -> None:
        """Show what is known; select the first problem once all is known."""
        self._table.show_rows(list(rows))
        results = [result for _, result in rows if result is not None]
        problem = next((each for each in results if each.state is State.PROBLEM), None)
        if not busy and problem is not None:
            self._table.choose(problem.check.id)
        self._begin.setEnabled(not busy)
        self._share.setEnabled(bool(results) and not busy)
        self._closing.setText(closing_line(results) if results and not busy else "")
        self._show_remedy()

    def fail(self, text: str) -> None:
        """Say why nothing could be checked."""
        self.show_rows((), busy=False)
        self._remedy.setText(text)

    def _columns(self) -> list[Column[Row]]:
        return [
            Column("check", title=tr("Check"), text=lambda row: capital(row[0].question),
                   tip=lambda row: row[0].in_words),
            Column("result", title=tr("Result"), text=lambda row: capital(tr(WORDS[row[1].state])) if row[1] else DASH,
                   tone=lambda row: TONES[row[1].state] if row[1] else "muted"),
            Column("seen", title=tr("Seen"), text=lambda row: row[1].value if row[1] else "",
                   tip=lambda row: row[1].value if row[1] else "", width_px=self.characters(SEEN)),
        ]

    def _ask(self) -> None:
        self.begun.emit(Level[str(self._level.value())])

    def _chosen(self) -> Result | None:
        row = self._table.chosen()
        return row[1] if row else None

    def _show_remedy(self) -> None:
        result = self._chosen()
        self._remedy.setText(f"{result.value}\n{result.remedy}".strip() if result else "")
        self._copy_remedy.setEnabled(bool(result and result.remedy))

    def _copy(self) -> None:
        if (result := self._chosen()) is not None:
            self.copied.emit(result.remedy, tr("Copied what helps."))

    def _copy_page(self) -> None:
        if self.checks is not None:
            self.copied.emit(self.checks.page(), tr("Copied the results without names, paths and serial numbers."))
