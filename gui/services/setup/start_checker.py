"""Check choices in the background: reading a recipe, or asking another Python, may take seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.language import tr
from gui.services.background_task import BackgroundTask, reason
from gui.viewmodels.setup.start_check import StartCheck, refused

if TYPE_CHECKING:
    from gui.services.machine.machine import Machine
    from gui.viewmodels.setup.start_check import Choices, StartConditions

ABANDON_S = 1.0
"""Seconds after which a check is abandoned if other choices wait for theirs."""


class StartChecker(QObject):
    """Check the newest choices; `poll` never waits. Choices that are replaced while they wait are not checked."""

    checked = Signal(object, StartCheck)
    """The choices and the result."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self._task: BackgroundTask[StartCheck] = BackgroundTask("check")
        self._checking: Choices | None = None
        self._waiting: tuple[Choices, StartConditions] | None = None

    @property
    def busy_s(self) -> float:
        """Seconds since the check under way began; 0 if there is none."""
        return self._task.busy_s

    def check(self, choices: Choices, conditions: StartConditions) -> None:
        """Check these choices, after the check that is under way."""
        self._waiting = (choices, conditions)
        self._start_next()

    def poll(self) -> bool:
        """Emit the result of a check that has ended and start the next; return whether one is under way."""
        result = self._task.poll()
        if result is not None:
            self.checked.emit(self._checking, result)
        self._start_next()
        return self._task.busy

    def _start_next(self) -> None:
        if self._waiting is None:
            return
        choices, conditions = self._waiting
        if self._task.busy_s > ABANDON_S and choices != self._checking:
            self._task = BackgroundTask("check")  # the thread of the other one ends with its time limit
        machine = self._machine
        if self._task.start(lambda: machine.check(choices, conditions), _failed):
            self._checking, self._waiting = choices, None


def _failed(error: Exception) -> StartCheck:
    return refused(
        "", tr("The choices could not be checked: {reason}. Change one of them to try again.", reason=reason(error))
    )
