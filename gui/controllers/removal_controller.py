"""Remover: deletes runs that are over, once somebody has been asked; the window does not wait for it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.runs import removal
from core.runs.removal import Removed
from core.runs.states import state_info
from core.units import disk
from gui.services.background_task import BackgroundTask, reason
from gui.viewmodels.run.run_rows import run_title
from gui.widgets.confirm_dialog import ask

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QWidget

    from core.runs.index import RunSummary
    from gui.panels.runs.run_menu import RunMenu
    from gui.services.run_list import RunListService
    from gui.services.run_session import RunSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCheck:
    """What was seen of a run before it is asked for."""

    why_not: str = ""
    """A sentence, where it cannot be deleted."""
    size_bytes: int = 0


class RemovalController(QObject):
    """`poll`, called at every beat, never waits. A run that is looked at is not any more once it goes."""

    said = Signal(str, str)
    """A sentence on what was in the way, and its tone."""
    done = Signal(str)
    """The same, of what went well: it is soon taken back."""

    def __init__(self, window: QWidget, board: RunListService, session: RunSession) -> None:
        super().__init__()
        self._window, self._board, self._session = window, board, session
        self._looking: BackgroundTask[RemovalCheck] = BackgroundTask("size of a run")
        self._removing: BackgroundTask[Removed] = BackgroundTask("removal")
        self._asked: RunSummary | None = None
        self._waiting: deque[RunSummary] = deque()
        """What is to go, the one that goes just now first."""

    def listen(self, menu: RunMenu) -> None:
        """Do what is chosen from the menu of a run."""
        menu.remove_asked.connect(self._look_at)

    def poll(self) -> None:
        """Ask about what was looked at, tell what has gone, and go on with the next."""
        look = self._looking.poll()
        if look is not None and self._asked is not None:
            self._ask(self._asked, look)
        removed = self._removing.poll()
        if removed is not None:
            self._tell(self._waiting.popleft(), removed)
        self._go_on()

    def _look_at(self, run_dir: str) -> None:
        chosen = next((each for each in self._board.summaries if str(each.dir) == run_dir), None)
        if chosen is not None and self._looking.start(lambda: look(chosen.dir), _not_looked):
            self._asked = chosen

    def _ask(self, chosen: RunSummary, look: RemovalCheck) -> None:
        if look.why_not:
            self.said.emit(look.why_not, "bad")
            return
        ask(
            self._window,
            lambda: self._waiting.append(chosen),
            question=f"Delete the run {run_title(chosen, time.time())}?",
            words=f"It is {state_info(chosen.state).label.lower()} and takes {disk(look.size_bytes)} of disk. Its "
            f"folder is deleted, with its curves, its log and its checkpoints:\n{chosen.dir}\n\n"
            "This cannot be taken back.",
            yes="Delete it",
        )

    def _go_on(self) -> None:
        if not self._waiting or self._removing.busy:
            return
        run_dir = self._waiting[0].dir
        self._session.leave(run_dir)
        self._removing.start(
            lambda: removal.remove(run_dir),
            lambda error: Removed(freed_bytes=0, problem=f"{run_dir} could not be deleted: {reason(error)}."),
        )

    def _tell(self, gone: RunSummary, removed: Removed) -> None:
        self._board.poll(now=True)
        if removed.problem:
            self.said.emit(removed.problem, "bad")
        else:
            self.done.emit(f"Deleted {gone.name}: {disk(removed.freed_bytes)} of disk came back.")


def look(run_dir: Path) -> RemovalCheck:
    """Whether it can be deleted, and what it takes; that may take seconds."""
    why_not = removal.why_not(run_dir)
    return RemovalCheck(why_not=why_not, size_bytes=0 if why_not else removal.size_bytes(run_dir))


def _not_looked(error: Exception) -> RemovalCheck:
    return RemovalCheck(why_not=f"The run could not be looked at: {reason(error)}.")
