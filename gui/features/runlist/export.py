"""Export runs, pictures and tables: ask for a file, and write it. Rename a run, open its folder, copy its path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from core.errors import RunError
from core.history.marks import why_no_name
from core.language import tr, tr_noop, tr_plural
from core.launchers.export_model import FORMATS
from core.runs.run import Run
from core.schema.spec import RunSpec
from core.series.series import STEP
from core.table import Table
from gui.base.jobs import Jobs
from gui.plots import exports
from gui.plots.exports import KINDS, PICTURES, Outcome, picture_work
from gui.runs.rows import owner_question
from gui.widgets.dialogs import FileDialog, NameDialog, ask_first

if TYPE_CHECKING:
    from core.series.series import Axis, Series
    from gui.features.help.controller import HelpController
    from gui.plots.run_plot import Plot
    from gui.window.layout import MainPanels
    from gui.window.services import Services


SILENT_MS = 1500
"""Milliseconds of writing after which a message says that it goes on."""
MAX_REPORTED = 100
"""Runs of one report: more curves cannot be told apart, and reading them takes minutes."""
BUSY = tr_noop("Another export is under way. Try again when it has ended.")


class ExportController(QObject):
    """Another thread writes, and returns a sentence about what was written, or why nothing was."""

    def __init__(self, panels: MainPanels, services: Services, help_: HelpController) -> None:
        super().__init__()
        self._panels, self._message = panels, panels.message
        self._run_list, self._session, self._machine = services.run_list, services.session, services.machine
        self._help = help_
        self._jobs = Jobs(self, "export", guards=True)
        self._writing = ""
        """What to say when writing takes long."""
        self._silence = QTimer(self, singleShot=True)
        self._silence.timeout.connect(lambda: self._message.show_message(self._writing))
        panels.actions.provide(
            folder=lambda runs: self._help.open_path(Path(runs[0])),
            path=lambda runs: self._copy_path(runs[0]),
            rename=lambda runs: self._ask_for_name(runs[0]),
            csv=lambda runs: self._ask_for_csv(runs[0]),
            tensorboard=self._ask_for_tensorboard,
            report=self._ask_for_report,
            model=lambda runs: self._ask_for_model(runs[0]),
        )
        panels.actions.provide(tables=True, path=lambda tables: self._copy_path(tables[0]))
        panels.menu.action("pictures").triggered.connect(lambda _: self._ask_for_picture(panels.plots, "plots"))
        panels.menu.action("runTable").triggered.connect(lambda _: self._ask_for_table())
        panels.menu.action("listReport").triggered.connect(lambda _: self._ask_for_list_report())
        panels.plots.copy_asked.connect(self._copy_values)
        for tab in (panels.details.memory, panels.details.processes, panels.details.outputs):
            tab.table.table_asked.connect(self._export_table)

    # -- name and folder -------------------------------------------------------------------------

    def _copy_path(self, run_dir: str) -> None:
        path = self._machine.folder_of(Path(run_dir))
        QGuiApplication.clipboard().setText(path)
        self._message.show_passing(tr("Copied the path {path}.", path=path))

    def _ask_for_name(self, run_dir: str) -> None:
        summary = self._run_list.summary(run_dir)
        dialog = NameDialog(
            self._panels.window,
            question=tr("Name of the run"),
            name=summary.name if summary else "",
            yes=tr("Rename"),
            judge=lambda name: (why_no_name(name), ""),
        )
        dialog.named.connect(lambda name: self._rename(Path(run_dir), name))
        dialog.open()

    def _rename(self, run_dir: Path, name: str) -> None:
        try:
            self._machine.rename(run_dir, name)
        except (RunError, ValueError) as error:
            self._message.show_message(str(error), "bad")
        self._run_list.reread(run_dir)
        self._session.reread_spec(run_dir)

    def save_picture(self, widget: QWidget, name: str) -> None:
        """Ask where to save a picture of a widget. `name`: how the name of the file begins."""
        self._ask_for_picture(widget, name, of_run=False)

    # -- exports ---------------------------------------------------------------------------------

    def _ask_for_csv(self, run_dir: str) -> None:
        self.ask_kind(
            tr("Export measurements"), self._name(run_dir), (".csv",),
            lambda path, _: lambda: exports.write_csv(Path(run_dir), path),
        )  # fmt: skip

    def _ask_for_tensorboard(self, run_dirs: Sequence[str]) -> None:
        paths = [Path(each) for each in run_dirs]
        self._ask_where(
            tr("Export for TensorBoard"), f"{self._name_of(run_dirs)}-tensorboard", {"": tr("Folder (*)")},
            lambda path, _: self._write(lambda: exports.write_tensorboard(paths, path), path),
        )  # fmt: skip

    def _ask_for_report(self, run_dirs: Sequence[str]) -> None:
        if len(run_dirs) > MAX_REPORTED:
            self._message.show_message(
                tr("{count} runs are chosen, and a report compares at most {limit}. Choose fewer, or filter the list.",
                   count=len(run_dirs), limit=MAX_REPORTED),
                "warn",
            )  # fmt: skip
            return
        paths = [Path(each) for each in run_dirs]
        self.ask_kind(
            tr("Export report"), self._name_of(run_dirs), (".html",),
            lambda path, _: lambda: exports.write_report(paths, path),
        )  # fmt: skip

    def _ask_for_list_report(self) -> None:
        """Ask where to write one report on all runs that the list shows now."""
        run_dirs = [str(each.dir) for each in self._run_list.found]
        if run_dirs:
            self._ask_for_report(run_dirs)
        else:
            self._message.show_message(tr("The list shows no run, so there is nothing to report on."), "warn")

    def _ask_for_table(self) -> None:
        summaries = list(self._run_list.summaries)
        self.ask_kind(
            tr("Export table of runs"), "runs", (".csv", ".md"),
            lambda path, _: lambda: exports.write_table(summaries, path),
        )  # fmt: skip

    def _ask_for_model(self, run_dir: str) -> None:
        try:
            run = Run.attach(Path(run_dir))
            spec = run.spec()
        except ValueError as error:
            self._message.show_message(str(error), "bad")
            return
        formats = {tr("{name}, in a new folder (*)", name=name): name for name in FORMATS.get(spec.framework, ())}

        def ask() -> None:
            self._ask_where(
                tr("Export model to a new folder"), f"{self._name(run_dir)}-model", {"": ";;".join(formats)},
                lambda path, chosen: self._write_model(spec, Path(run_dir), path, formats.get(chosen)),
            )  # fmt: skip

        question = owner_question("Export", tr("the model of {name}", name=spec.name), run.owner, spec)
        ask_first(self._panels.window, question, ask)

    def _write_model(self, spec: RunSpec, run_dir: Path, path: Path, format_name: str | None) -> None:
        if self._write(lambda: exports.write_model(run_dir, path, format_name), path):
            self._silence.stop()
            self._message.show_message(
                tr("Exporting the model of {name}. This takes as long as loading it.", name=spec.name), "good"
            )

    def _ask_for_picture(self, widget: QWidget, name: str, *, of_run: bool = True) -> None:
        run = self._session.run if of_run else None
        begin = f"{self._name(str(run.dir))}-{name}" if run else name
        self.ask_kind(tr("Save picture"), begin, PICTURES, lambda path, kind: picture_work(widget, kind, path))

    def _copy_values(self, plot: Plot) -> None:
        run_series = plot.run_series
        measured = plot.measured(run_series) if run_series is not None else {}
        axis = plot.axis(run_series) if run_series is not None else STEP
        self.copy_values([(name, series, axis) for name, series in measured.items()], plot.canvas.x_range)

    def copy_values(self, measured: Sequence[tuple[str, Series, Axis]], span: tuple[float, float]) -> None:
        """Copy the values of series, with their names and axes, between two positions."""
        from gui.plots.pictures import values_text

        text, count = values_text(measured, span)
        if text and count:
            QGuiApplication.clipboard().setText(text)
            self._message.show_passing(
                tr("Copied the values that are shown: {count} rows of name, step, time and value.", count=count)
            )
        elif count:
            self._message.show_message(
                tr(
                    "The plot shows {count} values, too many for the clipboard. Zoom in, or export the measurements.",
                    count=count,
                ),
                "warn",
            )
        else:
            self._message.show_message(tr("The plot shows no values to copy."), "warn")

    def _export_table(self, form: str, name: str, table: Table[Any]) -> None:
        """Copy a table as `markdown` or `csv`, or ask for a `file` and save it there; its name begins with `name`."""
        if form == "file":
            self.ask_kind(
                tr("Save table"), name, (".csv", ".md"),
                lambda path, kind: partial(exports.write_data, table.text(kind).encode(errors="replace"), path),
            )  # fmt: skip
        else:
            self.copy_table(form, table)

    def copy_table(self, form: str, table: Table[Any]) -> None:
        """Copy a table as `markdown` or `csv`."""
        rows = len(table.rows)
        QGuiApplication.clipboard().setText(table.text(form))
        self._message.show_passing(tr_plural("Copied the table: {count} row.", "Copied the table: {count} rows.", rows))

    def ask_kind(
        self, title: str, name: str, kinds: Sequence[str], work: Callable[[Path, str], Callable[[], Outcome]]
    ) -> None:
        """Ask for a file of one of these `KINDS`, and have it written.

        `work`: called with the file and its kind in this thread; returns what another thread does.
        """

        def write(path: Path, chosen: str) -> None:
            kind = path.suffix.lower()
            if kind not in kinds:
                kind = next((each for each in kinds if tr(KINDS[each]) == chosen), kinds[0])
            self._write(work(path, kind), path)

        self._ask_where(title, f"{name}{kinds[0]}", {kind: tr(KINDS[kind]) for kind in kinds}, write)

    def _ask_where(
        self, title: str, name: str, kinds: Mapping[str, str], chosen: Callable[[Path, str], object]
    ) -> None:
        """Ask for a file; call `chosen` with it and the filter that is selected. `kinds`: filters by suffix."""
        suffixes = {words: kind for kind, words in kinds.items()}

        def take(path: str) -> None:
            suffix = suffixes.get(dialog.selectedNameFilter(), "")
            # Dialogs of some desktops leave the suffix out.
            chosen(Path(path if Path(path).suffix else f"{path}{suffix}"), dialog.selectedNameFilter())

        def follow(words: str) -> None:
            """Give the file the suffix of the kind that was selected."""
            suffix, before = suffixes.get(words, ""), dialog.selectedFiles()
            dialog.setDefaultSuffix(suffix)
            if before and suffix and Path(before[0]).suffix.lower() in kinds:
                dialog.selectFile(Path(before[0]).with_suffix(suffix).name)

        dialog = FileDialog(self._panels.window, title, take, names=";;".join(kinds.values()))
        dialog.setObjectName("exportDialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setFileMode(QFileDialog.FileMode.AnyFile)
        dialog.setDefaultSuffix(next(iter(kinds)))  # so that the dialog asks before a file with it is replaced
        dialog.filterSelected.connect(follow)
        dialog.selectFile(name)
        dialog.open()

    def _write(self, work: Callable[[], Outcome], path: Path) -> bool:
        """Let another thread write something, and show what it returns, a sentence and its tone; False while busy."""
        started = self._jobs.start(work, self._report, lambda error: self._report(exports.failure(error)))
        if started:
            self._writing = tr("Writing {path} …", path=path)
            self._silence.start(SILENT_MS)
        else:
            self._message.show_message(tr(BUSY), "warn")
        return started

    def _report(self, outcome: Outcome) -> None:
        self._silence.stop()
        self._message.show_message(*outcome)

    def _name_of(self, run_dirs: Sequence[str]) -> str:
        return self._name(run_dirs[0]) if len(run_dirs) == 1 else "runs"

    def _name(self, run_dir: str) -> str:
        summary = self._run_list.summary(run_dir)
        return (summary.name if summary else Path(run_dir).name).replace("/", "-").replace(" ", "-")
