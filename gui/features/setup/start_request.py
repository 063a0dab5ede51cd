"""The check of the choices on a thread, and the request to start a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from core.devices.device import Survey
from core.history.summary import RunSummary
from core.language import join_sentences, tr, tr_noop
from core.schema.spec import RunSpec
from core.system.own_processes import at_logout
from core.text import join_names
from gui.base.jobs import Jobs, reason
from gui.machine.machine import Machine
from gui.machine.start_check import StartCheck, StartConditions, refused
from gui.runs.rows import run_title

if TYPE_CHECKING:
    from gui.machine.start_check import Choices


Neighbour = tuple[str, Path]
"""A device id, and the directory of a live run on that device."""


QUESTIONS = {
    "Start": (tr_noop("Start {name} and share {devices} with {runs}?"), tr_noop("Start anyway")),
    "Resume": (tr_noop("Resume {name} and share {devices} with {runs}?"), tr_noop("Resume anyway")),
}
"""By verb, the question and the text of the button that agrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDeviceQuestion:
    """The texts of the question."""

    question: str
    words: str
    """The consequences."""
    yes: str
    """The text of the button that agrees."""
    neighbours: frozenset[Neighbour]
    """What a yes agrees to."""


def shared_device_question(
    verb: str,
    spec: RunSpec,
    survey: Survey,
    on_devices: Mapping[str, Sequence[RunSummary]],
    *,
    agreed: frozenset[Neighbour],
    own: Path | None = None,
) -> SharedDeviceQuestion | None:
    """Return the question before this run shares its devices; None if it shares them only as `agreed`.

    `verb`: `Start` or `Resume`; `on_devices`: the live runs by device id; `own`: the directory of this run, if it has
    one, since another window may have resumed it just now.
    """
    on_it = {device: [each for each in on_devices.get(device, ()) if each.dir != own] for device in spec.devices}
    neighbours = frozenset((device, each.dir) for device, runs in on_it.items() for each in runs)
    if neighbours <= agreed:
        return None
    where = join_names([device.label for device in survey.devices if on_it.get(device.id)])
    now = time.time()
    runs = {each.dir: run_title(each, now) for those in on_it.values() for each in those}
    question, yes = QUESTIONS[verb]
    return SharedDeviceQuestion(
        question=tr(question, name=spec.name, devices=where, runs=join_names(list(runs.values()))),
        words=tr("Sharing a device slows down both runs, and either may run out of memory.")
        if len(runs) == 1
        else tr("Sharing a device slows down all runs, and any may run out of memory."),
        yes=tr(yes),
        neighbours=neighbours,
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A run to be started, queued or resumed."""

    verb: str
    """`Start` or `Resume`."""
    check: Callable[[], RunSpec | StartCheck]
    """The last check. Returns the spec; raises `ValueError` or returns a check if there are problems. May block."""
    launch: Callable[[RunSpec], None]
    """Starts, queues or resumes the run. Raises `RunError` or `ValueError`."""
    choices: Choices | None = None
    """The choices that must still be chosen; None for a run that does not depend on them."""
    run_dir: Path | None = None
    """The run to be resumed."""
    agreed: frozenset[Neighbour] = frozenset()
    """The runs that the user agreed to share devices with."""
    queues: bool = False
    """Whether the run is put into the queue, and so shares no device."""


def spec_of_choices(
    machine: Machine, check: StartCheck, choices: Choices, now: StartConditions
) -> RunSpec | StartCheck:
    """Check choices again, right before the start. Return their spec, or a check with problems. May block."""
    found = machine.check_again(check, choices, now)
    return found if found.problems or found.spec is None else found.spec


def spec_unless(problems: list[str], spec: RunSpec) -> RunSpec:
    """Return the spec; raise `ValueError` with the problems if there are any."""
    if problems:
        raise ValueError(join_sentences(problems))
    return spec


def last_check(check: Callable[[], RunSpec | StartCheck]) -> RunSpec | StartCheck:
    """Return what `check` returns. Ask also what a log-out does, since the start needs it. May block."""
    at_logout()
    return check()
