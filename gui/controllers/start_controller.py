"""Starter: judges the user's choices whenever they, or the machine, change; and starts the run."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from core.catalog import recipes
from core.config import validation
from core.config.script_check import ScriptCheckRequest
from core.runs.directory import folder_problem
from core.runs.run import Run
from gui.services.script_checker import ScriptChecker
from gui.viewmodels.setup.device_sharing import SharedDeviceQuestion, shared_device_question
from gui.viewmodels.setup.script_text import TypedScript
from gui.viewmodels.setup.start_check import StartCheck, StartConditions, check_script_start, check_start, lost, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.config.choices import RecipeChoices
    from core.devices.device import Survey
    from core.schema.spec import RunSpec
    from gui.services.device_monitor import DeviceMonitor
    from gui.services.run_list import RunListService
    from gui.viewmodels.setup.device_sharing import Neighbour

DEBOUNCE_MS = 80
SECOND_THOUGHT_S = 1.0
"""So soon after a start nobody means another: it is the second half of a double click."""


class StartController(QObject):
    """`ask` may be called at every keystroke: it is answered once it is quiet."""

    judged = Signal(StartCheck)
    choices_wanted = Signal()
    """Answered, at once, by a call of `take`."""
    asked = Signal(SharedDeviceQuestion)
    """Whether to start a run beside others on the same devices; its `neighbours`, after a yes, are for `start`."""
    pressed = Signal()
    """What Start was pressed for is known by now: answered by a call of `start`."""
    started = Signal(Run)
    said = Signal(str)
    """Why no run can be kept in the folder: said once, and taken back, with no text, when its cause is gone."""

    def __init__(self, board: RunListService, monitor: DeviceMonitor) -> None:
        super().__init__()
        self._board, self._monitor = board, monitor
        self._inquirer = ScriptChecker()
        self._inquirer.setParent(self)
        self._choices: RecipeChoices | TypedScript | None = None
        self._held_by: Mapping[str, str] = {}
        self._folder_problem = ""
        self._started_at = float("-inf")
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(DEBOUNCE_MS)
        self._quiet.timeout.connect(self.judge)
        self._inquirer.answered.connect(self._take_answer)
        self._pressed_for: RecipeChoices | TypedScript | None = None
        """What Start was pressed for, before it was known whether that can be started."""

    def take(self, choices: RecipeChoices | TypedScript, held_by: Mapping[str, str]) -> None:
        """These are the choices now; and, by device id, who else holds a good part of it."""
        self._choices, self._held_by = choices, held_by

    def ask(self) -> None:
        """Judge soon."""
        self._quiet.start()

    def judge(self) -> StartCheck:
        """Judge now, and say so."""
        self._quiet.stop()
        self.choices_wanted.emit()
        assert self._choices is not None
        problem = folder_problem(self._board.root) or ""
        result = self._outlook(problem)
        self.judged.emit(result)
        if problem != self._folder_problem:
            self._folder_problem = problem
            self.said.emit(problem)
        return result

    def start(self, *, agreed: frozenset[Neighbour] = frozenset()) -> None:
        """Start what is chosen; when something is in the way, that is said, and nothing is started.

        `agreed`: also beside these runs; before it is started beside any other, that is asked. Raises `RunError` with
        a sentence when the run cannot be written down, or `ValueError` when the Python lacks what a recipe needs.
        """
        if time.monotonic() - self._started_at < SECOND_THOUGHT_S:
            return
        self._board.poll(now=True)
        result = self.judge()
        self._pressed_for = self._choices if result.pending else None
        if not result.problems and result.spec is not None:
            self._start(result.spec, agreed)

    def start_again(self, spec: RunSpec, *, agreed: frozenset[Neighbour] = frozenset()) -> None:
        """Start the same as another run, whatever is chosen. `agreed`: as for `start`.

        Raises `ValueError` with a sentence for what is in the way, or `RunError`.
        """
        if time.monotonic() - self._started_at < SECOND_THOUGHT_S:
            return
        self._board.poll(now=True)
        chosen = [device for device in self._survey.devices if device.id in spec.devices]
        problems = [
            *map(str, validation.problems(spec, self._survey.devices)),
            *lost(chosen, self._survey, "Duplicate the run, and tick another device."),
        ]
        if spec.recipe is not None:
            recipes.read(Path(spec.recipe.path))
        if problems:
            raise ValueError(" ".join(problems))
        self._start(spec, agreed, again=True)

    def poll(self) -> None:
        """Take in what was found out about a script."""
        self._inquirer.poll()

    def recheck(self) -> None:
        """Find out anew what a script is: it may have been edited."""
        self._inquirer.ask_anew()
        self.ask()

    def _take_answer(self) -> None:
        """Start what Start was pressed for, unless something else is chosen by now."""
        result, pressed_for = self.judge(), self._pressed_for
        if pressed_for is None or result.pending:
            return
        self._pressed_for = None
        if pressed_for == self._choices:
            self.pressed.emit()

    def _outlook(self, folder: str) -> StartCheck:
        typed, now = self._choices, self._circumstances(folder)
        assert typed is not None
        if not isinstance(typed, TypedScript):
            return check_start(typed, now)
        try:
            choices = typed.choices()
        except ValueError as error:
            return refused(folder, str(error))
        return check_script_start(choices, self._inquirer.ask(ScriptCheckRequest.of(choices)), now)

    def _circumstances(self, folder: str) -> StartConditions:
        return StartConditions(
            survey=self._survey, used_by=self._board.titles, held_by=self._held_by, old_s=self._monitor.old_s,
            folder_problem=folder,
        )  # fmt: skip

    def _start(self, spec: RunSpec, agreed: frozenset[Neighbour], *, again: bool = False) -> None:
        question = shared_device_question("Start", spec, self._survey, self._board.on_devices, agreed=agreed)
        if question is not None:
            self.asked.emit(replace(question, again=spec if again else None))
            return
        if problems := validation.recipe_problems(spec):  # asked now only: it may take another Python's start to know
            raise ValueError(" ".join(problems))
        run = Run.start(spec, self._board.root)
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
