"""Delete runs that are over, after a question, in the background."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from core.language import tr
from core.runs import removal
from core.runs.removal import Removed
from core.runs.states import state_info
from core.units import disk
from gui.services.background_task import BackgroundTask, reason
from gui.viewmodels.run.run_rows import run_title
from gui.widgets.confirm_dialog import ask

if TYPE_CHECKING:
    from pathlib import Path

    from core.runs.summary import RunSummary
    from gui.services.services import Services

    from .dock_layout import MainPanels


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCheck:
    """Whether a run can be deleted."""

    why_not: str = ""
    """Why it cannot be deleted: a sentence, or the empty string."""
    size_bytes: int = 0


class RemovalController(QObject):
    """`poll` never blocks. A run that the window shows is no longer shown once it is being deleted."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        super().__init__()
        self._panels, self._message = panels, panels.message
        self._run_list, self._session = services.run_list, services.session
        self._checking: BackgroundTask[RemovalCheck] = BackgroundTask("size of a run")
        self._removing: BackgroundTask[Removed] = BackgroundTask("removal")
        self._asked: RunSummary | None = None
        self._waiting: deque[RunSummary] = deque()
        """Runs to be deleted; the first is being deleted."""
        for menu in panels.run_menus:
            menu.remove_asked.connect(self._check)

    @property
    def busy(self) -> bool:
        """Whether a run is being looked at or deleted."""
        return self._checking.busy or self._removing.busy or bool(self._waiting)

    def poll(self) -> None:
        """Ask about a run that was checked, report a deletion, and start the next."""
        check = self._checking.poll()
        if check is not None and self._asked is not None:
            self._ask(self._asked, check)
        removed = self._removing.poll()
        if removed is not None:
            self._report(self._waiting.popleft(), removed)
        self._go_on()

    def _check(self, run_dir: str) -> None:
        chosen = next((each for each in self._run_list.summaries if str(each.dir) == run_dir), None)
        if chosen is not None and self._checking.start(lambda: check_removal(chosen.dir), _check_failed):
            self._asked = chosen

    def _ask(self, chosen: RunSummary, check: RemovalCheck) -> None:
        if check.why_not:
            self._message.show_message(check.why_not, "bad")
            return
        ask(
            self._panels.window,
            lambda: self._waiting.append(chosen),
            question=tr("Delete the run {title}?", title=run_title(chosen, time.time())),
            words=tr(
                "It is {state} and takes {size} of disk. Its "
                "folder is deleted, with its curves, its log and its checkpoints:\n{folder}\n\n"
                "This cannot be undone.",
                state=tr(state_info(chosen.state).label).lower(),
                size=disk(check.size_bytes),
                folder=chosen.dir,
            ),
            yes=tr("Delete it"),
        )

    def _go_on(self) -> None:
        if not self._waiting or self._removing.busy:
            return
        run_dir = self._waiting[0].dir
        self._session.leave(run_dir)
        self._removing.start(
            lambda: removal.remove(run_dir),
            lambda error: Removed(
                freed_bytes=0,
                problem=tr("{folder} could not be deleted: {reason}.", folder=run_dir, reason=reason(error)),
            ),
        )

    def _report(self, gone: RunSummary, removed: Removed) -> None:
        self._run_list.poll(now=True)
        if removed.problem:
            self._message.show_message(removed.problem, "bad")
        else:
            self._message.show_passing(
                tr(
                    "Deleted {name}. This freed {size} of disk space.",
                    name=gone.name,
                    size=disk(removed.freed_bytes),
                )
            )


def check_removal(run_dir: Path) -> RemovalCheck:
    """Check whether a run can be deleted, and measure its size on disk. Blocks for seconds."""
    why_not = removal.why_not(run_dir)
    return RemovalCheck(why_not=why_not, size_bytes=0 if why_not else removal.size_bytes(run_dir))


def _check_failed(error: Exception) -> RemovalCheck:
    return RemovalCheck(why_not=tr("The run could not be checked: {reason}.", reason=reason(error)))
