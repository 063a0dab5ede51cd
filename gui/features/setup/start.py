"""Check the user's choices whenever they or the machine change; start, start again and resume runs."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from PySide6.QtCore import QObject, QTimer, Signal

from core.catalog.frameworks import FRAMEWORKS
from core.config.finding import BATCH, FIT, PYTHON, QUEUE, TICK, Cure
from core.devices.device import Survey
from core.errors import RunError
from core.history.device_use import largest_others
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.runs.facts import RunFacts, state_info
from core.runs.run import Run
from core.schema.spec import RunSpec
from core.system.logout import at_logout, logout_warning
from core.text import join_names
from gui.base.jobs import Jobs, reason
from gui.base.settings_file import SettingsFile
from gui.features.setup.fit import CANCEL, FitController
from gui.features.setup.reuse import ReuseController
from gui.machine import start_check
from gui.machine.machine import Machine
from gui.machine.start_check import StartCheck, StartConditions, checking, readings_state, refused
from gui.runs.rows import owner_question
from gui.runs.words import QuestionWords
from gui.widgets.dialogs import ask, ask_first
from gui.window.feature import Feature

if TYPE_CHECKING:
    from gui.machine.start_check import Choices


Neighbour = tuple[str, str]
"""A device id, and what tells a live run on that device from others, such as its directory."""
Users = Mapping[str, Mapping[str, str]]
"""By device id, the titles of the live runs on it, by what tells them apart."""


QUESTIONS = {
    "Start": (tr_noop("Start {name} and share {devices} with {runs}?"), tr_noop("Start anyway")),
    "Resume": (tr_noop("Resume {name} and share {devices} with {runs}?"), tr_noop("Resume anyway")),
}
"""By verb, the question and the text of the button that agrees."""


def neighbours_of(spec: RunSpec, users: Users, own: Path | None = None) -> frozenset[Neighbour]:
    """Return the live runs on the devices of a run. `own`: its directory, as another window may have resumed it."""
    return frozenset((device, run) for device in spec.devices for run in users.get(device, ()) if run != str(own))


def shared_device_question(
    verb: str, spec: RunSpec, survey: Survey, users: Users, *, agreed: frozenset[Neighbour], own: Path | None = None
) -> QuestionWords | None:
    """Return the question before this run shares its devices; None if it shares them only as `agreed`.

    `verb`: `Start` or `Resume`; `own`: see `neighbours_of`.
    """
    neighbours = neighbours_of(spec, users, own)
    if neighbours <= agreed:
        return None
    shared = {device for device, _ in neighbours}
    where = join_names([device.label for device in survey.devices if device.id in shared])
    on_them = [users.get(device, {}) for device in spec.devices]
    runs = {run: title for each in on_them for run, title in each.items() if run != str(own)}
    question, yes = QUESTIONS[verb]
    words = tr("Sharing a device slows down all runs, and any may run out of memory.")
    if len(runs) == 1:
        words = tr("Sharing a device slows down both runs, and either may run out of memory.")
    return QuestionWords(
        tr(question, name=spec.name, devices=where, runs=join_names(list(runs.values()))), words, tr(yes)
    )


NOT_CHECKED = tr_noop("The choices could not be checked: {reason}. Change one of them to try again.")
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
            lambda error: self._take(choices, refused("", tr(NOT_CHECKED, reason=reason(error)))),
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


DEBOUNCE_MS = 80
"""Milliseconds without another change before choices are checked."""
PENDING_MS = 200
"""Milliseconds for which the last check stays shown while other choices are checked: most checks are faster."""
DOUBLE_CLICK_S = 1.0
"""Seconds after a start in which another start is the second half of a double click."""


class StartController(Feature):
    """Nothing here blocks: choices are checked in the background, and once more right before the start.

    All starts go through `_check_last` and `_ask_or_launch`, then `_launch`, `_enqueue` or `_launch_resume`.
    """

    def set_up(self) -> None:
        panels, services = self.panels, self.services
        self._scanner, self._queue = services.process_scanner, services.queue
        self._checker = services.adopt(StartChecker(self._machine))
        self._checker.checked.connect(self._take_check)
        self._choices: Choices | None = None
        self.current_check: StartCheck | None = None
        """The newest check of these choices; None while it is under way."""
        self._start_when_checked = self._queues_then = False
        self._readings: object = None
        """The part of the readings that the newest check depends on."""
        self._checking_last = Jobs(self, "last-check", guards=True)
        self._starting = Jobs(self, "start-there", guards=True)
        self._resuming = Jobs(self, "resume", guards=True)
        self._installed = Jobs(self, "frameworks")
        self._started_at = float("-inf")
        self._debounce = QTimer(self, singleShot=True, interval=DEBOUNCE_MS)
        self._debounce.timeout.connect(self._check_now)
        self._pending = QTimer(self, singleShot=True, interval=PENDING_MS)
        self._pending.timeout.connect(self._show_pending)
        panels.setup.changed.connect(self.check)
        panels.setup.status.cured.connect(self.cure)
        panels.header.buttons.start.clicked.connect(lambda _: self.start())
        panels.header.buttons.resume_asked.connect(self.resume)
        panels.actions.provide(resumeOn=lambda runs: self._resume_on(Path(runs[0])))
        panels.menu.provide(addToQueue=lambda: self.start(queues=True))
        for source in (self._run_list, self._queue):
            source.changed.connect(self.check_again)
        self._scanner.changed.connect(self.take_readings)
        services.devices.changed.connect(panels.setup.show_machine)
        services.chosen.changed.connect(panels.setup.show_devices)
        services.connected.changed.connect(lambda connected: self.reread() if connected else None)
        self.fit = FitController(self)
        self._reuse = ReuseController(self)  # kept here: no signal holds it

    # -- check -----------------------------------------------------------------------------------

    def check(self, choices: Choices) -> None:
        """Check these choices from now on."""
        if choices != self._choices:
            self._choices, self.current_check, self._start_when_checked = choices, None, False
        self.check_again()

    def check_again(self) -> None:
        """Check the choices again soon: the machine or the runs may have changed."""
        self._debounce.start()

    def opened(self) -> None:
        """Check everything for the first time."""
        self.reread()

    def reread(self) -> None:
        """Check everything again: files may have been edited and packages installed."""
        self.panels.setup.recipe.reread()
        machine = self._machine
        show = self.panels.setup.recipe.show_installed
        self._installed.start(
            machine.installed_frameworks, show, lambda _: show(frozenset(row.id for row in FRAMEWORKS))
        )
        self.check(self.panels.setup.choices())

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

    def carry(self, former: Self) -> None:
        """Open the settings where they were open."""
        if former.panels.setup.sheet.isVisible():
            self.panels.setup.sheet.toggle()

    def end(self) -> None:
        """Check and start nothing any more. The jobs are closed by the window."""
        self._start_when_checked = False
        self.fit.begin(CANCEL)
        self._debounce.stop()
        self._pending.stop()

    def _check_now(self) -> None:
        self._debounce.stop()
        if self._choices is not None:
            self._checker.check(self._choices, self._conditions())
            if self.current_check is None and not self._pending.isActive():
                self._pending.start()

    def _show_pending(self) -> None:
        if self.current_check is None and self._choices is not None:
            self._show(checking(self._choices))

    def _take_check(self, choices: Choices, check: StartCheck) -> None:
        if choices != self._choices:
            return
        self.current_check = check
        self._pending.stop()
        self._show(check)
        if self._start_when_checked:
            self._start_when_checked = False
            self.start(queues=self._queues_then)

    def _show(self, check: StartCheck) -> None:
        self.panels.setup.show_check(self.fit.complete(check))
        self._reuse.show_check(check)
        self.panels.header.buttons.allow_start("\n".join(check.problems), is_proposed=not check.busy)
        if not check.pending and check.folder_problem != self._message.lasting:
            self._message.lasting = check.folder_problem
            self._message.clear()

    def _conditions(self) -> StartConditions:
        return StartConditions(
            survey=self._monitor.all_machines,
            used_by=self._queue.titles,
            held_by=self._held_by(),
            stale_age_s=self._monitor.stale_age_s,
            runs=self._run_list.summaries,
        )

    def _held_by(self) -> dict[str, str]:
        own = largest_others(self._monitor.survey, self._scanner.device_processes, self._scanner.runs().living)
        return {**own, **self._monitor.hosts.held_by()}

    def cure(self, cure: Cure) -> None:
        """Do what a finding offers."""
        if cure.does == QUEUE:
            self.start(queues=True)
        elif cure.does == TICK:
            self.panels.devices.chosen.tick_only(cure.values)
        elif cure.does in {BATCH, PYTHON}:  # a host may say anything
            self.panels.setup.set_value(cure.does, "".join(cure.values))
        elif cure.does == FIT:
            self.fit.begin("".join(cure.values))

    # -- start -----------------------------------------------------------------------------------

    def start(self, *, queues: bool = False) -> None:
        """Start or queue what is chosen. Choices that are being checked are started after the check."""
        if self._just_started or self._checking_last.busy or self._choices is None:
            return
        check, choices = self.current_check, self._choices
        if check is None:
            self._start_when_checked, self._queues_then = True, queues
            self._check_now()
        elif check.problems or check.spec is None:
            self._check_now()
        else:
            now, machine, others = self._conditions(), self._machine, list(check.others)
            queues = queues or bool(others)

            def last() -> RunSpec | StartCheck:
                found = machine.check_again(check, choices, now)
                others[:] = found.others
                return found if found.problems or found.spec is None else found.spec

            def enqueue(spec: RunSpec) -> None:
                self._enqueue(spec, others)

            self._check_last(last, enqueue if queues else self._launch, choices=choices, shares=not queues)

    def start_again(self, spec: RunSpec) -> None:
        """Start the same as another run, whatever is chosen now."""
        if self._just_started or self._checking_last.busy:
            return
        self._message.show_message("")
        survey, machine = self._monitor.all_machines, self._machine
        own = replace(spec, sweep="")
        self._check_last(lambda: _unless(machine.spec_problems(own, survey), own), self._launch)

    def _launch(self, spec: RunSpec) -> None:
        """Start a run, and show it."""
        self._do(spec, lambda machine: machine.start(spec), self._show_started)

    def _enqueue(self, spec: RunSpec, others: Sequence[RunSpec] = ()) -> None:
        """Let a run, and others on the same devices, wait for these. The window goes on showing what it shows."""
        labels = {each.id: each.label for each in self._monitor.all_machines.devices if each.id in spec.devices}

        count, done, common = 1 + len(others), list[Run](), secrets.token_hex(3) if others else ""

        def enqueue(machine: Machine) -> Run:
            try:
                for each in (spec, *others):
                    done.append(machine.enqueue(replace(each, sweep=common), labels))
            except Exception as error:
                if not done:
                    raise
                added = tr("{count} of {all} runs were added to the queue.", count=len(done), all=count)
                raise RunError(join_sentences([added, tr(str(error))])) from error
            return done[0]

        self._do(spec, enqueue, lambda _: self._show_queued(spec, count), count)

    def _do(self, spec: RunSpec, work: Callable[[Machine], Run], show: Callable[[Run], None], count: int = 1) -> None:
        """Start or queue runs; many, or any on a host, in the background, since that may take seconds."""
        machine = self._machine
        if machine.is_here and count == 1:
            show(work(machine))
        elif self._starting.start(lambda: work(machine), show, self._show_failure):
            self._started_at = time.monotonic()
            said = tr("Starting {name} on {host} …", name=spec.name, host=machine.host)
            if count > 1:
                said = tr("Adding {count} runs of {name} to the queue …", count=count, name=spec.name)
            self._message.show_message(said, "good")

    def _show_started(self, run: Run) -> None:
        self._started_at = time.monotonic()
        self._run_list.poll(now=True)
        self._message.show_message("")
        self._session.show_started(run)
        self.check_again()
        self._warn_of_logout()

    def _show_queued(self, spec: RunSpec, count: int) -> None:
        self._started_at = time.monotonic()
        self._run_list.poll(now=True)
        added = tr_plural(
            "Added {name} to the queue. It starts when its devices are free.",
            "Added {count} runs of {name} to the queue. Each starts when its devices are free.", count, name=spec.name,
        )
        self._message.show_passing(added)
        self._warn_of_logout()

    def _warn_of_logout(self) -> None:
        """Say that a log-out may end runs, the first time that a run is started on this machine."""
        sentence = logout_warning() if self._machine.is_here else ""
        if sentence and SettingsFile().first_time("window/warned_of_logout"):
            self._message.show_message(join_sentences([self._message.text, sentence]), "warn")

    @property
    def _just_started(self) -> bool:
        return time.monotonic() - self._started_at < DOUBLE_CLICK_S

    # -- resume ----------------------------------------------------------------------------------

    def resume(self) -> None:
        """Resume the run that the window shows; a queued one is started, after a question."""
        run, spec, facts = self._session.run, self._session.spec, self._session.facts
        if run is None or self._checking_last.busy or self._resuming.busy:
            return
        if state_info(facts.state).waits:
            self.panels.actions.do("startNow", [str(run.dir)])
            return
        self._message.show_message("")
        question = owner_question("Resume", tr("the run {name}", name=spec.name if spec else run.id), run.owner, spec)
        ask_first(self.panels.window, question, lambda: self._check_resume(run, spec, facts))

    def _check_resume(self, run: Run, spec: RunSpec | None, facts: RunFacts) -> None:
        if spec is None:
            self._launch_resume(run.dir)
            return
        survey, machine = self._monitor.all_machines, self._machine
        self._check_last(
            lambda: _unless(machine.resume_problems(run, spec, facts, survey), spec),
            lambda _: self._launch_resume(run.dir), resumed=run.dir,
        )

    def _resume_on(self, run_dir: Path) -> None:
        """Resume a run on the ticked devices, after a question."""
        survey, ticked = self._monitor.all_machines, self.panels.devices.chosen.ticked

        def launch(spec: RunSpec) -> None:
            words = start_check.move_question(run_dir, spec, survey)._asdict()
            ask(self.panels.window, lambda: self._launch_resume(run_dir, spec), is_destructive=False, **words)

        if not (self._checking_last.busy or self._resuming.busy):
            self._check_last(lambda: start_check.moved_spec(run_dir, ticked, survey), launch, resumed=run_dir)

    def _launch_resume(self, run_dir: Path, on: RunSpec | None = None) -> None:
        machine = self._machine
        if self._resuming.start(lambda: machine.resume(run_dir, on), self._take_resumed, self._take_resumed):
            self._session.set_resuming(run_dir)

    def _take_resumed(self, error: Exception | None) -> None:
        self._session.set_resuming(None)
        self._message.show_message(tr(str(error or "")), "bad")
        self._session.poll()
        self._run_list.poll(now=True)
        if error is None:
            self._warn_of_logout()

    # -- the last check --------------------------------------------------------------------------

    def _check_last(
        self, check: Callable[[], RunSpec | StartCheck], launch: Callable[[RunSpec], None], *,
        choices: Choices | None = None, resumed: Path | None = None, shares: bool = True,
        agreed: frozenset[Neighbour] = frozenset(),
    ) -> None:
        """Check in the background, then launch the run, or ask first whether it may share its devices.

        `check`: returns the spec, or a check with problems; raises `ValueError` for other problems. `choices`: those
        that must still be chosen then. `resumed`: the run to be resumed. `shares`: whether it may share devices, as a
        queued run does not. `agreed`: what the user has agreed to share.
        """

        def work() -> RunSpec | StartCheck:
            at_logout()  # asked once, and the start needs it
            return check()

        def is_wanted() -> bool:
            if resumed is not None:
                self._session.set_resuming(None)
            return choices is None or choices == self._choices

        def take(outcome: RunSpec | StartCheck) -> None:
            if not is_wanted():
                return
            if isinstance(outcome, StartCheck):
                self.current_check = outcome
                self._show(outcome)
            else:
                again = partial(self._check_last, check, choices=choices, resumed=resumed)
                self._ask_or_launch(outcome, launch, again, resumed, agreed if shares else None)

        def fail(error: Exception) -> None:
            if is_wanted():
                self._show_failure(error)

        if self._checking_last.start(work, take, fail) and resumed is not None:
            self._session.set_resuming(resumed)

    def _ask_or_launch(
        self, spec: RunSpec, launch: Callable[[RunSpec], None], again: Callable[..., None], resumed: Path | None,
        agreed: frozenset[Neighbour] | None,
    ) -> None:
        """Launch a run that was checked, unless it shares more than was agreed; check `again` after a yes."""
        self._run_list.poll(now=True)
        question = None
        if agreed is not None:
            self._queue.poll(now=True)  # other users and folders may have started runs, too
            verb, users, survey = "Resume" if resumed else "Start", self._queue.users, self._monitor.all_machines
            question = shared_device_question(verb, spec, survey, users, agreed=agreed, own=resumed)
        if question is not None:
            agreed = neighbours_of(spec, users, resumed)
            other = None if resumed else (tr("Add to queue"), lambda: again(self._enqueue, shares=False))
            yes = partial(again, launch, agreed=agreed)
            ask(self.panels.window, yes, is_destructive=False, other=other, **question._asdict())
        elif not self._message.attempt(lambda: launch(spec)):
            self.check_again()

    def _show_failure(self, error: Exception) -> None:
        self._message.show_message(tr(str(error)), "bad")
        self.check_again()


def _unless(problems: list[str], spec: RunSpec) -> RunSpec:
    """Return the spec; raise `ValueError` with the problems if there are any."""
    if problems:
        raise ValueError(join_sentences(problems))
    return spec
