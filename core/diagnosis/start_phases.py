"""What a run does before its first step, in words with seconds: at the moment, and as an account afterwards."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import PurePath

from core.devices.names import list_labels
from core.language import tr, tr_noop, tr_plural
from core.runs.facts import RunFacts, RunState
from core.schema.event_kinds import Phase, RunDevice, WorkerStart
from core.schema.spec import RunSpec
from core.text import as_sentence, duration, join_phrases

SENTENCES = {
    "devices": tr_noop("checking the devices {seconds}"),
    "processes": tr_noop("starting {count} processes {seconds}"),
    "framework": tr_noop("loading {framework} {seconds}"),
    "download": tr_noop("waiting for downloads {seconds}"),
    "recipe": tr_noop("loading the recipe {seconds}"),
    "data": tr_noop("reading data {seconds}"),
    "model": tr_noop("building the model {seconds}"),
    "join": tr_noop("joining {count} processes {seconds}"),
    "checkpoint": tr_noop("loading the checkpoint {seconds}"),
    "compile": tr_noop("compiling {seconds}"),
    "step": tr_noop("first step {seconds}"),
}
"""By phase; see `core.worker.context.Context.enter_phase`. The first two are known from the supervisor."""
ALONE = {
    "processes": tr_noop("starting Python {seconds}"),
    "join": tr_noop("waiting for the other processes {seconds}"),
}
"""The sentences for a run with one process, or with one that is known so far."""
SHOWN_AFTER_S = 1.0
"""A phase that has lasted fewer seconds is shown without a number."""


def start_words(facts: RunFacts, framework: str, now: float) -> str:
    """Return `loading PyTorch 3 s` while a run starts; the empty string for any other run.

    `framework`: its title, or the empty string for a script. `now`: unix seconds.
    """
    if not framework or facts.state not in {RunState.STARTING, RunState.RUNNING}:
        return ""
    if facts.phase is not None and facts.phase.name in SENTENCES:
        name, since = facts.phase.name, facts.phase.time
    elif facts.state is RunState.RUNNING or facts.plan is not None:  # the first step is done
        return ""
    else:
        name, since = "processes" if facts.workers else "devices", facts.history[-1][0]
    seconds = tr("{seconds} s", seconds=int(now - since)) if now - since >= SHOWN_AFTER_S else ""
    count = sum(worker.role != "fetch" for worker in facts.workers.values())
    sentence = ALONE.get(name, SENTENCES[name]) if count <= 1 else SENTENCES[name]
    return tr(sentence, framework=framework, count=count, seconds=seconds).rstrip()


# -- the account of a start ----------------------------------------------------------------------


MAX_PHASES = 100
"""Phases of one start that are kept."""
SLOW_S = 1.0
"""A phase that took fewer seconds is left out, unless it is one of `ALWAYS_SHOWN`."""
PARTS = {
    "framework": tr_noop("{what} loaded in {seconds}"),
    "download": tr_noop("downloads in {seconds}"),
    "recipe": tr_noop("recipe loaded in {seconds}"),
    "data": tr_noop("data in {seconds}"),
    "model": tr_noop("model built in {seconds}"),
    "join": tr_noop("processes joined in {seconds}"),
    "checkpoint": tr_noop("checkpoint loaded in {seconds}"),
}
"""The phases of a start once they are over."""
ALWAYS_SHOWN = ("framework", "data")


class StartAccount:
    """What the events of a start say: its devices, its processes, its Python, and how long its parts took."""

    def __init__(self, spec: RunSpec | None, framework: str) -> None:
        """`spec`: None if it cannot be read. `framework`: its title, or the empty string for a script."""
        self._environment = environment(spec.python) if spec is not None else ""
        self._framework = framework
        self.number = 0
        """How often the run was started so far."""
        self.labels: dict[str, str] = {}
        """The labels of its devices by id."""
        self._began: float | None = None
        """When the run was started, until its first step."""
        self._has_opening = True
        self._processes = 0
        self._python = self._version = ""
        self._phases: list[tuple[str, float]] = []

    @property
    def is_open(self) -> bool:
        """Whether the run was started and has done no step since."""
        return self._began is not None

    def begin(self, time: float) -> None:
        """Begin with another start."""
        self.number += 1
        self._began, self._has_opening, self._processes = time, False, 0
        self._python, self._phases = "", []

    def add_device(self, device: RunDevice) -> None:
        self.labels[device.id] = device.label or device.id

    def add_worker(self, worker: WorkerStart) -> None:
        """Add a process of the run."""
        self._processes += worker.role != "fetch"

    def add_phase(self, phase: Phase) -> None:
        """Add a phase; only those of rank 0 count."""
        if phase.rank != 0:
            return
        self._python = phase.python or self._python
        self._version = phase.framework or self._version
        if len(self._phases) < MAX_PHASES:
            self._phases.append((phase.name, phase.time))

    def opening(self, time: float) -> tuple[float, str] | None:
        """Return when the run was started and on what, once its processes are known; None if that was returned."""
        if self._has_opening or not self._processes:
            return None
        self._has_opening = True
        sentence = tr_noop("Started on {devices}: {how}.")
        if self.number > 1:
            sentence = tr_noop("Resumed on {devices}: {how}.")
        processes = tr_plural("{count} process", "{count} processes", self._processes)
        python = ""
        if self._environment:
            python = tr("Python ({environment})", environment=self._environment)
        if python and self._python:
            python = tr("Python {version} ({environment})", version=self._python, environment=self._environment)
        how = join_phrases([processes, python])
        devices = list_labels([*self.labels.values()])
        return self._began if self._began is not None else time, tr(sentence, devices=devices, how=how)

    def end(self, first_step: float | None) -> tuple[float, str] | None:
        """End the start. Return when, and how long its parts took; None if that is not known.

        `first_step`: when the first step was done; None for a start without one.
        """
        began, phases = self._began, self._phases
        self._began, self._phases = None, []
        if not self._framework or began is None or (first_step is None and len(phases) < 2):
            return None
        parts = self._parts(phases, first_step)
        if first_step is not None:
            parts.append(tr("first step after {seconds}", seconds=duration(first_step - began)))
        if not parts:
            return None
        text = as_sentence(join_phrases(parts))
        return first_step if first_step is not None else phases[-1][1], text

    def _parts(self, phases: list[tuple[str, float]], until: float | None) -> list[str]:
        took: dict[str, float] = {}
        for (name, begin), (_, end) in pairwise([*phases, ("", until if until is not None else math.nan)]):
            took[name] = took.get(name, 0.0) + end - begin
        what = f"{self._framework} {self._version}".rstrip()
        return [
            tr(PARTS[name], what=what, seconds=duration(seconds))
            for name, seconds in took.items()
            if name in PARTS and not math.isnan(seconds) and (name in ALWAYS_SHOWN or seconds >= SLOW_S)
        ]


def environment(python: str) -> str:
    """Return a short name of an interpreter: the folder of its environment, or its path where it has none."""
    path = PurePath(python)
    folder = path.parent.parent
    if path.parent.name not in {"bin", "Scripts"} or folder.name in {"", "usr", "local"}:
        return python
    if folder.name in {"venv", ".venv", "env", ".env"} and folder.parent.name:
        return f"{folder.parent.name}/{folder.name}"
    return folder.name
