"""The readings of a host's devices, in the place of a `Sampler`: they arrive through the connection."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import FRAMEWORKS
from core.config.choices import RecipeChoices, ScriptChoices
from core.config.examination import Examination
from core.devices.device import Sample, Survey
from core.devices.helper import HelperAnswer, to_document
from core.devices.reader import PROCESSES_S
from core.devices.sampler import ReadingsStore
from core.errors import RunError
from core.history.index import is_run
from core.history.removal import Removed
from core.hosts.mirror import Asked, Mirror
from core.hosts.run_files import is_run_name
from core.language import join_sentences, tr
from core.runs.facts import RunFacts
from core.runs.foreign import there
from core.runs.run import Run
from core.schema.codec import decode
from core.schema.spec import RunSpec
from core.system.helper_process import wait_until
from gui.machine.machine import Machine, RemovalCheck
from gui.machine.monitor import ReadingsSource
from gui.machine.script import TypedScript
from gui.machine.start_check import StartCheck, StartConditions, check_each, judge, lost, refused

if TYPE_CHECKING:
    from gui.machine.start_check import Choices, Given


class HostSampler:
    """Reads nothing itself. While the connection is cut, the latest readings stay, and grow old."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._store = ReadingsStore()
        self._surveyed: tuple[int, Survey] = -1, Survey()

    def poll(self) -> Survey:
        """Return what is known now."""
        for answer in self._mirror.fetch_readings():
            self._store.add(answer, time.monotonic())
            self._store.banner = answer.banner
        if self._surveyed[0] != self._store.version:
            self._surveyed = self._store.version, self._survey()
        return self._surveyed[1]

    def new_samples(self) -> list[Sample]:
        """Return the samples that arrived since the last call, in order of time."""
        return self._store.fetch()

    def set_period(self, period_s: float, *, processes_s: float = PROCESSES_S) -> None:
        """Do nothing: the agent reads twice a second."""

    def close(self) -> None:
        """Do nothing: the connection is closed by its owner."""

    def _survey(self) -> Survey:
        store = self._store
        return Survey(
            devices=tuple(store.devices.values()),
            samples=tuple(store.latest[each] for each in store.devices if each in store.latest),
            banner=store.banner,
            arrived=dict(store.arrived),
        )


ANSWER_S = 60.0
"""Longest wait for an answer: a run is resumed within 40 s, and another Python may have to be asked."""
COPY_S = 20.0
"""Longest wait for the copy of a run that was started there."""


