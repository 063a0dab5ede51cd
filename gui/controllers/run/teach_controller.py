"""Mark the numbers of the log that became values, and teach what the others are by pointing at them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject

from core.language import join_sentences, tr, tr_noop
from core.metrics.rules.rule import METRIC, STEP, number_at
from gui.controllers.window.dock_layout import MainPanels
from gui.panels.log.teach_dialog import TeachDialog
from gui.services.run.rule_teacher import Answer, Pointed, ReadAnew
from gui.services.services import Services
from gui.viewmodels.run.log_numbers import LogNumbers

THERE = tr_noop("Rules are kept beside the script, which is on {host}. Open the window there to teach the log.")


class TeachController(QObject):
    """One dialog at a time."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        super().__init__()
        self._panels, self._log = panels, panels.details.log
        self._session, self._run_list, self._teacher = services.session, services.run_list, services.rule_teacher
        self._machine = services.machine
        self._dialog: TeachDialog | None = None
        self._pointed: Pointed | None = None
        self._waiting: Path | None = None
        """A live run that was taught: its curves are read anew when it is over."""
        services.session.attached.connect(self._show_numbers)
        self._log.rank_shown.connect(self._show_numbers)
        self._log.view.highlights.pointed.connect(self._point)
        self._teacher.answered.connect(self._take_answer)
        self._teacher.read_anew.connect(self._take_curves)
        services.session.changed.connect(self._reread_if_over)

    def _reread_if_over(self) -> None:
        """Read the curves again of a run that was taught while it was live, once it has ended and if it is shown."""
        run = self._session.run
        if run is not None and run.dir == self._waiting and not self._session.live:
            self._teacher.reread(run.dir)
            self._waiting = None

    def _show_numbers(self) -> None:
        """Mark the numbers of the log of a script."""
        spec, run_series = self._session.spec, self._session.run_series
        script = spec.script if spec is not None else None
        if script is None or run_series is None:
            self._log.view.highlights.show_numbers(None)
            return
        self._log.view.highlights.show_numbers(LogNumbers(run_series, script.rules, self._log.rank))

    def _point(self, line: str, position: int, role: str) -> None:
        """Open the dialog for a number, and try it."""
        run = self._session.run
        if run is None or self._dialog is not None:
            return
        if not self._machine.is_here:
            self._panels.message.show_message(tr(THERE, host=self._machine.host), "warn")
            return
        begin, end = number_at(line, position) or (position, position)
        number, is_metric = line[begin:end], role == METRIC.strip()
        if is_metric:
            heading = tr("Plot {number} as a metric", number=number)
        elif role == STEP:
            heading = tr("{number} is the step", number=number)
        else:
            heading = tr("{number} is not a metric", number=number)
        dialog = TeachDialog(self._panels.window, line=line, heading=heading, has_name=is_metric)
        self._pointed = Pointed(run_dir=run.dir, rank=self._log.rank, line=line, position=position, role=role)
        dialog.named.connect(lambda name: self._ask(name, keep=False))
        dialog.keep_asked.connect(lambda name: self._ask(name, keep=True))
        dialog.finished.connect(lambda _: self._close())
        self._dialog = dialog
        dialog.open()
        self._ask("", keep=False)

    def _ask(self, name: str, *, keep: bool) -> None:
        assert self._pointed is not None
        self._pointed = replace(self._pointed, name=name)
        self._teacher.ask(self._pointed, keep=keep)

    def _close(self) -> None:
        self._dialog = self._pointed = None

    def _take_curves(self, done: ReadAnew) -> None:
        """Show the new curves of a run."""
        if done.problem:
            self._panels.message.show_message(done.problem, "bad")
            return
        self._run_list.reread(done.run_dir)
        self._session.reload(done.run_dir)

    def _take_answer(self, answer: Answer) -> None:
        if answer.is_kept:
            self._panels.message.show_passing(join_sentences(answer.sentences))
            if answer.waits:
                self._waiting = answer.pointed.run_dir
                self._reread_if_over()
            else:
                self._take_curves(ReadAnew(run_dir=answer.pointed.run_dir))
        if self._dialog is None or answer.pointed != self._pointed:
            return
        if answer.is_kept:
            self._dialog.accept()
        elif answer.lesson is None:
            self._dialog.show_problem(answer.problem)
        else:
            curves = answer.lesson.curves
            self._dialog.show_lesson(
                answer.name, str(answer.lesson.rule), answer.sentences, curves.get(answer.name, ())
            )
