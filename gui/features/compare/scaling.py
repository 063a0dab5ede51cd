"""Begin, continue and stop scaling tables, and show them in the list of runs and in dialogs of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QProgressBar, QWidget

from core.catalog.strategies import strategy_title
from core.config.choices import RecipeChoices
from core.history.device_use import use_sentences
from core.history.search import value_of
from core.language import tr, tr_noop, tr_plural
from core.queue.listing import duration_words
from core.results import scaling_command
from core.results.report import scaling_report
from core.results.scaling_record import FIXED, MAX_REPEATS, PER_DEVICE, free_name, new_record, plan_specs
from core.results.scaling_table import ScalingTable, text_table
from core.runs.facts import RunState
from core.schema.paths import SCALING_SUFFIX
from core.schema.spec import RunSpec
from gui.base.jobs import Jobs, sentence
from gui.base.text_size import scaled
from gui.base.theme import mark
from gui.features.compare.scaling_tables import ScalingPlot, bars_of, shown_cells, table_sentence
from gui.plots import exports
from gui.plots.exports import KINDS, PICTURES, Outcome, picture_work
from gui.runs.rows import run_title
from gui.widgets.context_menu import Entry, copy_entries, give_menu
from gui.widgets.dialogs import InfoDialog, Question
from gui.widgets.fields import choice, form, label, line, whole_number
from gui.widgets.plain_text import PlainLabel, named
from gui.widgets.table import RowsTable, text_columns
from gui.window.feature import Feature

NOT_LISTED = tr_noop("The runs of the scaling table {name} are not in the list now. Clear the filter.")
NEEDS_RECIPE = tr_noop("A scaling table is measured with a recipe, and a script is chosen. Choose a recipe instead.")
PICTURE_SIZE = QSize(720, 320)


class ScalingController(Feature):
    """Most windows measure nothing: what is needed for it is imported when it is first used."""

    def set_up(self) -> None:
        panels = self.panels
        self._export, self._tables = panels.exporter, self.services.scaling_tables
        self._starting = Jobs(self, "scaling", guards=True)
        self._views: dict[Path, ScalingTableDialog] = {}
        panels.menu.provide(scaling=self.ask, exportScaling=self._export_newest)
        panels.menu.file.aboutToShow.connect(self._allow)
        panels.runs.chosen.connect(self._choose)
        self._tables.changed.connect(self._show)
        panels.actions.provide(tables=True, report=lambda tables: self._ask_where(Path(tables[0])))

    # -- the list of runs ------------------------------------------------------------------------

    def _choose(self, run_dir: str) -> None:
        """Unfold the row of a table and open its view, or fold it."""
        path = Path(run_dir)
        if path.name.endswith(SCALING_SUFFIX) and self._tables.turn(path):
            self.open_view(path)

    # -- begin, continue, stop -------------------------------------------------------------------

    def ask(self) -> None:
        """Ask what is to be measured: with the recipe, its settings and the devices that are chosen now."""
        if self.panels.setup.is_script:
            self._message.show_message(tr(NEEDS_RECIPE), "warn")
            return
        try:
            name = free_name(self._run_list.root, None, self.panels.setup.recipe.chosen_recipe().name)
        except ValueError as error:
            self._message.show_message(str(error), "bad")
            return
        dialog = ScalingDialog(self.panels.window, name=name, judge=self._judge)
        dialog.accepted.connect(lambda: self._begin(dialog.chosen))
        dialog.open()

    def _judge(self, asked: Asked) -> tuple[str, str]:
        """Return why this cannot be measured, and what would be trained."""
        try:
            specs = self._specs(asked)
        except ValueError as error:
            return str(error), ""
        lines = [
            tr_plural(
                "{count} device: strategy {strategy}, global batch {batch}",
                "{count} devices: strategy {strategy}, global batch {batch}",
                len(spec.devices), strategy=strategy_title(spec), batch=spec.training.batch_size,
            )
            for spec in specs
        ]
        return "", "\n".join([*lines, *self._expected(specs, asked[2]), *self._sharing(specs[-1])])

    def _expected(self, specs: Sequence[RunSpec], repeats: int) -> list[str]:
        """Return how long it takes if n devices are n times as fast, from the last finished run of the recipe."""
        wanted = specs[0].own_recipe.path, specs[0].framework, RunState.FINISHED
        for each in self._run_list.summaries:
            found = each.settings.get("recipe"), each.settings.get("framework"), each.state
            count = value_of(each, "devices") if found == wanted else None
            if isinstance(count, int) and each.plan and each.plan.epochs and each.started and each.ended:
                share_s = (each.ended - each.started) * count / each.plan.epochs
                seconds = repeats * sum(share_s * spec.training.epochs / len(spec.devices) for spec in specs)
                run, about = run_title(each, time.time()), duration_words(seconds)
                return [tr("Judging by {run}, all of it takes {about}.", run=run, about=about)]
        return []

    def _specs(self, asked: Asked) -> list[RunSpec]:
        """Return the specs of a new table. Raises `ValueError` with a sentence."""
        name, batch, _ = asked
        choices = self.panels.setup.choices()
        if not isinstance(choices, RecipeChoices):
            raise ValueError(tr(NEEDS_RECIPE))  # noqa: TRY004 (the user chose a script)
        found = free_name(self._run_list.root, name, "")
        return plan_specs(choices, self._monitor.all_machines.devices, name=found, batch=batch)

    def _sharing(self, spec: RunSpec) -> list[str]:
        """Return that devices are used by live runs, in sentences: the numbers would be those of shared devices."""
        chosen = [device for device in self._monitor.all_machines.devices if device.id in spec.devices]
        return [
            tr("{sentence}. A shared device measures less than it can.", sentence=sentence)
            for sentence in use_sentences(chosen, self.services.queue.titles).values()
        ]

    def _begin(self, asked: Asked) -> None:
        try:
            specs, root = self._specs(asked), self._run_list.root
            name = free_name(root, asked[0], "")
        except ValueError as error:
            self._message.show_message(str(error), "bad")
            return
        record = new_record(root, specs, name=name, batch=asked[1], repeats=asked[2])
        devices = self._monitor.all_machines.devices
        self._start(record.path, lambda: scaling_command.begin(record, devices))

    def _continue(self, path: Path) -> None:
        table = self._tables.table(path)
        if table is not None:
            record = table.record
            self._start(path, lambda: scaling_command.launch(record))

    def _start(self, path: Path, work: Callable[[], object]) -> None:
        if not self._starting.start(work, lambda _: self._show_started(path), self._show_failure):
            self._message.show_message(tr("A scaling table is being started. Try again when that is done."), "warn")

    def _show_started(self, path: Path) -> None:
        self._run_list.poll(now=True)
        self._tables.poll(now=True)
        self._tables.unfold(path)
        self.open_view(path)

    def _show_failure(self, error: Exception) -> None:
        self._message.show_message(sentence(error), "bad")
        self._run_list.poll(now=True)
        self._tables.poll(now=True)

    def _stop(self, path: Path) -> None:
        table = self._tables.table(path)
        if table is not None and not scaling_command.stop(table.record):
            self._message.show_message(tr("Nothing of this table is measured now."), "warn")

    # -- the view --------------------------------------------------------------------------------

    def open_view(self, path: Path) -> None:
        """Open the view of a table, or raise it."""
        if path in self._views:
            self._views[path].raise_()
            self._views[path].activateWindow()
            return
        dialog = ScalingTableDialog(
            self.panels.window, name=path.name.removesuffix(SCALING_SUFFIX), copy=partial(self._copy, path),
            export=partial(self._ask_where, path), save_picture=partial(self._ask_where, path, PICTURES),
        )
        dialog.compare.clicked.connect(lambda: self._compare(path))
        dialog.go_on.clicked.connect(lambda: self._continue(path))
        dialog.halt.clicked.connect(lambda: self._stop(path))
        dialog.row_chosen.connect(lambda row: self._show_run(path, row))
        dialog.finished.connect(lambda _: self._views.pop(path, None))
        self._views[path] = dialog
        self._show_view(path)
        dialog.show()

    def _show(self) -> None:
        """Show what has become of the tables."""
        for path in list(self._views):
            self._show_view(path)

    def _show_view(self, path: Path) -> None:
        dialog, table = self._views[path], self._tables.table(path)
        if table is None:
            dialog.close()
            return
        numbers, total, is_complete = table.table, len(table.states), table.is_complete
        said, is_measured = table_sentence(table), table.is_measured
        dialog.show_progress(said, done=table.done, total=total, is_measured=is_measured, is_complete=is_complete)
        dialog.show_table(shown_cells(numbers) if numbers else [], numbers.notices if numbers else [])
        dialog.plot.show_bars(bars_of(numbers) if numbers else [])

    def _show_run(self, path: Path, row: int) -> None:
        """Show the newest run of a row in the window."""
        table = self._tables.table(path)
        numbers = table.table if table is not None else None
        runs = [each.run_id for each in numbers.rows[row].trained if each.run_id] if numbers else []
        if runs:
            self.panels.runs.choose(str(path.parent / runs[-1]))

    def _compare(self, path: Path) -> None:
        """Compare the runs of a table in the window, in the place of its view."""
        table = self._tables.table(path)
        if table is None:
            return
        self._tables.unfold(path)
        runs = self.panels.runs
        runs.tick([str(each) for each in table.finished])
        if not runs.has_several:
            self._message.show_message(tr(NOT_LISTED, name=table.record.name), "warn")
            return
        self._views[path].reject()
        self.panels.actions.do("compare", runs.ticked)

    # -- export ----------------------------------------------------------------------------------

    def _allow(self) -> None:
        """Offer the export if there is a table with numbers."""
        self.panels.menu.action("exportScaling").setEnabled(any(each.table for each in self._tables.tables))

    def _export_newest(self) -> None:
        """Export the table whose view is open, else that with the newest run."""
        made = {each.record.path: [run.run for run in each.record.runs] for each in self._tables.tables if each.table}
        if made:
            self._ask_where(max(made, key=lambda path: (path in self._views, made[path])))

    def _copy(self, path: Path, form: str) -> None:
        """Copy a table as text."""
        shown = self._tables.table(path)
        if shown is not None and shown.table is not None:
            self._export.copy_table(form, text_table(shown.table))

    def _ask_where(self, path: Path, kinds: Sequence[str] = tuple(KINDS)) -> None:
        """Ask for a file; its kind decides what is written: the table, a page with everything, or the plot."""
        shown = self._tables.table(path)
        numbers = shown.table if shown is not None else None
        if numbers is None:
            return
        self._export.ask_kind(tr("Export scaling table"), numbers.record.name, kinds, partial(_work, numbers))


def _work(table: ScalingTable, target: Path, kind: str) -> Callable[[], Outcome]:
    """Return what writes a file of this kind on another thread."""
    if kind == ".html":
        return lambda: exports.write_data(scaling_report(table, made=time.time()), target)
    if kind in PICTURES:
        plot = ScalingPlot()
        plot.resize(PICTURE_SIZE)
        plot.show_bars(bars_of(table))
        return picture_work(plot, kind, target)
    return partial(exports.write_data, text_table(table).text(kind).encode(), target)


WIDTH_PX = 460
ABOUT = tr_noop(
    "The chosen recipe is trained on 1, 2, 4, … of the ticked devices, one training after the other. "
    "The measuring goes on when the window is closed."
)
ABOUT_BATCHES = tr_noop(
    "With a fixed global batch, n devices compute an n-th of it each; with a fixed batch per device it grows"
)
Asked = tuple[str, str, int]
"""Name, one of `core.results.scaling_record.BATCHES`, repeats."""


class ScalingDialog(Question):
    """Asks what to measure."""

    def __init__(self, parent: QWidget, *, name: str, judge: Callable[[Asked], tuple[str, str]]) -> None:
        """`judge`: returns why this cannot be measured (or the empty string), and what would be trained."""
        super().__init__(parent, "scalingDialog", tr("Measure"))
        self._judge = judge
        self._make_fields(name)
        words = _wrapped(tr(ABOUT))
        self.preview, self.problem = named(_wrapped(), "scalingPreview"), named(_wrapped(), "scalingProblem")
        mark(self.problem, tone="bad")
        fields = QWidget()
        rows = form(fields)
        heading = PlainLabel(tr("Measure a scaling table"), role="heading")
        self.lay_out(heading, words, fields, self.preview, self.problem)
        for text, widget in ((tr("Name"), self.name), (tr("Batch"), self.batch), (tr("Repeats"), self.repeats)):
            rows.addRow(label(text, widget), widget)
        self._check()

    def _make_fields(self, name: str) -> None:
        self.name = line("scalingName", tr("Name"), tr("The names of its runs begin with it"))
        self.name.setText(name)
        batches = ((tr("Fixed global batch"), FIXED), (tr("Fixed batch per device"), PER_DEVICE))
        self.batch = choice("scalingBatch", tr("Batch"), tr(ABOUT_BATCHES), batches)
        spread = tr("Train so many times on each number of devices, for the spread")
        self.repeats = whole_number("scalingRepeats", tr("Repeats"), spread, minimum=1, value=1)
        self.repeats.setMaximum(MAX_REPEATS)
        self.name.textChanged.connect(lambda _: self._check())
        self.batch.currentIndexChanged.connect(lambda _: self._check())
        self.repeats.valueChanged.connect(lambda _: self._check())

    @property
    def chosen(self) -> Asked:
        """What is asked for now."""
        return self.name.text(), str(self.batch.currentData()), self.repeats.value()

    def _check(self) -> None:
        problem, preview = self._judge(self.chosen)
        self.yes.setEnabled(not problem)
        self.problem.show_text(problem)
        self.preview.show_text(preview)


def _wrapped(text: str = "") -> PlainLabel:
    made = PlainLabel(text, wraps=True)
    made.setMinimumWidth(scaled(WIDTH_PX))
    return made


SIZE = QSize(900, 540)
NUMBERS = (0, 2, 3, 4, 5, 6)
"""Columns of `core.results.scaling_table.text_table` that are numbers."""


class ScalingTableDialog(InfoDialog):
    """Shows one table. It does not block the window, and is deleted when it is closed."""

    row_chosen = Signal(int)
    """A row was double-clicked, or Enter was pressed on it: its runs shall be shown."""

    def __init__(
        self, parent: QWidget, *, name: str, copy: Callable[[str], object], export: Callable[[], object],
        save_picture: Callable[[], object],
    ) -> None:
        """`copy`: called with `csv` or `markdown`."""
        self._shown: list[list[str]] = []  # first, as Qt tells about the font at once
        super().__init__(parent, name="scalingTableDialog", heading=tr("Scaling of {name}", name=name))
        self.sentence = PlainLabel(name="scalingState", wraps=True)
        self.progress = named(QProgressBar(), spoken=tr("Trainings that have finished"))
        self.progress.setTextVisible(False)
        title, columns, keys = self.windowTitle(), text_columns(()), (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        self.table = RowsTable("scalingTableView", title, columns, key=lambda row: row[0], open_keys=keys)
        self.plot = ScalingPlot()
        self.notices = PlainLabel(name="scalingNotices", wraps=True)
        mark(self.notices, tone="warn")
        for part, share in ((self.sentence, 0), (self.progress, 0), (self.table, 0), (self.plot, 1), (self.notices, 0)):
            self.content.addWidget(part, share)
        file = tr("Write the table as CSV, Markdown or HTML, or its plot as PNG or SVG")
        one_plot = tr("Draw the runs of the table in one plot, in the window")
        others = tr("Make the trainings that have not finished")
        no_other = tr("Stop the training under way, and start no other")
        self.export = self.add_button("exportButton", tr("Export…"), export, tip=file)
        self.compare = self.add_button("compareRunsButton", tr("Compare curves"), tip=one_plot)
        self.go_on = self.add_button("continueButton", tr("Continue"), tip=others)
        self.halt = self.add_button("haltButton", tr("Stop measuring"), tip=no_other)
        self.table.row_opened.connect(lambda row: self.row_chosen.emit(self.table.rows.index(row)))
        entry: Entry = (tr("Export…"), export)
        give_menu(self.table, "scalingTableMenu", lambda _: [*copy_entries(copy), entry])
        give_menu(self.plot, "scalingPlotMenu", lambda _: [(tr("Save picture…"), save_picture), entry])
        self.resize(scaled(SIZE.width()), scaled(SIZE.height()))

    def show_progress(self, sentence: str, *, done: int, total: int, is_measured: bool, is_complete: bool) -> None:
        """Say what is going on; offer to stop it or to continue."""
        self.sentence.setText(sentence)
        self.progress.setRange(0, total)
        self.progress.setValue(done)
        self.progress.setVisible(is_measured)
        self.compare.setEnabled(done > 1)
        self.halt.setVisible(is_measured)
        self.go_on.setVisible(not is_measured and not is_complete)

    def show_table(self, cells: Sequence[Sequence[str]], notices: Sequence[str]) -> None:
        """Show the table, the first row of `cells` its headings. Without any, there are no numbers yet."""
        self.export.setEnabled(bool(cells))
        self.table.setVisible(bool(cells))
        self.plot.setVisible(bool(cells))
        self.notices.show_text("\n".join(notices))
        if not cells or [list(row) for row in cells] == self._shown:
            return
        self._shown = [list(row) for row in cells]
        headings, *rows = cells
        self.table.show_columns(text_columns(headings, NUMBERS), rows)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the text, after the table has."""
        super().changeEvent(event)
        if self._shown and event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            QTimer.singleShot(0, self, self._fit)

    def _fit(self) -> None:
        """Give the table and the dialog the room that the cells need."""
        self.table.horizontalHeader().setStretchLastSection(False)
        self.table.resizeColumnsToContents()
        wanted = self.table.horizontalHeader().length() + self.characters(6)
        self.table.horizontalHeader().setStretchLastSection(True)
        scroll_px = self.table.horizontalScrollBar().sizeHint().height() if wanted > self.maximum_px else 0
        self.table.setFixedHeight(self.table.height_of_rows() + scroll_px)
        if self.width() < min(wanted, self.maximum_px):
            self.resize(min(wanted, self.maximum_px), self.height())

    @property
    def maximum_px(self) -> int:
        """The greatest width that the dialog takes by itself."""
        return round(0.9 * self.screen().availableGeometry().width())
