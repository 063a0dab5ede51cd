"""The checks of one click, and the dialog whose rows fill in while they run."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from core.check.check import Check, Level, Result, State, run, scope_of
from core.check.table import WORDS, chosen, closing_line, page
from core.language import tr, tr_noop
from core.launchers import p2p
from core.text import capital
from gui.base.formatting import DASH
from gui.widgets.dialogs import InfoDialog
from gui.widgets.forms import one_of
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel, named
from gui.widgets.table import Column, RowsTable

if TYPE_CHECKING:
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
P2P, SWEEP = "--p2p", "sweep"
"""Parts of the commands in what helps that the window does, too."""


class Checks:
    """The checks of one click, for a thread; without Qt."""

    def __init__(self, survey: Survey, runs: Path, level: Level) -> None:
        self.rows: list[Row] = [(check, None) for check in chosen(level)]
        self.page = ""
        """The results for an issue, once there are all."""
        self._steps = self._do(survey, runs, level)

    def _do(self, survey: Survey, runs: Path, level: Level) -> Generator[None, None, None]:
        checks = [check for check, _ in self.rows]
        with scope_of(survey, (), computes=level > Level.QUICK, runs=runs) as scope:
            for number, result in enumerate(run(checks, scope)):
                self.rows[number] = (result.check, result)
                yield
            self.page = page(scope, [result for _, result in self.rows if result is not None])

    def look(self) -> None:
        """Do the next check; after the last, end what they have started. Raises `RunError` or `ValueError`."""
        next(self._steps, None)

    def close(self) -> None:
        """End what the checks have started."""
        self._steps.close()


class CheckDialog(InfoDialog):
    """A row for each check; below, what helps against the selected problem."""

    begun = Signal(object)
    """The user wants the checks of this level."""
    copied = Signal(str, str)
    """A text for the clipboard, and the message that says so."""
    cured = Signal(str)
    """The user wants what this command does."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, name="checkDialog", heading=tr("Check this machine"))
        self.checks: Checks | None = None
        levels = [(tr(title), level.name) for title, level in LEVELS]
        tip = tr("How much work the checks are")
        self._level = one_of("checkLevelBox", tr("What to do"), tip, lambda: None, levels)
        self._begin = self.add_button("beginCheckButton", tr("Check"), self._ask)
        self._cure = self.add_button("cureButton", "", lambda: self.cured.emit(self._command()))
        self._copy_remedy = self.add_button("copyRemedyButton", tr("Copy what helps"), self._copy)
        self._share = self.add_button("shareCheckButton", tr("Copy for an issue"), self._copy_page)
        columns: list[Column[Row]] = [
            Column("check", title=tr("Check"), text=lambda row: capital(tr(row[0].asks)),
                   tip=lambda row: tr(row[0].expected)),
            Column("result", title=tr("Result"), text=lambda row: capital(tr(WORDS[row[1].state])) if row[1] else DASH,
                   tone=lambda row: TONES[row[1].state] if row[1] else "muted"),
            Column("seen", title=tr("Seen"), text=lambda row: row[1].value if row[1] else "",
                   tip=lambda row: row[1].value if row[1] else "", width_px=self.characters(SEEN)),
        ]
        self._table = RowsTable("checkTable", tr("Checks"), columns, key=lambda row: row[0].id)
        self._table.chosen_changed.connect(self.show_remedy)
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
        self.show_remedy()

    def fail(self, text: str) -> None:
        """Say why nothing could be checked."""
        self.show_rows((), busy=False)
        self._remedy.setText(text)

    def _ask(self) -> None:
        self.begun.emit(Level[str(self._level.value())])

    def _chosen(self) -> Result | None:
        row = self._table.chosen()
        return row[1] if row else None

    def _command(self) -> str:
        """Return the command in what helps that the window does, too; the empty string if there is none."""
        result = self._chosen()
        return next((each for each in (P2P, SWEEP) if result and each in result.remedy), "")

    def show_remedy(self) -> None:
        """Show what was seen by the chosen check, and what helps."""
        result, command = self._chosen(), self._command()
        self._remedy.setText(f"{result.value}\n{result.remedy}".strip() if result else "")
        self._copy_remedy.setEnabled(bool(result and result.remedy))
        use = tr("Use direct access again") if p2p.is_off() else tr("Do without direct access")
        self._cure.setText(use if command == P2P else tr("Look for processes that are left"))
        self._cure.setVisible(bool(command))

    def _copy(self) -> None:
        if (result := self._chosen()) is not None:
            self.copied.emit(result.remedy, tr("Copied what helps."))

    def _copy_page(self) -> None:
        if self.checks is not None:
            self.copied.emit(self.checks.page, tr("Copied the results without names, paths and serial numbers."))
