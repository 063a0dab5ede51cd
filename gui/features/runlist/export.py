"""Export runs, pictures and tables: ask for a file, and write it. Rename a run, open its folder, copy its path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QWidget

from core.history.marks import why_no_name
from core.language import tr, tr_noop
from core.launchers.export_model import FORMATS
from core.runs.run import Run
from core.series.series import STEP
from core.table import Table
from gui.plots import exports
from gui.plots.exports import Outcome
from gui.runs.rows import owner_question
from gui.widgets.dialogs import ask_first, ask_name
from gui.widgets.messages import open_path
from gui.window.feature import Feature

if TYPE_CHECKING:
    from gui.plots.run_plot import Plot


MAX_REPORTED = 100
"""Runs of one report. The curves of more runs look alike, and reading them takes minutes."""


TOO_MANY = tr_noop("{count} runs are chosen, and a report compares at most {limit}. Choose fewer, or filter the list.")


class ExportController(Feature):
    """Asks where to write, and has it written; see `Exporter`."""

    def set_up(self) -> None:
        panels = self.panels
        self._exporter = panels.exporter
        panels.actions.provide(
            folder=lambda runs: open_path(Path(runs[0]), self._message),
            path=lambda runs: self._copy_path(runs[0]),
            rename=lambda runs: self._ask_for_name(runs[0]),
            csv=lambda runs: self._ask_for_csv(runs[0]),
            tensorboard=self._ask_for_tensorboard,
            report=self._ask_for_report,
            model=lambda runs: self._ask_for_model(runs[0]),
        )
        panels.actions.provide(tables=True, path=lambda tables: self._copy_path(tables[0]))
        panels.menu.provide(
            pictures=lambda: self._ask_for_picture(panels.plots, "plots"), runTable=self._ask_for_table,
            listReport=self._ask_for_list_report,
        )
        panels.plots.copy_asked.connect(self._copy_values)
        panels.plots.picture_asked.connect(lambda plot: self._ask_for_picture(plot, plot.objectName()))
        for tab in (panels.details.memory, panels.details.processes, panels.details.outputs):
            tab.table.table_asked.connect(self._export_table)

    # -- name and folder -------------------------------------------------------------------------

    def _copy_path(self, run_dir: str) -> None:
        path = self._machine.folder_of(Path(run_dir))
        self._message.copy(path, tr("Copied the path {path}.", path=path))

    def _ask_for_name(self, run_dir: str) -> None:
        summary = self._run_list.summary(run_dir)

        def judge(name: str) -> tuple[str, str]:
            return why_no_name(name), ""

        window, name = self.panels.window, summary.name if summary else ""
        rename = partial(self._rename, Path(run_dir))
        ask_name(window, rename, question=tr("Name of the run"), name=name, yes=tr("Rename"), judge=judge)

    def _rename(self, run_dir: Path, name: str) -> None:
        self._message.attempt(lambda: self._machine.rename(run_dir, name))
        self._run_list.reread(run_dir)
        self._session.reread_spec(run_dir)

    # -- exports ---------------------------------------------------------------------------------

    def _ask_for_csv(self, run_dir: str) -> None:
        title, work = tr("Export measurements"), partial(exports.write_csv, Path(run_dir))
        self._exporter.ask_kind(title, self._name(run_dir), (".csv",), lambda path, _: partial(work, path))

    def _ask_for_tensorboard(self, run_dirs: Sequence[str]) -> None:
        paths, kinds = [Path(each) for each in run_dirs], {"": tr("Folder (*)")}

        def write(path: Path, _: str) -> None:
            self._exporter.write(lambda: exports.write_tensorboard(paths, path), path)

        self._exporter.ask_where(tr("Export for TensorBoard"), f"{self._name_of(run_dirs)}-tensorboard", kinds, write)

    def _ask_for_report(self, run_dirs: Sequence[str]) -> None:
        if len(run_dirs) > MAX_REPORTED:
            self._message.show_message(tr(TOO_MANY, count=len(run_dirs), limit=MAX_REPORTED), "warn")
            return
        title, work = tr("Export report"), partial(exports.write_report, [Path(each) for each in run_dirs])
        self._exporter.ask_kind(title, self._name_of(run_dirs), (".html",), lambda path, _: partial(work, path))

    def _ask_for_list_report(self) -> None:
        """Ask where to write one report on all runs that the list shows now."""
        run_dirs = [str(each.dir) for each in self._run_list.found]
        if run_dirs:
            self._ask_for_report(run_dirs)
        else:
            self._message.show_message(tr("The list shows no run, so there is nothing to report on."), "warn")

    def _ask_for_table(self) -> None:
        title, work = tr("Export table of runs"), partial(exports.write_table, list(self._run_list.summaries))
        self._exporter.ask_kind(title, "runs", (".csv", ".md"), lambda path, _: partial(work, path))

    def _ask_for_model(self, run_dir: str) -> None:
        try:
            run = Run.attach(Path(run_dir))
            spec = run.spec()
        except ValueError as error:
            self._message.show_message(str(error), "bad")
            return
        formats = {tr("{name}, in a new folder (*)", name=name): name for name in FORMATS.get(spec.framework, ())}

        def write(path: Path, chosen: str) -> None:
            said = tr("Exporting the model of {name}. This takes as long as loading it.", name=spec.name)
            self._exporter.write(lambda: exports.write_model(run.dir, path, formats.get(chosen)), path, said)

        def ask() -> None:
            title, kinds = tr("Export model to a new folder"), {"": ";;".join(formats)}
            self._exporter.ask_where(title, f"{self._name(run_dir)}-model", kinds, write)

        question = owner_question("Export", tr("the model of {name}", name=spec.name), run.owner, spec)
        ask_first(self.panels.window, question, ask)

    def _ask_for_picture(self, widget: QWidget, name: str) -> None:
        run = self._session.run
        self._exporter.save_picture(widget, f"{self._name(str(run.dir))}-{name}" if run else name)

    def _copy_values(self, plot: Plot) -> None:
        run_series = plot.run_series
        measured = plot.measured(run_series) if run_series is not None else {}
        axis = plot.axis(run_series) if run_series is not None else STEP
        self._exporter.copy_values([(name, series, axis) for name, series in measured.items()], plot.canvas.x_range)

    def _export_table(self, form: str, name: str, table: Table[Any]) -> None:
        """Copy a table as `markdown` or `csv`, or ask for a `file` and save it there; its name begins with `name`."""

        def work(path: Path, kind: str) -> Callable[[], Outcome]:
            return partial(exports.write_data, table.text(kind).encode(errors="replace"), path)

        if form == "file":
            self._exporter.ask_kind(tr("Save table"), name, (".csv", ".md"), work)
        else:
            self._exporter.copy_table(form, table)

    def _name_of(self, run_dirs: Sequence[str]) -> str:
        return self._name(run_dirs[0]) if len(run_dirs) == 1 else "runs"

    def _name(self, run_dir: str) -> str:
        summary = self._run_list.summary(run_dir)
        return (summary.name if summary else Path(run_dir).name).replace("/", "-").replace(" ", "-")
