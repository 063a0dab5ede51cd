"""Export measurements, models, pictures and the table of runs; rename a run, open its folder, copy its path."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog

from core import language
from core.errors import RunError
from core.language import tr, tr_noop, tr_plural, tr_stored
from core.runs.rename import rename, why_no_name
from core.runs.run import Run
from core.schema.paths import SCALING_SUFFIX
from core.system.helper_process import HelperProcess, clean_environment
from core.system.own_processes import own_command
from gui.services.background_task import BackgroundTask, reason
from gui.viewmodels.run.run_actions import obstacles
from gui.viewmodels.setup.owner_question import owner_question
from gui.widgets.file_dialog import FileDialog
from gui.widgets.name_dialog import NameDialog

from .start_controller import ask_first

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from PySide6.QtWidgets import QWidget

    from core.runs.summary import RunSummary
    from core.schema.spec import RunSpec
    from gui.panels.runs.run_menu import RunMenu
    from gui.plots.base import Plot
    from gui.services.services import Services

    from .dock_layout import MainPanels
    from .help_controller import HelpController

PNG, SVG = tr_noop("PNG picture (*.png)"), tr_noop("SVG drawing (*.svg)")
MARKDOWN = tr_noop("Markdown table (*.md)")
MAX_REPORTED = 100
"""Runs of one report: more curves cannot be told apart, and reading them takes minutes."""
BUSY = tr_noop("Another export is under way. Try again when it has ended.")


class ExportController(QObject):
    """`poll` never blocks: another thread writes, and returns a sentence about what was written, or why nothing was."""

    def __init__(self, panels: MainPanels, services: Services, help_: HelpController) -> None:
        super().__init__()
        self._panels, self._message = panels, panels.message
        self._run_list, self._session = services.run_list, services.session
        self._help = help_
        self._task: BackgroundTask[tuple[str, str]] = BackgroundTask("export")
        for menu in panels.run_menus:
            self._connect(menu)
        shown = panels.header.again.run_menu
        for changed in (self._run_list.changed, self._session.attached, panels.menu.run.aboutToShow):
            changed.connect(lambda: self._allow(shown))
        panels.menu.action("pictures").triggered.connect(lambda _: self._ask_for_picture(panels.plots, "plots"))
        panels.menu.action("runTable").triggered.connect(lambda _: self._ask_for_table())
        panels.menu.action("listReport").triggered.connect(lambda _: self._ask_for_list_report())
        panels.plots.copy_asked.connect(self._copy_values)
        panels.plots.picture_asked.connect(lambda plot: self._ask_for_picture(plot, plot.objectName()))

    @property
    def busy(self) -> bool:
        """Whether something is being written."""
        return self._task.busy

    def poll(self) -> None:
        """Report what was written."""
        outcome = self._task.poll()
        if outcome is not None:
            self._message.show_message(*outcome)

    def _connect(self, menu: RunMenu) -> None:
        menu.opened.connect(lambda: self._allow(menu))
        menu.folder_asked.connect(lambda run_dir: self._help.open_path(Path(run_dir)))
        menu.path_asked.connect(self._copy_path)
        menu.rename_asked.connect(self._ask_for_name)
        menu.csv_asked.connect(self._ask_for_csv)
        menu.tensorboard_asked.connect(self._ask_for_tensorboard)
        menu.report_asked.connect(self._ask_for_report)
        menu.model_asked.connect(self._ask_for_model)

    def _allow(self, menu: RunMenu) -> None:
        found = obstacles(self._run_list.summary(menu.run_dir))
        if menu.run_dir.endswith(SCALING_SUFFIX):
            found = dict.fromkeys(found, tr("This row is a scaling table. Click it, and choose one of its runs below."))
        menu.allow(found)

    # -- name and folder -------------------------------------------------------------------------

    def _copy_path(self, run_dir: str) -> None:
        QGuiApplication.clipboard().setText(run_dir)
        self._message.show_passing(tr("Copied the path {path}.", path=run_dir))

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
            rename(run_dir, name)
        except (RunError, ValueError) as error:
            self._message.show_message(str(error), "bad")
        self._run_list.reread(run_dir)
        self._session.reread_spec(run_dir)

    # -- of several runs -------------------------------------------------------------------------

    def save_picture(self, widget: QWidget, name: str) -> None:
        """Ask where to save a picture of a widget. `name`: how the name of the file begins."""
        self._ask_for_picture(widget, name, of_run=False)

    def save_table(self, csv_text: str, name: str) -> None:
        """Ask where to save a table."""
        self.ask_where(
            tr("Save table"), f"{name}.csv", tr("CSV table (*.csv)"), ".csv",
            lambda path, _: self.write(lambda: _bytes(csv_text.encode(), path)),
        )  # fmt: skip

    # -- exports ---------------------------------------------------------------------------------

    def _ask_for_csv(self, run_dir: str) -> None:
        self.ask_where(
            tr("Export measurements"), f"{self._name(run_dir)}.csv", tr("CSV table (*.csv)"), ".csv",
            lambda path, _: self.write(lambda: _csv(Path(run_dir), path)),
        )  # fmt: skip

    def _ask_for_tensorboard(self, run_dir: str) -> None:
        self.ask_where(
            tr("Export for TensorBoard"), f"{self._name(run_dir)}-tensorboard", tr("Folder (*)"), "",
            lambda path, _: self.write(lambda: _tensorboard(Path(run_dir), path)),
        )  # fmt: skip

    def _ask_for_report(self, run_dir: str) -> None:
        self.ask_where(
            tr("Export report"), f"{self._name(run_dir)}.html", tr("HTML page (*.html)"), ".html",
            lambda path, _: self.write(lambda: _report([Path(run_dir)], path)),
        )  # fmt: skip

    def _ask_for_list_report(self) -> None:
        """Ask where to write one report on all runs that the list shows now."""
        run_dirs = [each.dir for each in self._run_list.found]
        if not run_dirs:
            self._message.show_message(tr("The list shows no run, so there is nothing to report on."), "warn")
        elif len(run_dirs) > MAX_REPORTED:
            self._message.show_message(
                tr(
                    "The list shows {count} runs, and a report compares at most {limit}. Filter the list first.",
                    count=len(run_dirs), limit=MAX_REPORTED,
                ),
                "warn",
            )  # fmt: skip
        else:
            self.ask_where(
                tr("Export report"), "runs.html", tr("HTML page (*.html)"), ".html",
                lambda path, _: self.write(lambda: _report(run_dirs, path)),
            )  # fmt: skip

    def _ask_for_table(self) -> None:
        summaries = list(self._run_list.summaries)
        self.ask_where(
            tr("Export table of runs"), "runs.csv", f"{tr('CSV table (*.csv)')};;{tr(MARKDOWN)}", ".csv",
            lambda path, _: self.write(lambda: _table(summaries, path)),
        )  # fmt: skip

    def _ask_for_model(self, run_dir: str) -> None:
        from core.launchers.export_model import FORMATS

        try:
            run = Run.attach(Path(run_dir))
            spec = run.spec()
        except ValueError as error:
            self._message.show_message(str(error), "bad")
            return
        formats = {tr("{name}, in a new folder (*)", name=name): name for name in FORMATS.get(spec.framework, ())}

        def ask() -> None:
            self.ask_where(
                tr("Export model to a new folder"), f"{self._name(run_dir)}-model", ";;".join(formats), "",
                lambda path, chosen: self._write_model(spec, Path(run_dir), path, formats.get(chosen)),
            )  # fmt: skip

        question = owner_question("Export", tr("the model of {name}", name=spec.name), run.owner, spec)
        ask_first(self._panels.window, question, ask)

    def _write_model(self, spec: RunSpec, run_dir: Path, path: Path, format_name: str | None) -> None:
        if self.write(lambda: _model(run_dir, path, format_name)):
            self._message.show_message(
                tr("Exporting the model of {name}. This takes as long as loading it.", name=spec.name), "good"
            )

    def _ask_for_picture(self, widget: QWidget, name: str, *, of_run: bool = True) -> None:
        from gui.plots.picture import png, png_bytes, svg

        def write(path: Path, _: str) -> None:
            if path.suffix.lower() == ".svg":
                data = svg(widget)
                self.write(lambda: _bytes(data, path))
            else:
                image = png(widget)
                self.write(lambda: _bytes(png_bytes(image), path))

        run = self._session.run if of_run else None
        begin = f"{self._name(str(run.dir))}-{name}" if run else name
        self.ask_where(tr("Save picture"), f"{begin}.png", f"{tr(PNG)};;{tr(SVG)}", ".png", write)

    def _copy_values(self, plot: Plot) -> None:
        from gui.plots.picture import values_text

        text, count = values_text(plot)
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

    def ask_where(
        self, title: str, name: str, filters: str, suffix: str, chosen: Callable[[Path, str], object]
    ) -> None:
        """Ask for a file; call `chosen` with it and the filter that is selected. `suffix`: added if there is none."""

        def take(path: str) -> None:
            chosen(_with_suffix(path, suffix, dialog), dialog.selectedNameFilter())

        dialog = FileDialog(self._panels.window, title, take, names=filters)
        dialog.setObjectName("exportDialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setFileMode(QFileDialog.FileMode.AnyFile)
        dialog.selectFile(name)
        dialog.open()

    def write(self, work: Callable[[], tuple[str, str]]) -> bool:
        """Let another thread write something, and show what it returns, a sentence and its tone; False while busy."""
        started = self._task.start(
            work, lambda error: (tr("Nothing was exported: {reason}", reason=_sentence(error)), "bad")
        )
        if not started:
            self._message.show_message(tr(BUSY), "warn")
        return started

    def _name(self, run_dir: str) -> str:
        summary = self._run_list.summary(run_dir)
        return (summary.name if summary else Path(run_dir).name).replace("/", "-").replace(" ", "-")


# -- on another thread -----------------------------------------------------------------------------


def _csv(run_dir: Path, path: Path) -> tuple[str, str]:
    document, said = _by_command("export", [run_dir], "--csv", path, "--force", "--json")
    written = tr("Wrote {count} values to {path}.", count=json.loads(document)["rows"], path=path)
    return f"{written} {said}".rstrip(), "warn" if said else "good"


def _tensorboard(run_dir: Path, path: Path) -> tuple[str, str]:
    # Without --force, as the dialog asks about files and not about folders.
    document, said = _by_command("export", [run_dir], "--tensorboard", path, "--json")
    (run,) = json.loads(document)["runs"]
    written = tr("Wrote {count} values to {path}.", count=run["values"], path=path)
    return f"{written} {said}".rstrip(), "warn" if said else "good"


def _report(run_dirs: Sequence[Path], path: Path) -> tuple[str, str]:
    # Without --json, so that the report speaks the language of the window.
    said = _by_command("report", run_dirs, "--output", path, "--force")[1]
    return f"{tr('Wrote {path}.', path=path)} {said}".rstrip(), "warn" if said else "good"


def _by_command(command: str, run_dirs: Sequence[Path], option: str, path: Path, *more: str) -> tuple[bytes, str]:
    """Let a command write: a long run would keep this process from drawing.

    Returns what the command prints, and what it says beside that. Raises `RunError` with its sentence.
    """
    words = own_command(
        "core.cli", command, *(str(each.absolute()) for each in run_dirs), option, str(path.absolute()), *more
    )
    environment = {**clean_environment(), "LANGUAGE": language.current()}
    with HelperProcess(words, environment=environment, stderr=subprocess.PIPE) as process:
        process.wait()
        failed = process.exit_code() != 0
    lines = process.errors.decode(errors="replace").splitlines()
    said = tr_stored(" ".join(line.removeprefix("trainyard: ") for line in lines))  # with --json it is English
    if failed:
        raise RunError(said or tr("{path} could not be written.", path=path))
    return bytes(process.output), said


def _table(summaries: list[RunSummary], path: Path) -> tuple[str, str]:
    from core.series.report import export_runs

    export_runs(summaries, path)
    return tr_plural("Wrote {count} run to {path}.", "Wrote {count} runs to {path}.", len(summaries), path=path), "good"


def _model(run_dir: Path, folder: Path, format_name: str | None) -> tuple[str, str]:
    from core.launchers.export_model import export_model

    done = export_model(run_dir, folder, format_name=format_name)
    return tr(
        "Wrote the model of step {step} to {folder}: {files}.",
        step=done.step,
        folder=done.folder,
        files=tr(", ").join(done.files),
    ), "good"


def _bytes(data: bytes, path: Path) -> tuple[str, str]:
    from core.series.export_file import export_bytes

    export_bytes(data, path)
    return tr("Wrote {path}.", path=path), "good"


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, (RunError, ValueError)) else f"{reason(error)}."


def _with_suffix(path: str, suffix: str, dialog: QFileDialog) -> Path:
    """Return the path with the suffix of the chosen kind, unless the user typed one."""
    if not suffix or Path(path).suffix:
        return Path(path)
    others = {tr(SVG): ".svg", tr(MARKDOWN): ".md"}
    return Path(f"{path}{others.get(dialog.selectedNameFilter(), suffix)}")
