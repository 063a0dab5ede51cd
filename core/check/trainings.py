"""The checks that train: every strategy, pause, kills, a hang, too little memory, and what watching costs."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial

from core.catalog.frameworks import framework
from core.catalog.installed import interpreter
from core.catalog.strategies import STRATEGIES
from core.check.check import CouldNotLook, NotApplicable, Problem, Scope
from core.check.gpu_work import PROBE, REPORT, at_work, said
from core.config.choices import RecipeChoices, ScriptChoices
from core.config.examination import examine
from core.config.validation import is_installed, obstacle
from core.devices.device import Device
from core.diagnosis.causes import Cause
from core.diagnosis.failures import failure_of
from core.doctor import examination as doctor
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.runs import directory
from core.runs.facts import RunState, state_info
from core.runs.run import Launch, Run
from core.schema.event_kinds import Metrics, Verdict
from core.schema.spec import RunSpec
from core.system import processes
from core.text import join_names, join_phrases

RECIPE, EPOCHS, SEED = "digits_mlp", 2, 11
HANGING = """
import time, torch

def model():
    return torch.nn.Linear(4, 2)

def train_data():
    return torch.ones(1024, 4), torch.zeros(1024, dtype=torch.long)

class Loss(torch.nn.CrossEntropyLoss):
    calls = 0

    def forward(self, output, target):
        self.calls += 1
        while self.calls > 1 and torch.distributed.get_rank() == 1:
            time.sleep(1)
        return super().forward(output, target)

