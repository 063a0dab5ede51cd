"""Starter: judges the user's choices whenever they, or the machine, change; and starts the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from core.run import Run

from .outlook import Outlook, outlook
from .runs_folder import folder_problem

if TYPE_CHECKING:
    from core.compose import Choices
    from core.devices.device import Survey

    from .board import Board
    from .monitor import Monitor

DEBOUNCE_MS = 80


class Starter(QObject):
    """`ask` may be called at every keystroke: it is answered once it is quiet."""

    judged = Signal(Outlook)
    choices_wanted = Signal()
    """Answered, at once, by a call of `take`."""

    def __init__(self, board: Board, monitor: Monitor) -> None:
        super().__init__()
        self._board, self._monitor = board, monitor
        self._choices: Choices | None = None
        self._folder_problem: str | None = None
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(DEBOUNCE_MS)
        self._quiet.timeout.connect(self.judge)

    @property
    def folder_problem(self) -> str | None:
        """Why no run can be kept in the folder, as far as was seen."""
        return self._folder_problem

    def take(self, choices: Choices) -> None:
        """These are the choices now."""
        self._choices = choices

    def ask(self) -> None:
        """Judge soon."""
        self._quiet.start()

    def judge(self) -> Outlook:
        """Judge now, and say so."""
        self._quiet.stop()
        self.choices_wanted.emit()
        assert self._choices is not None
        self._folder_problem = folder_problem(self._board.root)
        result = outlook(self._choices, self._survey, self._board.used_by, self._folder_problem)
        self.judged.emit(result)
        return result

    def start(self) -> Run | None:
        """Start what is chosen; None when something is in the way, which is then said.

        Raises `RunError` with a sentence when it cannot be written down.
        """
        self._board.poll(now=True)
        result = self.judge()
        if result.problems or result.spec is None:
            return None
        run = Run.start(result.spec, self._board.root)
        self._board.poll(now=True)  # its devices are in use from now on, so that a second press starts no other
        self.judge()
        return run

    def stop(self) -> None:
        """Judge no more."""
        self._quiet.stop()

    @property
    def _survey(self) -> Survey:
        return self._monitor.survey
