"""What is done with the files of runs: rename, export and delete them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QWidget

from core.history import removal, trash
from core.history.marks import why_no_name
from core.history.removal import Removed
from core.history.summary import RunSummary
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.launchers.export_model import FORMATS
from core.results import scaling_command
from core.results.scaling_record import ScalingRecord, read_record
from core.runs.facts import state_info
from core.runs.run import Run
from core.series.series import STEP
from core.table import Table
from core.text import disk, join_names
from gui.base.jobs import Jobs, reason
from gui.machine.machine import RemovalCheck
from gui.plots import exports
from gui.plots.exports import Outcome
from gui.runs.actions import not_done
from gui.runs.rows import owner_question, run_title
from gui.widgets.dialogs import NameDialog, ask, ask_first
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
        question, yes = tr("Name of the run"), tr("Rename")
        NameDialog(window, rename, question=question, name=name, yes=yes, judge=judge).open()

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


NAMED = 8
"""Runs that a question names; the others are counted."""
DELETE_ONE = tr_noop(
    "It is {state} and takes {size} of disk. Its folder is deleted, with its curves, its log and its checkpoints:\n"
    "{folder}"
)
FINAL = tr_noop("This cannot be undone.")
KEPT = tr_noop(
    "For a week it can be restored (menu Tools), and takes this room. Delete it for good to have the room now."
)
KEPT_ALL = tr_noop(
    "For a week they can be restored (menu Tools), and take this room. Delete them for good to have the room now."
)


class RemovalController(Feature):
    """A run that the window shows is no longer shown once it is being deleted."""

    def set_up(self) -> None:
        panels = self.panels
        self._tables = self.services.scaling_tables
        self._checking, self._removing = Jobs(self, "size", guards=True), Jobs(self, "removal", guards=True)
        self._checking_table = Jobs(self, "table-size", guards=True)
        self._removing_table = Jobs(self, "table-removal", guards=True)
        self._gone: list[tuple[RunSummary, Removed]] = []
        """What was deleted since the question."""
        self._restoring = Jobs(self, "restoring", guards=True)
        panels.actions.provide(remove=self._check)
        if self._machine.is_here:
            panels.menu.provide(restoreRun=self._restore_last)
        panels.actions.provide(tables=True, remove=lambda tables: self._check_table(Path(tables[0])))

    def opened(self) -> None:
        """Remove what was deleted more than a week ago."""
        if self._machine.is_here:
            self._restoring.add(lambda: trash.purge(self._machine.root), lambda _: None, lambda _: None)

    def _check(self, run_dirs: Sequence[str]) -> None:
        wanted = set(run_dirs)
        chosen = [each for each in self._run_list.summaries if str(each.dir) in wanted]
        folders, machine = [each.dir for each in chosen], self._machine
        if chosen:
            self._checking.start(
                lambda: [machine.check_removal(each) for each in folders],
                lambda checks: self._ask_about(chosen, checks),
                lambda error: self._ask_about(chosen, [_check_failed(error)] * len(chosen)),
            )

    def _ask_about(self, chosen: Sequence[RunSummary], checks: Sequence[RemovalCheck]) -> None:
        """Ask about the runs that can be deleted, and say why the others cannot."""
        pairs = list(zip(chosen, checks, strict=True))
        possible = [(run, check.size_bytes) for run, check in pairs if not check.why_not]
        refused = {run.name: check.why_not for run, check in pairs if check.why_not}
        if len(chosen) == 1 and refused:
            self._message.show_message(checks[0].why_not, "bad")
        elif not possible:
            self._message.show_message(not_done(refused), "bad")
        elif len(chosen) == 1:
            self._ask_about_one(*possible[0])
        else:
            self._ask_about_several(possible, refused)

    def _ask_about_several(self, possible: Sequence[tuple[RunSummary, int]], refused: Mapping[str, str]) -> None:
        now, total = time.time(), disk(sum(size for _, size in possible))
        lines = [tr("{title} ({size})", title=run_title(run, now), size=disk(size)) for run, size in possible[:NAMED]]
        if len(possible) > NAMED:
            lines.append(tr("and {count} more", count=len(possible) - NAMED))
        size = tr("They take {size} of disk. Their folders are deleted, with curves, logs and checkpoints:", size=total)
        parts = [size, "\n".join(lines), not_done(refused) if refused else ""]
        question = tr_plural("Delete {count} run?", "Delete {count} runs?", len(possible))
        texts = tr(KEPT_ALL), tr("Delete them"), tr("Delete them for good")
        self._ask_to_delete([run for run, _ in possible], question, parts, texts)

    def _ask_about_one(self, chosen: RunSummary, size_bytes: int) -> None:
        state, folder = tr(state_info(chosen.state).label).lower(), self._machine.folder_of(chosen.dir)
        words = tr(DELETE_ONE, state=state, size=disk(size_bytes), folder=folder)
        question = tr("Delete the run {title}?", title=run_title(chosen, time.time()))
        texts = tr(KEPT), tr("Delete it"), tr("Delete it for good")
        self._ask_to_delete([chosen], question, [words], texts)

    def _ask_to_delete(
        self, runs: Sequence[RunSummary], question: str, parts: Sequence[str], texts: tuple[str, str, str]
    ) -> None:
        """Ask how to delete runs: they can be restored, unless for good or on a host.

        `texts`: how long they are kept, and those of the buttons that keep them and that do not.
        """
        here, (kept, yes, for_good) = self._machine.is_here, texts
        words = "\n\n".join(filter(None, [*parts, kept if here else tr(FINAL)]))
        other = (for_good, partial(self._remove, runs, for_good=True)) if here else None
        ask(self.panels.window, lambda: self._remove(runs), question=question, words=words, yes=yes, other=other)

    def _remove(self, runs: Sequence[RunSummary], *, for_good: bool = False) -> None:
        """Delete runs, one after the other, after those that wait."""
        for run in runs:
            self._session.leave(run.dir)
            take = partial(self._take_removed, run)
            self._removing.add(partial(self._machine.remove, run.dir, for_good=for_good), take, take)

    def _take_removed(self, run: RunSummary, removed: Removed | Exception) -> None:
        """Note what became of a run, and report it once all are deleted."""
        self._session.leave(run.dir)  # it may have been opened while it waited for its turn
        self._gone.append((run, _not_removed(run.dir, removed) if isinstance(removed, Exception) else removed))
        if self._removing.busy:
            return
        gone, self._gone = self._gone, []
        self._run_list.poll(now=True)
        problems = [removed.problem for _, removed in gone if removed.problem]
        done = [run for run, removed in gone if not removed.problem]
        freed = disk(sum(removed.freed_bytes for _, removed in gone))
        kept = [removed.kept for _, removed in gone if removed.kept is not None]
        if problems:
            self._message.show_message(join_sentences(problems), "bad")
        elif kept:
            said = tr("Deleted {name}.", name=done[0].name)
            if len(done) > 1:
                said = tr_plural("Deleted {count} run.", "Deleted {count} runs.", len(done))
            undo = partial(self._restore, kept)
            self._message.show_message(said, "good", details=True, details_text=tr("Undo"), does=undo)
        elif len(done) == 1:
            said = tr("Deleted {name}. This freed {size} of disk space.", name=done[0].name, size=freed)
            self._message.show_passing(said)
        else:
            said = tr_plural(
                "Deleted {count} run. This freed {size} of disk space.",
                "Deleted {count} runs. This freed {size} of disk space.",
                len(done),
                size=freed,
            )
            self._message.show_passing(said)

    def _restore_last(self) -> None:
        """Restore the run that was deleted last."""
        last = trash.kept(self._machine.root)[:1]
        if not last:
            self._message.show_passing(tr("There is no deleted run to restore. Deleted runs are kept for a week."))
        self._restore(last)

    def _restore(self, deleted: Sequence[Path]) -> None:
        def show(restored: list[Path]) -> None:
            self._run_list.poll(now=True)
            names = join_names([each.name for each in restored])
            self._message.show_passing(tr("Restored {names}.", names=names))

        if deleted:
            self._restoring.add(
                lambda: [trash.restore(each) for each in deleted], show,
                lambda error: self._message.show_message(tr(str(error)), "bad"),
            )

    # -- scaling tables --------------------------------------------------------------------------

    def _check_table(self, path: Path) -> None:
        """Find out whether a table can be deleted, and what its runs take."""
        table = self._tables.table(path)
        if table is None:
            return
        record = table.record

        def check() -> tuple[ScalingRecord, RemovalCheck, int]:
            now = read_record(record.root, record.name)
            why_not, runs = scaling_command.why_not(now), scaling_command.own_runs(now)
            return now, RemovalCheck(why_not=why_not, size_bytes=sum(map(removal.size_bytes, runs))), len(runs)

        self._checking_table.start(
            check,
            lambda found: self._ask_about_table(*found),
            lambda error: self._ask_about_table(record, _check_failed(error), 0),
        )

    def _ask_about_table(self, record: ScalingRecord, check: RemovalCheck, runs: int) -> None:
        if check.why_not:
            self._message.show_message(check.why_not, "bad")
            return
        question = tr("Delete the scaling table {name}?", name=record.name)
        all_of_it = partial(self._delete_table, record, with_runs=True)
        table_only = partial(self._delete_table, record, with_runs=False)
        window = self.panels.window
        if not runs:
            words = tr("None of its runs exists any more. This cannot be undone.")
            ask(window, table_only, question=question, words=words, yes=tr("Delete it"))
            return
        words = tr_plural(
            "It has {count} run, which takes {size} of disk. Without the table, the run stays in the list. Deleting "
            "it, too, deletes its folder, with curves, log and checkpoints.\n\nThis cannot be undone.",
            "It has {count} runs, which take {size} of disk. Without the table, the runs stay in the list. Deleting "
            "them, too, deletes their folders, with curves, logs and checkpoints.\n\nThis cannot be undone.",
            runs, size=disk(check.size_bytes),
        )
        yes, other = tr("Delete table and runs"), (tr("Delete the table only"), table_only)
        ask(window, all_of_it, question=question, words=words, yes=yes, other=other)

    def _delete_table(self, record: ScalingRecord, *, with_runs: bool) -> None:
        if with_runs:
            for each in scaling_command.own_runs(record):
                self._session.leave(each)
        root, name = record.root, record.name
        self._removing_table.start(
            lambda: scaling_command.delete(root, name, with_runs=with_runs),
            lambda removed: self._report_table(name, removed),
            lambda error: self._report_table(name, _not_removed(record.path, error)),
        )

    def _report_table(self, name: str, removed: Removed) -> None:
        self._run_list.poll(now=True)
        self._tables.poll(now=True)
        if removed.problem:
            self._message.show_message(removed.problem, "bad")
        else:
            said, freed = tr("Deleted the scaling table {name}.", name=name), disk(removed.freed_bytes)
            if removed.freed_bytes:
                said = tr("Deleted the scaling table {name}. This freed {size} of disk space.", name=name, size=freed)
            self._message.show_passing(said)


def _not_removed(path: Path, error: Exception) -> Removed:
    problem = tr("{folder} could not be deleted: {reason}.", folder=path, reason=reason(error))
    return Removed(freed_bytes=0, problem=problem)


def _check_failed(error: Exception) -> RemovalCheck:
    return RemovalCheck(why_not=tr("The run could not be checked: {reason}.", reason=reason(error)))
