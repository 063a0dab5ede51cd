"""Starter: judges the user's choices whenever they, or the machine, change; and starts the run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from core.run import Run

from .neighbours import Beside, beside
from .outlook import Outlook, outlook
from .runs_folder import folder_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.compose import Choices
    from core.devices.device import Survey

    from .board import Board
    from .monitor import Monitor
    from .neighbours import Neighbour

DEBOUNCE_MS = 80
SECOND_THOUGHT_S = 1.0
"""So soon after a start nobody means another: it is the second half of a double click."""


class Starter(QObject):
    """`ask` may be called at every keystroke: it is answered once it is quiet."""

    judged = Signal(Outlook)
    choices_wanted = Signal()
    """Answered, at once, by a call of `take`."""
    asked = Signal(Beside)
    """Whether to start a run beside others on the same devices; its `neighbours`, after a yes, are for `start`."""
    started = Signal(Run)
    said = Signal(str)
    """Why no run can be kept in the folder: said once, and taken back, with no text, when its cause is gone."""

    def __init__(self, board: Board, monitor: Monitor) -> None:
        super().__init__()
        self._board, self._monitor = board, monitor
        self._choices: Choices | None = None
        self._held_by: Mapping[str, str] = {}
        self._folder_problem = ""
        self._started_at = float("-inf")
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(DEBOUNCE_MS)
        self._quiet.timeout.connect(self.judge)

    def take(self, choices: Choices, held_by: Mapping[str, str]) -> None:
        """These are the choices now; and, by device id, who else holds a good part of it."""
        self._choices, self._held_by = choices, held_by

    def ask(self) -> None:
        """Judge soon."""
        self._quiet.start()

    def judge(self) -> Outlook:
        """Judge now, and say so."""
        self._quiet.stop()
        self.choices_wanted.emit()
        assert self._choices is not None
        problem = folder_problem(self._board.root) or ""
        result = outlook(
            self._choices, self._survey, self._board.titles, problem, self._monitor.old_s, held_by=self._held_by
        )
        self.judged.emit(result)
        if problem != self._folder_problem:
            self._folder_problem = problem
            self.said.emit(problem)
        return result

    def start(self, *, agreed: frozenset[Neighbour] = frozenset()) -> None:
        """Start what is chosen; when something is in the way, that is said, and nothing is started.

        `agreed`: also beside these runs; before it is started beside any other, that is asked. Raises `RunError` with
        a sentence when the run cannot be written down.
        """
        if time.monotonic() - self._started_at < SECOND_THOUGHT_S:
            return
        self._board.poll(now=True)
        result = self.judge()
        if result.problems or result.spec is None:
            return
        question = beside("Start", result.spec, self._survey, self._board.on_devices, agreed=agreed)
        if question is not None:
            self.asked.emit(question)
            return
        run = Run.start(result.spec, self._board.root)
        self._started_at = time.monotonic()
        self._board.poll(now=True)
        self.judge()
        self.started.emit(run)

    @property
    def folder_problem(self) -> str:
        """Why no run can be kept in the folder, as it was said last; no text when one can."""
        return self._folder_problem

    def stop(self) -> None:
        """Judge no more."""
        self._quiet.stop()

    @property
    def _survey(self) -> Survey:
        return self._monitor.survey
