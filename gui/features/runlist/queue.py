"""The queue: read it, move, hold, start and remove queued runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.history.summary import RunSummary
from core.language import join_sentences, tr, tr_plural
from core.queue import control, folder
from core.queue.control import revive
from core.queue.folder import own_line
from core.queue.listing import QueuedRun, QueueView, queue_view
from core.runs.facts import state_info
from core.text import first_names, join_names
from gui.base.jobs import Jobs, reason
from gui.runs.actions import ACTIONS, ActionState
from gui.runs.rows import HELD, place_of_drop, place_of_step
from gui.runs.run_list import RunListService
from gui.widgets.dialogs import ask
from gui.window.feature import Feature

PERIOD_S = 2.0
"""Seconds between two readings while a run under the window's folder is queued."""
RARELY_S = 10.0
"""As `PERIOD_S`, while none is: another user may have devices set aside."""


class QueueService(QObject):
    """`poll` never blocks."""

    changed = Signal()
    revived = Signal(list)
    """The directories of the runs that were taken up again, if there are any; once."""
    failed = Signal(str)
    """Why the queue cannot be read, or the empty string when it can be read again; each once."""

    def __init__(self, run_list: RunListService, *, is_here: bool = True) -> None:
        """`is_here`: whether the runs are those of this machine; the queue of another one is not read."""
        super().__init__()
        self._is_here = is_here
        self._run_list = run_list
        self._view: QueueView | None = None
        self._reading, self._reviving = Jobs(self, "queue"), Jobs(self, "queue")
        self._is_revived = False
        self._due = time.monotonic() + PERIOD_S
        self._problem = ""
        self._queued: tuple[Path, ...] = ()
        self._summaries: list[RunSummary] | None = None
        """The summaries among which queued runs were last looked for."""
        run_list.changed.connect(self._look_at_list)

    @property
    def runs(self) -> tuple[QueuedRun, ...]:
        """The queued runs of the window's folder, in their order, as last read."""
        return self._view.runs if self._view is not None else ()

    @property
    def set_aside(self) -> Mapping[str, str]:
        """By device id, a sentence for whom a free device is kept."""
        return self._view.set_aside if self._view is not None else {}

    def queued(self, run_dir: str) -> QueuedRun | None:
        """Return a queued run by its directory; None if it is not queued."""
        return next((each for each in self.runs if str(each.run_dir) == run_dir), None)

    def poll(self) -> None:
        """Read the queue again if it is time."""
        if not self._is_here or time.monotonic() < self._due:
            return
        root, queued = self._run_list.root, self._queued
        if not self._is_revived:
            self._is_revived = self._reviving.start(
                lambda: revive(root), self._tell_revived, lambda error: self.failed.emit(reason(error))
            )
        if self._reading.start(lambda: queue_view(root, queued), self._take, self._take_error):
            self._due = time.monotonic() + (PERIOD_S if self._queued else RARELY_S)

    def _tell_revived(self, found: list[Path]) -> None:
        if found:
            self.revived.emit(found)
            self.outdate()

    def outdate(self) -> None:
        """Read the queue again at the next poll: it was changed."""
        self._due = 0.0

    def _look_at_list(self) -> None:
        if self._run_list.summaries is self._summaries:
            return  # only the search has changed
        self._summaries = self._run_list.summaries
        queued = tuple(each.dir for each in self._run_list.summaries if state_info(each.state).waits)
        if queued != self._queued:
            self._queued = queued
            self.outdate()

    def _take(self, view: QueueView) -> None:
        self._note("")
        if view != self._view:
            self._view = view
            self.changed.emit()

    def _take_error(self, error: Exception) -> None:
        self._note(reason(error))

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self.failed.emit(problem)


