"""Check choices in the background: reading a recipe, or asking another Python, may take seconds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from core.language import tr
from gui.services.jobs import Jobs, reason
from gui.viewmodels.setup.start_check import StartCheck, refused

if TYPE_CHECKING:
    from gui.services.machine.machine import Machine
    from gui.viewmodels.setup.start_check import Choices, StartConditions

ABANDON_S = 1.0
"""Seconds under way after which a check is abandoned if other choices wait for theirs."""


class StartChecker(QObject):
    """Checks the newest choices. Choices that are replaced while they wait are not checked."""

    checked = Signal(object, StartCheck)
    """The choices and the result."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self._jobs = Jobs(self, "check")
        self._newest: Choices | None = None
        self._checking: Choices | None = None
        """The choices whose check is under way."""
        self._patience = QTimer(self, singleShot=True)
        self._patience.timeout.connect(self._abandon_others)

    def check(self, choices: Choices, conditions: StartConditions) -> None:
        """Check these choices, after the check that is under way."""
        machine = self._machine
        self._newest = choices
        if not self._jobs.busy:
            self._checking = choices
        self._jobs.replace(
            lambda: machine.check(choices, conditions),
            lambda check: self._take(choices, check),
            lambda error: self._take(choices, _failed(error)),
        )
        self._abandon_others()

    def _take(self, choices: Choices, check: StartCheck) -> None:
        self._checking = self._newest
        self.checked.emit(choices, check)

    def _abandon_others(self) -> None:
        """Abandon a check of other choices than the newest once it takes too long; its thread ends by itself."""
        if not self._jobs.busy or self._checking == self._newest:
            return
        if (left_s := ABANDON_S - self._jobs.busy_s) > 0:
            self._patience.start(math.ceil(1000 * left_s))
        else:
            self._jobs.abandon()
            self._checking = self._newest


def _failed(error: Exception) -> StartCheck:
    return refused(
        "", tr("The choices could not be checked: {reason}. Change one of them to try again.", reason=reason(error))
    )