loss = Loss
"""
"""A recipe of which worker 1 takes part in no collective after its first step, while the other one waits for it."""
RUN_S, POLL_S = 300.0, 0.05
"""Seconds for one training, and between two looks at it."""
SAME = 1e-3
"""Relative difference of the last losses of one training on different devices: sums of float32 in another order."""
ROUNDS, STEPS = 3, {"cpu": 200, "cuda": 5000}
"""Trainings that are timed, and the steps of each: seconds on a small CPU, and on a GPU."""
WATCHED = 0.9
"""Share of the speed by hand from which watching is no problem. Small machines vary by more than watching costs."""
GONE_S = 30.0
HELD = (Verdict.HELD_BY_RUN, Verdict.UNEXPLAINED)
"""Verdicts on the memory that are a problem of ours, or of the driver."""
UNLIKE = tr_noop("the last loss is {loss:.6g}, and {first:.6g} on one device")


class Training:
    """A run of a check, and the last loss that was read of it."""

    def __init__(self, run: Run) -> None:
        self.run, self.loss = run, math.nan

    def follow(self, until: Callable[[Run], bool] = lambda _: False) -> Training:
        """Read events until the run is over, or something holds of it. Raises `CouldNotLook` if that takes too long."""
        deadline = time.monotonic() + RUN_S
        while True:
            for event in self.run.poll():
                values = event.get("values")
                if event["kind"] == Metrics.kind and isinstance(values, dict) and values.get("loss"):
                    self.loss = values["loss"][-1]
            if state_info(self.run.facts.state).over or until(self.run):
                return self
            if time.monotonic() > deadline:
                raise CouldNotLook(tr("a training was not over after {seconds:g} s", seconds=RUN_S))
            time.sleep(POLL_S)

    @property
    def problem(self) -> str:
        """Why it did not finish; the empty string if it did."""
        facts = self.run.facts
        return "" if facts.state is RunState.FINISHED else tr(facts.error or state_info(facts.state).label)


def strategies(name: str, scope: Scope) -> str:
    """Train with all strategies of a framework, and compare their curves."""
    _may_train(scope, name)
    trained, left_out, wrong, first = list[str](), list[str](), list[str](), math.nan
    for strategy in (row for row in STRATEGIES if row.framework == name):
        devices = scope.devices[: strategy.max_devices]
        try:
            training = _train(scope, _recipe(scope, name, strategy.name, devices))
        except Problem as why:
            left_out.append(obstacle(strategy, devices) or str(why))
            continue
        first = training.loss if math.isnan(first) else first  # the one on a single device, unless that failed
        if training.problem:
            wrong.append(f"{strategy.name}: {training.problem}")
        elif not strategy.is_asynchronous and not _same(training.loss, first):
            wrong.append(f"{strategy.name}: {tr(UNLIKE, loss=training.loss, first=first)}")
        else:
            trained.append(strategy.name)
    words = tr("trained: {names}", names=join_names(trained)) if trained else ""
    seen = "; ".join(filter(None, [*wrong, words, " ".join(dict.fromkeys(left_out))]))
    if wrong:
        raise Problem(seen, tr("Train with another strategy, and report this check."), scope.devices)
    if not trained:
        raise NotApplicable(seen)
    return seen


def pause(scope: Scope) -> str:
    _may_train(scope, "pytorch")
    spec = _recipe(scope, "pytorch", "single", scope.devices[:1], epochs=100)
    whole = _train(scope, spec)
    training = _train(scope, spec, lambda run: run.facts.plan is not None and 4 * run.facts.step > run.facts.plan.steps)
    run = training.run
    run.request("pause")
    training.follow()
    if run.facts.state is not RunState.PAUSED:
        raise CouldNotLook(tr("the training was over before it could be paused: {problem}", problem=training.problem))
    step = run.facts.step
    resumed = Training(Run.resume(run.dir, launch=_launch(scope))).follow()
    if problem := whole.problem or resumed.problem:
        raise Problem(problem, tr(REPORT), scope.devices)
    words = tr("paused after step {step}; last loss {loss:.9g}, without a pause {whole:.9g}", step=step,
               loss=resumed.loss, whole=whole.loss)
    if not _same(resumed.loss, whole.loss):
        raise Problem(words, tr("Do not rely on pauses on these devices, and report this check."), scope.devices)
    return words


def kills(scope: Scope) -> str:
    _may_train(scope, "pytorch")
    spec, words = _recipe(scope, "pytorch", "single", scope.devices[:1], epochs=1000), []
    for name in (tr("worker"), tr("supervisor"), tr("guard")):
        training = _train(scope, spec, lambda run: run.facts.step > 0)
        run = training.run
        worker = next((each.process for each in run.facts.workers.values()), None)
        others = {tr("supervisor"): run.facts.supervisor, tr("guard"): run.facts.guard}
        if (victim := others.get(name, worker)) is None:
            raise CouldNotLook(tr("the training had ended before: {problem}", problem=training.problem))
        os.kill(victim.pid, signal.SIGKILL)
        began = time.monotonic()
        if name == tr("guard"):
            run.request("stop")  # the run goes on without it
        training.follow()
        while left := processes.tagged(run.id):
            if time.monotonic() - began > GONE_S:
                raise Problem(
                    tr_plural("{count} process of a run was left {seconds:g} s after SIGKILL to its {name}",
                              "{count} processes of a run were left {seconds:g} s after SIGKILL to its {name}",
                              len(left), seconds=GONE_S, name=name),
                    tr("End them (trainyard sweep), and report this check."))
            time.sleep(POLL_S)
        if held := [each.sentence for each in run.facts.releases.values() if each.verdict in HELD]:
            raise Problem(join_phrases(map(tr, held)), tr("Look what holds it (trainyard devices)."), scope.devices)
        words.append(tr("{name} {seconds:.1f} s", name=name, seconds=time.monotonic() - began))
    return tr("everything gone after SIGKILL: {words}", words=join_phrases(words))


def hang(scope: Scope) -> str:
    """Let a worker wait for ever, and ask which of them holds the others up."""
    _may_train(scope, "pytorch")
    if len(scope.devices) < 2:
        raise NotApplicable(tr("workers wait for each other on two devices or more"))
    recipe = scope.folder / "hanging.py"
    recipe.write_text(HANGING, encoding="utf-8")
    spec = _recipe(scope, "pytorch", "ddp", scope.devices[:2], epochs=1000, recipe=str(recipe))
    training = _train(scope, spec, lambda run: run.facts.step > 0)
    try:
        diagnosis, _ = doctor.examine(training.run)
    except ValueError:
        raise Problem(training.problem, tr(REPORT), scope.devices) from None
    for request in ("stop", "force"):
        training.run.request(request)
    training.follow()
    if diagnosis.blamed != (1,):
        raise Problem(diagnosis.sentence, tr(REPORT), scope.devices)
    return diagnosis.sentence


def memory(scope: Scope) -> str:
    gpus = [gpu for gpu in scope.gpus_to_use if not gpu.shared_memory and gpu.memory_total_bytes]
    if not gpus:
        raise NotApplicable(tr("these GPUs have no memory of their own"))
    terms = json.dumps({"bytes": gpus[0].memory_total_bytes})
    training = _train(scope, _script(scope, gpus[:1], "exhaust", "cuda", terms))
    failure = failure_of(training.run.facts, training.run.spec(), log_end=training.run.log_end())
    if training.run.facts.state is RunState.FINISHED:  # such as drivers of WSL2
        raise NotApplicable(tr("the driver lends GPUs memory of the host"))
    if failure is None or failure.cause is not Cause.DEVICE_MEMORY:
        raise Problem(tr("the failure is called “{title}”", title=failure.title if failure else training.problem),
                      tr(REPORT), gpus[:1])
    return failure.title


def watching(scope: Scope) -> str:
    _may_train(scope, "pytorch")
    devices = scope.devices[:1]
    device = "cuda" if devices[0].kind == "nvidia" else "cpu"
    steps = STEPS[device]
    spec, by_hand, as_run = _script(scope, devices, "steps", device, json.dumps({"steps": steps})), [], []
    for _ in range(ROUNDS):
        terms = {"cores": devices[0].cores, "steps": steps}
        with at_work(scope, "steps", [devices], "seconds", late_s=RUN_S, **terms) as [probe]:
            by_hand.append(probe.answer["seconds"])
        training = _train(scope, spec)
        seconds = said(training.run.log_end().encode()).get("seconds")
        if seconds is None:
            raise CouldNotLook(training.problem or tr("the program said nothing"))
        as_run.append(seconds)
    ratio = min(by_hand) / min(as_run)  # the fastest are those that were disturbed least
    words = tr("a run has {ratio:.3f} of the speed by hand", ratio=ratio)
    if ratio < WATCHED:
        raise Problem(words, tr("Look what else runs on this machine, check again, and report this check."))
    return words


# -- what they share -------------------------------------------------------------------------------


def _same(loss: float, other: float) -> bool:
    """Return whether two losses are the same but for rounding. Not a number is like nothing."""
    return abs(loss - other) <= SAME * abs(other)


def _may_train(scope: Scope, name: str) -> None:
    if not is_installed(framework(name)):
        raise NotApplicable(tr("{title} is not installed", title=framework(name).title))
    scope.refuse_if_busy()


def _recipe(scope: Scope, name: str, strategy: str, devices: Sequence[Device], *, epochs: int = EPOCHS,
            recipe: str = RECIPE) -> RunSpec:
    """Return the spec of a training. Raises as `_spec`."""
    training = {"epochs": epochs, "batch_size": 64, "seed": SEED}
    return _spec(scope, devices, partial(RecipeChoices, recipe=recipe, framework=name, strategy=strategy,
                                         training=training, name=f"check {strategy}"))


def _script(scope: Scope, devices: Sequence[Device], *arguments: str) -> RunSpec:
    """Return the spec of a run of the program that computes. Raises as `_spec`."""
    return _spec(scope, devices, partial(ScriptChoices, script=str(PROBE), arguments=arguments, launch="one",
                                         python=interpreter(framework("pytorch")), name="check"))


def _spec(scope: Scope, devices: Sequence[Device], choices: Callable[..., RecipeChoices | ScriptChoices]) -> RunSpec:
    """Return the spec of these choices. Raises `Problem` if there is none, or if it could not be started."""
    found = examine(choices(devices=tuple(device.id for device in devices), working_dir=str(scope.folder)),
                    scope.survey.devices)
    if found.spec is None or found.problems:
        raise Problem(join_sentences(found.problems), tr("Mend that, then check again."), scope.devices)
    return found.spec


def _train(scope: Scope, spec: RunSpec, until: Callable[[Run], bool] = lambda _: False) -> Training:
    return Training(Run.start(spec, scope.folder, _launch(scope))).follow(until)


def _launch(scope: Scope) -> Launch:
    """Return what starts supervisors whose temporary files, and those of their frameworks, go with the check."""
    return partial(directory.launch_supervisor, TMPDIR=str(scope.folder))
