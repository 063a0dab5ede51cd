"""The list of runs as a table in the place of the plots: with their results, and the settings that differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from itertools import chain, groupby
from typing import Any

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QPoint, QSize, Qt, Signal
from PySide6.QtWidgets import QWidget

from core.history.differences import Settings, telling, title_and_value
from core.history.search import FACTS, SORT, WORD, key_of, names_of
from core.history.summary import RunSummary
from core.language import tr
from gui.base.formatting import duration, moment
from gui.base.icons import SIDE_PX, glyph
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.runs.rows import mark, outcome, result, sections, tone
from gui.runs.words import loss_words
from gui.widgets.buttons import compact_button
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel, named
from gui.widgets.table import Column, LongRowsModel, RowsTable
from gui.window.feature import Feature

MEASURED, MAX_COLUMN_PX = 60, 200
"""Rows that are measured for the widths of the columns, as many as a large screen shows; and the greatest width."""


def run_columns(differing: Sequence[str]) -> list[Column[RunSummary]]:
    """Return the columns, named by the keys by which a search sorts. `differing`: the settings that get one."""
    names = {key_of(name): name for name in differing[::-1]}  # settings of one key share a column
    return [
        _column("state", tr("State"), _state, tone=lambda run: "bad" if tone(run) == "bad" else "text",
                icon=lambda run: glyph(mark(run), getattr(current_theme(), tone(run)), current_theme().disabled)),
        _column("name", tr("Name"), lambda run: f"{'★ ' if run.marks.star else ''}{run.name}"),
        _column("started", tr("Started"), lambda run: run.started and moment(run.started, time.time()),
                is_descending=True),
        _column("loss", tr("Result"), lambda run: loss_words(run.loss), is_number=True),
        *(
            _column(key, title_and_value(name, True)[0], partial(_setting, names_of(key)), is_number=True)
            for key, name in reversed(names.items())
        ),
        _column("duration", tr("Duration"), _duration, is_number=True),
        _column("devices", tr("Devices"), partial(_setting, ("devices",))),
    ]


def _column(key: str, title: str, text: Callable[[RunSummary], Any], **looks: Any) -> Column[RunSummary]:  # noqa: ANN401
    return Column(key, title=title, text=lambda run: text(run) or None, tip=lambda run: text(run) or "", **looks)


def _state(run: RunSummary) -> str:
    """Return how far a run is, or why it ended; its loss has a column of its own."""
    said, loss = result(run), loss_words(run.loss)
    return said if said != loss else outcome(run).removesuffix(f" · {loss}")


def _duration(run: RunSummary) -> str:
    seconds = FACTS["duration"](run)
    return duration(seconds) if isinstance(seconds, float) else ""


def _setting(names: Sequence[str], run: RunSummary) -> str:
    """Return the value of the first of these settings that a run has."""
    return next((title_and_value(name, run.settings[name])[1] for name in names if name in run.settings), "")


class RunFaces(QWidget):
    """`List · Table`, for the heading of the card."""

    def __init__(self) -> None:
        super().__init__()
        plots, table = tr("Show the plots again (Esc)"), tr("Show the runs and their settings as a table (Ctrl+T)")
        self.list = compact_button("listFace", tr("List"), plots, role="flat")
        self.table = compact_button("tableFace", tr("Table"), table, role="flat")
        for each in (self.list, self.table):
            each.setCheckable(True)
            each.setAutoExclusive(True)
        self.list.setChecked(True)
        hbox(self, self.list, PlainLabel("·", role="small"), self.table)


class RunTable(RowsTable[RunSummary]):
    """Any number of runs. Ticked are those that are selected."""

    ticks_changed = Signal()
    """The user has ticked other runs."""
    model_type = LongRowsModel

    def __init__(self) -> None:
        self.keys: list[str] = []
        """The directories of the runs, from top to bottom, and of those that are ticked."""
        self.ticked: list[str] = []
        self._is_own = False
        """Whether a change of the selection is not the user's."""
        enter = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        super().__init__("runTable", tr("Table of runs"), (), key=lambda run: run.dir, open_keys=enter)
        named(self, card=True)
        self.setSelectionMode(self.SelectionMode.ExtendedSelection)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.horizontalHeader().setSectionsClickable(True)
        self.horizontalHeader().setResizeContentsPrecision(MEASURED)
        self.selectionModel().selectionChanged.connect(lambda *_: self._take_selection())

    def show_runs(self, runs: Sequence[RunSummary], columns: Sequence[Column[RunSummary]]) -> None:
        """Show these runs. What is ticked stays ticked, and the current run stays current."""
        row, ticked, bar = self.currentIndex().row(), self.ticked, self.verticalScrollBar()
        current, scrolled, self._is_own = self.keys[row] if row >= 0 else "", bar.value(), True
        if [each.name for each in columns] != [each.name for each in self._model.columns]:
            self.show_columns(columns, runs)
        else:
            self._unsorted = runs
            self._model.show_rows(runs)
        self.keys = [str(run.dir) for run in runs]
        self.tick(ticked)
        index = self.model().index(self.keys.index(current) if current in self.keys else 0, 0)
        self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
        bar.setValue(scrolled)

    def tick(self, run_dirs: Collection[str]) -> None:
        """Tick these runs alone."""
        wanted, last, selection = set(run_dirs), len(self._model.columns) - 1, QItemSelection()
        rows = [row for row, key in enumerate(self.keys) if key in wanted]
        for _, group in groupby(enumerate(rows), lambda pair: pair[1] - pair[0]):  # of runs below each other
            span = [row for _, row in group]
            selection.select(self.model().index(span[0], 0), self.model().index(span[-1], last))
        self.ticked, self._is_own = [self.keys[row] for row in rows], True
        self.selectionModel().select(selection, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        self._is_own = False

    def set_heights(self) -> None:
        """Follow the size of the text."""
        super().set_heights()
        self.horizontalHeader().setMaximumSectionSize(scaled(MAX_COLUMN_PX))
        self.setIconSize(QSize(scaled(SIDE_PX), scaled(SIDE_PX)))

    def _take_selection(self) -> None:
        if not self._is_own:
            spans = [range(each.top(), each.bottom() + 1) for each in self.selectionModel().selection()]  # type: ignore[attr-defined]  # a list
            self.ticked = [self.keys[row] for row in sorted({*chain(*spans)})]
            self.ticks_changed.emit()


class RunTableController(Feature):
    """The order and the filter are those of the search, the ticks those of the list, which does not show all runs."""

    def set_up(self) -> None:
        panels, services = self.panels, self.services
        self.is_on = False
        """Whether the table is shown, or comes back when a comparison is closed."""
        self._settings, self._columns = list[Settings](), run_columns(())
        """Those of the runs for which the columns were made."""
        self._beyond: Sequence[str] = ()
        """The ticked runs below the last row of the list, as passed to it."""
        panels.faces.table.clicked.connect(self.open)
        panels.menu.provide(tableOfRuns=lambda: self.close() or self.open())
        for left in (panels.faces.list.clicked, panels.runs.chosen, panels.machine.clicked):
            left.connect(lambda _: self.close())
        panels.runs.choice_changed.connect(self._take_ticks)
        panels.runs.rows_changed.connect(self._pass_on_ticks)
        for source in (self._run_list, services.queue):
            source.changed.connect(self._show)
        services.compared.changed.connect(self._cover)

    @cached_property
    def _table(self) -> RunTable:
        """Made when it is first shown: many windows never show it."""
        table = RunTable()
        table.row_opened.connect(self._open_run)
        table.ticks_changed.connect(self._pass_on_ticks)
        table.customContextMenuRequested.connect(self._open_menu)
        table.horizontalHeader().sectionClicked.connect(self._sort)
        return table

    def open(self) -> bool:
        """Show the table; return that there is one now."""
        if self.panels.scroll.other is not self._table:
            self.panels.runs.choose("")  # ends a comparison, as choosing a run does
            self._switch(is_on=True)
        return True

    def close(self) -> bool:
        """Show the plots again; return whether there was a table."""
        was_on = self.is_on
        if was_on:
            self._switch(is_on=False)
            self._table.tick(())
            self.panels.runs.tick(self.panels.runs.ticked)  # of those that it shows
        return was_on

    leave = close

    def _switch(self, *, is_on: bool) -> None:
        self.is_on, takes_focus = is_on, is_on or self._table.hasFocus()
        (self.panels.faces.table if is_on else self.panels.faces.list).setChecked(True)
        self.panels.menu.action("tableOfRuns").setChecked(is_on)
        if not is_on and not self.services.compared.value:
            self.panels.scroll.show_instead(None)
        self._cover()
        if takes_focus:
            (self._table if is_on else self.panels.runs).setFocus()

    def _cover(self) -> None:
        """Show the table in the place of the plots, unless there is a comparison: after it, the table comes back."""
        if self.is_on and not self.services.compared.value:
            self._show()
            self.panels.scroll.show_instead(self._table)

    def _show(self) -> None:
        """Show all runs that the search finds, a row each: the list folds some of them, and shows the first ones."""
        if not self.is_on or self.services.compared.value:
            return
        search, runs = self._run_list.search, self._run_list.found
        runs = runs if search.order else [*chain(*sections(runs, self.services.queue.view))]
        settings = [run.settings for run in runs]
        if {*map(id, settings)} != {*map(id, self._settings)}:
            self._settings, self._columns = settings, run_columns(telling(settings))
        self._table.show_runs(runs, self._columns)
        self._table.show_arrow(search.order, is_descending=search.descending)
        self._take_ticks()
        self._pass_on_ticks()

    def _sort(self, at: int) -> None:
        """Write into the filter that a column sorts: in one direction, then in the other, then no more."""
        field, search, column = self.panels.run_filter, self._run_list.search, self._columns[at]
        words = [each for each in WORD.findall(field.text()) if not each.strip('"').startswith(f"{SORT}:")]
        is_other = search.order != column.name
        if is_other or search.descending is column.is_descending:
            order = f"{SORT}:{'-' if column.is_descending is is_other else ''}{column.name}"
            words.append(f'"{order}"' if " " in order else order)
        field.setText(" ".join(words))
        field.returnPressed.emit()  # at once

    def _open_run(self, run: RunSummary) -> None:
        """Show a run in the place of the table, and in the list; if several are ticked, compare them."""
        runs = self.panels.runs
        if runs.has_several:
            runs.setFocus()  # the table gives way to the comparison
            self.panels.actions.do("compare", runs.ticked)
        else:
            runs.wanted = max(runs.wanted, self._table.rows.index(run) + 1)
            runs.choose(str(run.dir))

    def _open_menu(self, place: QPoint) -> None:
        table, index = self._table, self._table.currentIndex()
        if table.selectionModel().isSelected(index):
            self.panels.runs.open_menu(table.keys[index.row()], table.viewport().mapToGlobal(place))

    def _pass_on_ticks(self) -> None:
        """Tick in the list what is ticked in the table."""
        if self.is_on:
            runs, ticked = self.panels.runs, self._table.ticked
            listed = runs.listed
            self._beyond = [each for each in ticked if each not in listed]
            runs.tick(ticked, self._beyond)

    def _take_ticks(self) -> None:
        """Tick in the table what is ticked in the list, or was until another order brought it beyond the last row."""
        if self.is_on:
            known = self.panels.runs.listed.union(self._beyond)
            wanted = {*self.panels.runs.ticked, *(each for each in self._table.ticked if each not in known)}
            if wanted != set(self._table.ticked):
                self._table.tick(wanted)