class HostMachine(Machine):
    """A host. The folder of a run here is that of its copy, which has the name of the run's own folder there."""

    def __init__(self, mirror: Mirror) -> None:
        super().__init__(mirror.root)
        self.mirror = mirror
        self.host = mirror.host.name
        self._pending: list[Asked] = []

    @property
    def knows_runs(self) -> bool:
        """Whether the host has said which runs there are."""
        return self.mirror.state.is_complete

    def sampler(self) -> ReadingsSource:
        """Return the readings that arrive from the host."""
        return HostSampler(self.mirror)

    def close(self, *, wait: bool = True) -> None:
        """End the connection. Nothing happens to the runs there."""
        self.mirror.close(wait=wait)

    def fetch_failures(self) -> list[str]:
        """Return why something that was asked for was not done: sentences, each once."""
        done = [each for each in self._pending if each.done]
        self._pending = [each for each in self._pending if not each.done]
        return [each.error for each in done if each.error]

    def folder_of(self, run_dir: Path) -> str:
        """Return the path of a run's folder on the host, with the host's address before it, as scp takes it."""
        known = there(run_dir)
        folder = f"{known.folder}/{run_dir.name}" if known is not None else run_dir.name
        return f"{self.mirror.host.address}:{folder}"

    def obstacles(self, run_dir: Path) -> dict[str, str]:
        """Return why actions cannot be done from here: what they need is on the host."""
        where, host = self.folder_of(run_dir), self.host
        return {
            "folder": tr("The folder is on {host}: {folder}. Copy path copies this.", host=host, folder=where),
            "model": tr("The checkpoints are on {host}, in {folder}. Export the model there: trainyard export {run}",
                        host=host, folder=where, run=run_dir.name),
            **{
                name: tr("Its workers are on {host}. Ask there: trainyard {command} {run}", host=host, run=run_dir.name,
                         command="set --finish" if name == "finish" else name)
                for name in ("doctor", "set", "finish", "trace")
            },
            "resumeOn": tr("Other devices are chosen on {host}: trainyard resume {run} --devices ID,ID", host=host,
                           run=run_dir.name),
            "keep": tr("Presets have paths of one machine. Save this one on {host}: trainyard keep {run} NAME",
                       host=host, run=run_dir.name),
        }

    # -- at once ---------------------------------------------------------------------------------

    def request(self, run: Run, name: str) -> None:
        """Ask a run of the host for something."""
        self._send("request", run=run.id, name=name)

    def rename(self, run_dir: Path, name: str) -> None:
        """Give a run another name."""
        self._send("rename", run=run_dir.name, name=name)

    def change_marks(self, run_dir: Path, **changes: Any) -> None:  # noqa: ANN401 (as `change_marks`)
        """Change the marks of a run."""
        self._send("mark", run=run_dir.name, **changes)

    # -- may block -------------------------------------------------------------------------------

    def start(self, spec: RunSpec) -> Run:
        """Start a run, and return its copy as soon as there is one. May block."""
        return self._copied(self._ask("start", spec=spec.to_json()))

    def enqueue(self, spec: RunSpec, labels: Mapping[str, str]) -> Run:
        """Let a run wait in the queue of the host. May block."""
        return self._copied(self._ask("start", spec=spec.to_json(), queue=True, labels=dict(labels)))

    def resume(self, run_dir: Path, on: RunSpec | None = None) -> None:
        """Resume a run, and return when it has been resumed."""
        assert on is None, "see `obstacles`"
        self._ask("resume", run=run_dir.name)

    def check(self, choices: Choices, now: StartConditions) -> StartCheck:
        """Have the host examine choices: with its recipes, Pythons and drivers."""
        try:
            return check_each(self._on_host(choices), now, lambda each: self._check_one(each, now))
        except (RunError, ValueError) as error:
            return refused("", str(error))

    def _check_one(self, given: Given, now: StartConditions) -> StartCheck:
        answer = self._ask("examine", choices=asdict(given), devices=_packed(now.survey))
        try:
            found = decode(Examination, answer)
        except ValueError:
            found = Examination()
        if found.spec is None and not found.problems:
            return refused("", tr("The answer of {host} makes no sense.", host=self.host))
        check = judge(found, replace(now, folder_problem=str(answer.get("folder") or "")))
        return check.without_gpus(str(answer.get("gpus") or ""), now.survey)

    def check_again(self, check: StartCheck, choices: Choices, now: StartConditions) -> StartCheck:
        """Check choices once more right before the start."""
        del check
        found = self.check(choices, now)
        for spec in (found.spec, *found.others):
            if spec is not None and not found.problems and (problems := self.spec_problems(spec, now.survey)):
                raise ValueError(join_sentences(problems))
        return found

    def spec_problems(self, spec: RunSpec, survey: Survey) -> list[str]:
        """Return why a spec cannot be started on the host."""
        answer = self._ask("check_spec", spec=spec.to_json(), devices=_packed(survey))
        chosen = [device for device in survey.devices if device.id in spec.devices]
        problems = answer.get("problems")
        found = [str(each) for each in problems] if isinstance(problems, list) else []
        return [*found, *lost(chosen, survey, tr("Duplicate the run, and tick another device."))]

    def resume_problems(self, run: Run, spec: RunSpec, facts: RunFacts, survey: Survey) -> list[str]:
        """Return why a run cannot be resumed; the host says the rest when it resumes it."""
        del run, facts
        return self.spec_problems(spec, survey)

    def installed_frameworks(self) -> frozenset[str]:
        """Return the ids of the frameworks that are installed on the host."""
        try:
            installed = self._ask("frameworks").get("installed")
        except RunError:  # the check says so; they are asked for again when there is a connection
            installed = None
        return frozenset(map(str, installed) if isinstance(installed, list) else (row.id for row in FRAMEWORKS))

    def check_removal(self, run_dir: Path) -> RemovalCheck:
        """Check whether a run can be deleted, and measure its size on the host's disk."""
        answer = self._ask("remove", run=run_dir.name, ask=True)
        return RemovalCheck(why_not=str(answer.get("why_not") or ""), size_bytes=_bytes(answer.get("size_bytes")))

    def remove(self, run_dir: Path, *, for_good: bool) -> Removed:  # noqa: ARG002 (there is no other way on a host)
        """Delete a run of the host."""
        answer = self._ask("remove", run=run_dir.name)
        return Removed(freed_bytes=_bytes(answer.get("freed_bytes")), problem=str(answer.get("problem") or ""))

    # -- the agent -------------------------------------------------------------------------------

    def _send(self, ability: str, **terms: object) -> None:
        """Have the agent do something without waiting for it. Raises `RunError` without a connection."""
        asked = self.mirror.ask(ability, **terms)
        if asked.done:
            raise RunError(asked.error)
        self._pending.append(asked)

    def _ask(self, ability: str, **terms: object) -> Mapping[str, Any]:
        """Have the agent do something, and return its answer. Raises `RunError`."""
        asked = self.mirror.ask(ability, **terms)
        wait_until(lambda: asked.done or not self.mirror.is_wanted(), ANSWER_S)
        if not asked.done:
            raise RunError(tr("{host} has not answered within {seconds:g} s.", host=self.host, seconds=ANSWER_S))
        if asked.error:
            raise RunError(asked.error)
        return asked.value if isinstance(asked.value, dict) else {}

    def _copied(self, answer: Mapping[str, Any]) -> Run:
        """Return the copy of the run that an answer names, as soon as it can be read."""
        name = answer.get("run")
        if not is_run_name(name):
            raise RunError(tr("The answer of {host} makes no sense.", host=self.host))
        run_dir = self.root / str(name)
        wait_until(lambda: is_run(run_dir) or not self.mirror.is_wanted(), COPY_S)
        if not is_run(run_dir):
            raise RunError(tr("{run} was started on {host}, and is not copied yet. The list shows it when it is.",
                              run=name, host=self.host))
        return Run.attach(run_dir)

    def _on_host(self, choices: Choices) -> RecipeChoices | ScriptChoices:
        """Return choices whose paths are those of the host. Raises `ValueError`."""
        if not isinstance(choices, TypedScript):
            return choices
        if choices.script and not choices.module and not choices.script.startswith("/"):
            raise ValueError(tr("Give the whole path that the script has on {host}, beginning with /.", host=self.host))
        return choices.choices()


def _packed(survey: Survey) -> dict[str, Any]:
    return to_document(HelperAnswer(devices=survey.devices, samples=()))


def _bytes(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