class QueueController(Feature):
    """It keeps nothing: the service has the queue. What is changed is written in the background."""

    def set_up(self) -> None:
        panels = self.panels
        self._service = self.services.queue
        self._changing = Jobs(self, "queueing", guards=True)
        self._problem = ""
        self._service.failed.connect(self._report)
        self._service.revived.connect(self._tell_revived)
        panels.runs.moved.connect(self._drop)
        panels.runs.step_asked.connect(self._step)
        panels.actions.judge(self._judge)
        panels.actions.provide(
            up=lambda runs: self._step(runs[0], -1),
            down=lambda runs: self._step(runs[0], 1),
            hold=lambda runs: self._hold_or_release(runs[0]),
            startNow=lambda runs: self._ask_to_start(runs[0]),
            unqueue=lambda runs: self._ask_to_remove(runs[0]),
        )

    def _report(self, problem: str) -> None:
        """Add what is wrong with the queue to the message, which may name its cause; take it out when it is over."""
        others = self._message.text.replace(self._problem, "").strip() if self._message.is_open else ""
        self._problem = problem
        self._message.show_message(join_sentences([others, problem]), "bad" if others else "warn")

    def _show_change(self, problem: str) -> None:
        self._service.outdate()
        self._run_list.poll(now=True)
        if problem:
            self._message.show_message(problem, "bad")

    def _tell_revived(self, run_dirs: list[Path]) -> None:
        known = {each: self._run_list.summary(str(each)) for each in run_dirs}
        names = [summary.name if summary else run_dir.name for run_dir, summary in known.items()]
        said = tr_plural(
            "{names} waits in the queue again. No process waited for it any more, as after a reboot.",
            "{names} wait in the queue again. No process waited for them any more, as after a reboot.",
            len(names), names=join_names(first_names(names)),
        )
        self._message.show_message(said, "good")

    def _judge(self, run_dir: str, states: Mapping[str, ActionState]) -> None:
        queued = self._service.queued(run_dir)
        if queued is None:
            return
        for row in ACTIONS:
            if row.of_queued:
                states[row.name].shown = True
        if queued.state == HELD:
            states["hold"].text = tr("Release")
        if place_of_step(self._service.runs, queued.run_dir, -1) is None:
            states["up"].why_not = tr("It is the first run of the queue.")
        if place_of_step(self._service.runs, queued.run_dir, 1) is None:
            states["down"].why_not = tr("It is the last run of the queue.")

    def _step(self, run_dir: str, step: int) -> None:
        self._move(Path(run_dir), place_of_step(self._service.runs, Path(run_dir), step))

    def _drop(self, run_dir: str, before: str) -> None:
        self._move(Path(run_dir), place_of_drop(self._service.runs, Path(run_dir), Path(before) if before else None))

    def _move(self, run_dir: Path, place: int | None) -> None:
        if place is not None:
            runs = list(self._service.runs)
            self._change(lambda: control.move(run_dir, place, runs))

    def _hold_or_release(self, run_dir: str) -> None:
        queued = self._service.queued(run_dir)
        if queued is None:
            return
        if queued.request.why_held:  # the file has changed since: what to train is the user's choice
            question = tr("Start {run} with the file as it is now?", run=queued.run_dir.name)
            changes = [partial(control.let_go, queued.run_dir, file) for file in ("current", "recorded")]
            now, before = (partial(self._change, change) for change in changes)
            yes, other = tr("As it is now"), (tr("As it was queued"), before)
            window, words = self.panels.window, queued.reason
            ask(window, now, question=question, words=words, yes=yes, is_destructive=False, other=other)
        elif queued.request.held:
            self._change(lambda: control.let_go(queued.run_dir))
        elif queued.state == HELD:
            self._change(lambda: folder.let_go(own_line().line))
        else:
            self._change(lambda: control.hold(queued.run_dir))

    def _ask_to_start(self, run_dir: str) -> None:
        queued, summary = self._service.queued(run_dir), self._run_list.summary(run_dir)
        if queued is None or summary is None:
            return
        sharing = tr("Sharing a device slows down all runs, and any may run out of memory.")
        question = tr("Start {name} now, whoever uses its devices?", name=summary.name)
        words, start = join_sentences([queued.reason, sharing]), partial(control.start_now, queued.run_dir)
        self._ask(start, question, words, tr("Start now"))

    def _ask_to_remove(self, run_dir: str) -> None:
        summary = self._run_list.summary(run_dir)
        if summary is None:
            return
        question = tr("Remove {name} from the queue?", name=summary.name)
        words = tr("It will not start. It stays in the list as stopped, and Run again starts it.")
        self._ask(partial(control.cancel, Path(run_dir)), question, words, tr("Remove"))

    def _ask(self, change: Callable[[], object], question: str, words: str, yes: str) -> None:
        action, window = partial(self._change, change), self.panels.window
        ask(window, action, question=question, words=words, yes=yes, is_destructive=False)

    def _change(self, change: Callable[[], object]) -> None:
        """Change the queue, after all other changes."""
        self._changing.add(change, lambda _: self._show_change(""), lambda error: self._show_change(reason(error)))
