"""Change the queue: add what is chosen, move, hold and release queued runs, start them now, and remove them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject

from core.language import join_sentences, tr, tr_plural
from core.queue import control, folder
from core.queue.folder import own_line
from core.text import first_names, join_names
from gui.controllers.window.dock_layout import MainPanels
from gui.services.jobs import Jobs, reason
from gui.services.services import Services
from gui.viewmodels.runs.queue_rows import HELD, place_of_drop, place_of_step
from gui.viewmodels.runs.run_actions import ACTIONS, ActionState
from gui.widgets.dialogs.confirm_dialog import ask


class QueueController(QObject):
    """It keeps nothing: the service has the queue. What is changed is written in the background."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        super().__init__()
        self._panels, self._message = panels, panels.message
        self._service, self._run_list = services.queue, services.run_list
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
        self._message.show_message(
            tr_plural(
                "{names} waits in the queue again. No process waited for it any more, as after a reboot.",
                "{names} wait in the queue again. No process waited for them any more, as after a reboot.",
                len(names), names=join_names(first_names(names)),
            ),
            "good",
        )  # fmt: skip

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
            self._change("move", run_dir, place, runs)

    def _hold_or_release(self, run_dir: str) -> None:
        queued = self._service.queued(run_dir)
        if queued is None:
            return
        if queued.request.why_held:  # the file has changed since: what to train is the user's choice
            name = queued.run_dir.name
            ask(
                self._panels.window, lambda: self._change("let_go", queued.run_dir, "current"),
                question=tr("Start {run} with the file as it is now?", run=name), words=queued.reason,
                yes=tr("As it is now"), is_destructive=False,
                other=(tr("As it was queued"), lambda: self._change("let_go", queued.run_dir, "recorded")),
            )  # fmt: skip
        elif queued.request.held:
            self._change("let_go", queued.run_dir)
        elif queued.state == HELD:
            self._change("release_all", queued.run_dir)
        else:
            self._change("hold", queued.run_dir)

    def _ask_to_start(self, run_dir: str) -> None:
        queued, summary = self._service.queued(run_dir), self._run_list.summary(run_dir)
        if queued is None or summary is None:
            return
        sharing = tr("Sharing a device slows down all runs, and any may run out of memory.")
        ask(
            self._panels.window, lambda: self._change("start_now", queued.run_dir),
            question=tr("Start {name} now, whoever uses its devices?", name=summary.name),
            words=join_sentences([queued.reason, sharing]), yes=tr("Start now"), is_destructive=False,
        )  # fmt: skip

    def _ask_to_remove(self, run_dir: str) -> None:
        summary = self._run_list.summary(run_dir)
        if summary is None:
            return
        ask(
            self._panels.window, lambda: self._change("cancel", Path(run_dir)),
            question=tr("Remove {name} from the queue?", name=summary.name),
            words=tr("It will not start. It stays in the list as stopped, and Run again starts it."),
            yes=tr("Remove"), is_destructive=False,
        )  # fmt: skip

    def _change(self, name: str, run_dir: Path, *more: Any) -> None:  # noqa: ANN401 (of different functions)
        self._changing.add(
            lambda: _do(name, run_dir, *more),
            lambda _: self._show_change(""),
            lambda error: self._show_change(reason(error)),
        )


def _do(name: str, run_dir: Path, *more: Any) -> None:  # noqa: ANN401
    changes: dict[str, Callable[..., object]] = {
        "move": control.move, "hold": control.hold, "let_go": control.let_go, "cancel": control.cancel,
        "start_now": control.start_now,
        "release_all": lambda _: folder.let_go(own_line().line),
    }  # fmt: skip
    changes[name](run_dir, *more)
