"""Check the user's choices whenever they or the machine change; start, start again and resume runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from core.catalog.frameworks import FRAMEWORKS
from core.errors import RunError
from core.history.device_use import largest_others
from core.language import tr
from core.runs.facts import RunFacts
from core.runs.run import Run
from core.schema.spec import RunSpec
from gui.base.jobs import Jobs
from gui.features.setup.start_request import (
    SharedDeviceQuestion,
    StartChecker,
    StartRequest,
    last_check,
    shared_device_question,
    spec_of_choices,
    spec_unless,
)
from gui.machine.machine import Machine
from gui.machine.start_check import (
    StartCheck,
    StartConditions,
    checking,
    readings_state,
)
from gui.runs.rows import owner_question
from gui.widgets.dialogs import ask, ask_first

if TYPE_CHECKING:
    from gui.machine.start_check import Choices
    from gui.window.layout import MainPanels
    from gui.window.services import Services


DEBOUNCE_MS = 80
"""Milliseconds without another change before choices are checked."""
PENDING_MS = 200
"""Milliseconds for which the last check stays shown while other choices are checked: most checks are faster."""
DOUBLE_CLICK_S = 1.0
"""Seconds after a start in which another start is the second half of a double click."""


class StartController(QObject):
    """Nothing here blocks: choices are checked in the background, and once more right before the start.

    Every start, queueing and resuming goes through `_request_start`, `start_again` or `_request_resume`, then
    `_check_request` and `_take_checked_request`, `_ask_or_launch`, and `_launch`, `_enqueue` or `_launch_resume`.
    """

    started = Signal()
    """A run was started, and the window shows it."""
    began = Signal()
    """A run was started, queued or resumed."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        super().__init__()
        self._panels, self._message = panels, panels.message
        self._monitor, self._scanner = services.device_monitor, services.process_scanner
        self._run_list, self._session = services.run_list, services.session
        self._machine = services.machine
        self._checker = StartChecker(self._machine)
        self._checker.setParent(self)
        self._checker.checked.connect(self._take_check)
        self._choices: Choices | None = None
        self._check: StartCheck | None = None
        """The newest check of these choices."""
        self._start_when_checked = self._queues_then = False
        self._readings: object = None
        """The part of the readings that the newest check depends on."""
        self._request: StartRequest | None = None
        """The request that is being checked."""
        self._requesting = Jobs(self, "last-check", guards=True)
        self._starting = Jobs(self, "start-there", guards=True)
        self._resuming = Jobs(self, "resume", guards=True)
        self._resuming_dir: Path | None = None
        self._installed = Jobs(self, "frameworks")
        self._started_at = float("-inf")
        self._debounce = QTimer(self, singleShot=True, interval=DEBOUNCE_MS)
        self._debounce.timeout.connect(self._check_now)
        self._pending = QTimer(self, singleShot=True, interval=PENDING_MS)
        self._pending.timeout.connect(self._show_pending)
        panels.setup.changed.connect(self.check)
        panels.header.buttons.start_asked.connect(self.start)
        panels.header.buttons.resume_asked.connect(self.resume)
        self._run_list.changed.connect(self.check_again)
        self._scanner.changed.connect(self.take_readings)

    # -- check -----------------------------------------------------------------------------------

    @property
    def current_check(self) -> StartCheck | None:
        """The check of the choices as they are now; None while it is under way."""
        return self._check

    def check(self, choices: Choices) -> None:
        """Check these choices from now on."""
        if choices != self._choices:
            self._choices, self._check, self._start_when_checked = choices, None, False
        self.check_again()

    def check_again(self) -> None:
        """Check the choices again soon: the machine or the runs may have changed."""
        self._debounce.start()

    def reread(self) -> None:
        """Check everything again: files may have been edited and packages installed."""
        self._panels.setup.recipe.reread()
        machine = self._machine
        show = self._panels.setup.recipe.show_installed
        self._installed.start(
            machine.installed_frameworks, show, lambda _: show(frozenset(row.id for row in FRAMEWORKS))
        )
        self.check(self._panels.setup.choices())

    def take_readings(self) -> None:
        """Check the choices again if the readings of the chosen devices say something else."""
        chosen = self._choices.devices if self._choices is not None else ()
        readings = readings_state(self._monitor.all_machines, self._monitor.stale_age_s, self._held_by(), chosen)
        if readings != self._readings:
            self._readings = readings
            self.check_again()

    @property
    def busy(self) -> bool:
        """Whether a run is started once its choices are checked."""
        return self._start_when_checked

    def close(self) -> None:
        """Check and start nothing any more. The jobs are closed by the window."""
        self._start_when_checked = False
        self._debounce.stop()
        self._pending.stop()

    def _check_now(self) -> None:
        self._debounce.stop()
        if self._choices is not None:
            self._checker.check(self._choices, self._conditions())
            if self._check is None and not self._pending.isActive():
                self._pending.start()

    def _show_pending(self) -> None:
        if self._check is None and self._choices is not None:
            self._show(checking(self._choices))

    def _take_check(self, choices: Choices, check: StartCheck) -> None:
        if choices != self._choices:
            return
        self._check = check
        self._pending.stop()
        self._show(check)
        if self._start_when_checked:
            self._start_when_checked = False
            self._request_start(queues=self._queues_then)

    def _show(self, check: StartCheck) -> None:
        self._panels.setup.show_check(check)
        self._panels.header.buttons.allow_start("\n".join(check.problems), is_proposed=not check.busy)
        if not check.pending and check.folder_problem != self._message.lasting:
            self._message.lasting = check.folder_problem
            self._message.clear()

    def _conditions(self) -> StartConditions:
        return StartConditions(
            survey=self._monitor.all_machines,
            used_by=self._run_list.titles,
            held_by=self._held_by(),
            stale_age_s=self._monitor.stale_age_s,
        )

    def _held_by(self) -> dict[str, str]:
        own = largest_others(self._monitor.survey, self._scanner.device_processes, self._scanner.runs().living)
        return {**own, **self._monitor.hosts.held_by()}

    # -- start -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start what is chosen. Choices that are being checked are started after the check."""
        self._request_start(queues=False)

    def add_to_queue(self) -> None:
        """Put what is chosen into the queue; see `start`."""
        self._request_start(queues=True)

    def _request_start(self, *, queues: bool) -> None:
        if self._just_started or self._requesting.busy or self._choices is None:
            return
        check, choices = self._check, self._choices
        if check is None:
            self._start_when_checked, self._queues_then = True, queues
            self._check_now()
        elif check.problems or check.spec is None:
            self._check_now()
        else:
            now, machine = self._conditions(), self._machine
            self._check_request(
                StartRequest(
                    verb="Start",
                    check=lambda: spec_of_choices(machine, check, choices, now),
                    launch=self._enqueue if queues else self._launch,
                    choices=choices,
                    queues=queues,
                )
            )

    def start_again(self, spec: RunSpec) -> None:
        """Start the same as another run, whatever is chosen now."""
        if self._just_started or self._requesting.busy:
            return
        self._message.show_message("")
        survey, machine = self._monitor.all_machines, self._machine

        def check() -> RunSpec:
            return spec_unless(machine.spec_problems(spec, survey), spec)

        self._check_request(StartRequest(verb="Start", check=check, launch=self._launch))

    def _launch(self, spec: RunSpec) -> None:
        if self._machine.is_here:
            self._show_started(self._machine.start(spec))
        else:
            self._launch_there(spec, lambda machine: machine.start(spec), self._show_started)

    def _show_started(self, run: Run) -> None:
        self._started_at = time.monotonic()
        self._run_list.poll(now=True)
        self._message.show_message("")
        self._session.attach(run)
        self.check_again()
        self.started.emit()
        self.began.emit()

    def _enqueue(self, spec: RunSpec) -> None:
        """Let a run wait for its devices. The window goes on showing what it shows."""
        labels = {each.id: each.label for each in self._monitor.all_machines.devices if each.id in spec.devices}
        if self._machine.is_here:
            self._machine.enqueue(spec, labels)
            self._show_queued(spec)
        else:
            self._launch_there(spec, lambda machine: machine.enqueue(spec, labels), lambda _: self._show_queued(spec))

    def _launch_there(self, spec: RunSpec, work: Callable[[Machine], Run], show: Callable[[Run], None]) -> None:
        """Start or queue a run on the host, in the background: its answer may take seconds."""
        machine = self._machine
        if self._starting.start(lambda: work(machine), show, self._show_failure):
            self._started_at = time.monotonic()
            self._message.show_message(tr("Starting {name} on {host} …", name=spec.name, host=machine.host), "good")

    def _show_queued(self, spec: RunSpec) -> None:
        self._started_at = time.monotonic()
        self._run_list.poll(now=True)
        self._message.show_passing(
            tr("Added {name} to the queue. It starts when its devices are free.", name=spec.name)
        )
        self.began.emit()

    @property
    def _just_started(self) -> bool:
        return time.monotonic() - self._started_at < DOUBLE_CLICK_S

    # -- resume ----------------------------------------------------------------------------------

    def _tell_resuming(self) -> None:
        requested = self._request.run_dir if self._request is not None else None
        self._session.set_resuming(frozenset(each for each in (requested, self._resuming_dir) if each is not None))

    def resume(self) -> None:
        """Resume the run that the window shows."""
        run, spec, facts = self._session.run, self._session.spec, self._session.facts
        if run is None or self._requesting.busy or self._resuming.busy:
            return
        self._message.show_message("")
        question = owner_question("Resume", tr("the run {name}", name=spec.name if spec else run.id), run.owner, spec)
        ask_first(self._panels.window, question, lambda: self._request_resume(run, spec, facts))

    def _request_resume(self, run: Run, spec: RunSpec | None, facts: RunFacts) -> None:
        if spec is None:
            self._launch_resume(run.dir)
            return
        survey, machine = self._monitor.all_machines, self._machine
        self._check_request(
            StartRequest(
                verb="Resume",
                check=lambda: spec_unless(machine.resume_problems(run, spec, facts, survey), spec),
                launch=lambda _: self._launch_resume(run.dir),
                run_dir=run.dir,
            )
        )

    def _launch_resume(self, run_dir: Path) -> None:
        self._resuming_dir, machine = run_dir, self._machine
        self._resuming.start(
            lambda: machine.resume(run_dir),
            lambda _: self._take_resumed(""),
            lambda error: self._take_resumed(str(error)),
        )
        self._tell_resuming()

    def _take_resumed(self, problem: str) -> None:
        self._resuming_dir = None
        self._tell_resuming()
        self._message.show_message(tr(problem), "bad")
        self._session.poll()
        self._run_list.poll(now=True)
        if not problem:
            self.began.emit()

    # -- from a request to its launch -------------------------------------------------------------

    def _check_request(self, request: StartRequest) -> None:
        check = request.check
        if self._requesting.start(
            lambda: last_check(check),
            lambda outcome: self._take_checked_request(request, outcome),
            lambda error: self._show_failure(error) if self._end_request(request) else None,
        ):
            self._request = request
            self._tell_resuming()

    def _end_request(self, request: StartRequest) -> bool:
        """Return whether a request that was checked is still wanted: no other choices were made meanwhile."""
        self._request = None
        self._tell_resuming()
        return request.choices is None or request.choices == self._choices

    def _take_checked_request(self, request: StartRequest, outcome: RunSpec | StartCheck) -> None:
        if not self._end_request(request):
            return
        if isinstance(outcome, StartCheck):
            self._check = outcome
            self._show(outcome)
        else:
            self._ask_or_launch(request, outcome)

    def _ask_or_launch(self, request: StartRequest, spec: RunSpec) -> None:
        """Launch the run, or ask first if it would share a device with runs that the user has not agreed to."""
        self._run_list.poll(now=True)
        question = None if request.queues else self._question(request, spec)
        if question is not None:
            agreed = replace(request, agreed=question.neighbours)
            queued = replace(request, launch=self._enqueue, queues=True)
            ask(
                self._panels.window,
                lambda: self._check_request(agreed),
                question=question.question,
                words=question.words,
                yes=question.yes,
                is_destructive=False,
                other=(tr("Add to queue"), lambda: self._check_request(queued)) if request.run_dir is None else None,
            )
            return
        try:
            request.launch(spec)
        except (RunError, ValueError) as error:
            self._show_failure(error)

    def _question(self, request: StartRequest, spec: RunSpec) -> SharedDeviceQuestion | None:
        return shared_device_question(
            request.verb,
            spec,
            self._monitor.all_machines,
            self._run_list.on_devices,
            agreed=request.agreed,
            own=request.run_dir,
        )

    def _show_failure(self, error: Exception) -> None:
        self._message.show_message(tr(str(error)), "bad")
        self.check_again()
