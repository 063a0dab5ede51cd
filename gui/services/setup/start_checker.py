"""Check choices in the background: reading a recipe, or asking another Python, may take seconds."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.language import tr
from core.runs.directory import folder_problem
from gui.services.background_task import BackgroundTask, reason
from gui.viewmodels.setup.start_check import StartCheck, check_start, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from core.config.visible_gpus import GpuCheck
    from gui.viewmodels.setup.start_check import Choices, StartConditions

ABANDON_S = 1.0
"""Seconds after which a check is abandoned if other choices wait for theirs."""


class StartChecker(QObject):
    """Check the newest choices; `poll` never waits. Choices that are replaced while they wait are not checked."""

    checked = Signal(object, StartCheck)
    """The choices and the result."""

    def __init__(self, runs_root: Path) -> None:
        super().__init__()
        self._root = runs_root
        self._task: BackgroundTask[StartCheck] = BackgroundTask("check")
        self._checking: Choices | None = None
        self._waiting: tuple[Choices, StartConditions] | None = None

    @cached_property
    def _gpus(self) -> GpuCheck:
        from core.config.visible_gpus import GpuCheck  # not at the start of the window, but in the thread of a check

        return GpuCheck()

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
        if self._task.start(lambda: check(choices, conditions, self._root, lambda: self._gpus), _failed):
            self._checking, self._waiting = choices, None


def check(choices: Choices, conditions: StartConditions, runs_root: Path, gpus: Callable[[], GpuCheck]) -> StartCheck:
    """Check choices, whether runs can be kept under `runs_root`, and whether CUDA shows the GPUs. May take seconds."""
    found = check_start(choices, replace(conditions, folder_problem=folder_problem(runs_root) or ""))
    if found.spec is None or found.problems:
        return found
    problem = gpus().problem(found.spec, conditions.survey.devices)
    return replace(found, problems=(problem,), ready="") if problem else found


def _failed(error: Exception) -> StartCheck:
    return refused(
        "", tr("The choices could not be checked: {reason}. Change one of them to try again.", reason=reason(error))
    )
