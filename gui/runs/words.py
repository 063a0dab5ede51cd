"""How the state, the progress and the buttons of a run read."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from core.catalog import frameworks, strategies
from core.diagnosis.start_phases import start_words
from core.diagnosis.step_time import Diagnosis
from core.history.summary import RunLoss
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.metrics.reading import IN_EPOCH
from core.runs.facts import RunFacts, RunState, state_info
from core.runs.requests import unanswered
from core.schema.event_kinds import Checkpoint
from core.schema.settings import StopTimeouts, escalation_steps
from core.schema.spec import RunSpec
from core.text import duration as in_words
from gui.base.formatting import DASH, duration, moment, number, percent, rate, significant, step_rate
from gui.runs.progress import ProgressView, has_ended, watched_s
from gui.runs.verdicts import released_words

STATE_MARKS = {
    **dict.fromkeys((RunState.CREATED, RunState.QUEUED, RunState.STARTING), "clock"),
    **dict.fromkeys((RunState.RUNNING, RunState.STOPPING, RunState.RELEASING), "ring"),
    RunState.FINISHED: "tick",
    RunState.STOPPED: "stop",
    RunState.PAUSED: "pause",
    RunState.FAILED: "cross",
    RunState.LOST: "alert",
    RunState.HEAD_LOST: "gap",
}
"""The shape of each state, for those who cannot tell its colour."""
SCRIPT_SENTENCES = {
    RunState.STARTING: tr_noop("The script is starting."),
    RunState.RUNNING: tr_noop("The script is running."),
    RunState.FINISHED: tr_noop("The script has finished."),
    RunState.STOPPED: tr_noop("The script was stopped on request."),
    RunState.FAILED: tr_noop("The script ended with an error."),
}
"""Sentences that differ for a script."""


def state_sentence(state: RunState, *, is_script: bool) -> str:
    """Return the sentence for a state."""
    usual = state_info(state).sentence
    return tr(SCRIPT_SENTENCES.get(state, usual) if is_script else usual)


def loss_words(loss: RunLoss | None) -> str:
    """Return `val. loss 0.306` or `loss 0.214`; the empty string without a loss."""
    return "" if loss is None else loss.words(significant)


def loss_problem(state: RunState, last_loss: float | None) -> str:
    """Return why a finished run did not succeed, or one that trains will not; else the empty string."""
    is_nan = last_loss is not None and not math.isfinite(last_loss)
    return tr("Its last loss is not a number.") if is_nan and state in {RunState.RUNNING, RunState.FINISHED} else ""


MUCH_S = 120.0
"""Seconds of training that a stop loses only after a question."""
ENDS_UNSAVED = tr_noop(
    "It has been running for {time}. It is asked to stop as Ctrl+C does. What it does not save itself is lost."
)
NOT_SAVED = tr_noop(
    "The last {time} of training are in no checkpoint. “Save and stop” pauses the run: it writes a checkpoint, "
    "frees its devices and can be resumed from there."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseButtonState:
    """Text, tooltip and action of the button."""

    text: str
    tip: str
    enabled: bool = False
    resumes: bool = False
    """True if pressing it resumes, or starts a queued run; False if it pauses."""


def no_run() -> PauseButtonState:
    """Return the state of the button while no run is shown."""
    return PauseButtonState(text=tr("Pause"), tip=tr("There is no active run to pause"))


def pause_button_state(
    facts: RunFacts, asked: str, *, resuming: bool, now: float, spec_problem: str | None = None, refusal: str = ""
) -> PauseButtonState:
    """Return the state of the button for a run.

    `asked`: the request that its workers have not answered yet; `resuming`: its supervisor is starting;
    `spec_problem`: why its spec cannot be read; `refusal`: why it cannot pause.
    """
    state = state_info(facts.state)
    not_now = PauseButtonState(text=tr("Pause"), tip=tr("This run cannot be paused now"))
    if refusal:
        return PauseButtonState(text=tr("Pause"), tip=refusal) if state.can_pause or state.can_resume else not_now
    if resuming:
        return PauseButtonState(text=tr("Resume"), tip=tr("The run is being resumed"), resumes=True)
    if state.can_resume:
        return _resume_state(facts, now, spec_problem)
    if not state.can_pause:
        return not_now
    if asked == "pause":
        return PauseButtonState(text=tr("Pausing…"), tip=tr("The run saves a checkpoint, exits and frees its devices"))
    return PauseButtonState(
        text=tr("Pause"), enabled=True, tip=tr("Pause this run: it saves a checkpoint, exits and frees its devices")
    )


def _resume_state(facts: RunFacts, now: float, spec_problem: str | None) -> PauseButtonState:
    if spec_problem:
        tip = tr("This run cannot be resumed: {reason}", reason=spec_problem)
        return PauseButtonState(text=tr("Resume"), tip=tip, resumes=True)
    if facts.checkpoint is None:
        tip = tr("Start this run over: it has no checkpoint")
        return PauseButtonState(text=tr("Start over"), enabled=True, tip=tip, resumes=True)
    step, when = number(facts.checkpoint.step, 1), moment(facts.checkpoint.time, now)
    tip = tr("Resume from step {step} ({moment})", step=step, moment=when)
    return PauseButtonState(text=tr("Resume"), enabled=True, tip=tip, resumes=True)


def saved_words(checkpoint: Checkpoint | None, now: float) -> str:
    """Return `saved at step 230, 18:03`; the empty string without a checkpoint."""
    if checkpoint is None:
        return ""
    step, when = number(checkpoint.step, 1), moment(checkpoint.time, now)
    return tr("saved at step {step}, {moment}", step=step, moment=when)


class QuestionWords(NamedTuple):
    """The texts of a question."""

    question: str
    words: str
    """The consequences, or what would be executed."""
    yes: str
    """The text of the button that agrees."""


def stop_question(facts: RunFacts, name: str, now: float, *, refusal: str = "") -> QuestionWords | None:
    """Return the question before a run is stopped that has trained long since it was saved; None if it loses little.

    `refusal`: why the run cannot save.
    """
    if facts.state is not RunState.RUNNING or not facts.history:
        return None
    began = facts.history[-1][0]
    saved = max(began, facts.checkpoint.time) if facts.checkpoint is not None else began
    unsaved_s = now - (began if refusal else saved)
    if unsaved_s < MUCH_S:
        return None
    lost = in_words(unsaved_s)
    if refusal:
        return QuestionWords(tr("Stop {name}?", name=name), tr(ENDS_UNSAVED, time=lost), tr("Stop"))
    question = tr("Stop {name} without saving?", name=name)
    return QuestionWords(question, tr(NOT_SAVED, time=lost), tr("Stop without saving"))


SECOND_THOUGHT_S = 0.8
"""Seconds before a stop can be forced, so that a double click on Stop does not force it."""
FRESH_S = 5.0
"""Seconds to show that a requested checkpoint was written."""
STEP_NAMES = tuple(name for name, _, _ in escalation_steps(StopTimeouts()))
STEP_WORDS = {
    "asked": tr_noop("stopping politely"),
    "SIGINT": tr_noop("interrupt"),
    "SIGTERM": tr_noop("terminate"),
    "SIGKILL": tr_noop("kill"),
}
"""What the header calls the steps of a stop."""
POSITIONS = {
    "epochs": tr_noop("epoch {done} of {total}"),
    "steps": tr_noop("step {done} of {total}"),
    IN_EPOCH: tr_noop("{done} of {total} in this epoch"),
    "": tr_noop("{done} of {total}"),
}
"""How far a run is, by the unit of its progress."""


class Forcing(Enum):
    """What the stop button forces when there is nothing to stop."""

    WORKERS = "workers"
    """Kill the workers: they were asked to stop."""
    WAITING = "waiting"
    """Skip the memory check: training has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """Everything that the header shows."""

    label: str = ""
    tone: str = "muted"
    mark: str = ""
    """Name of the mark of the state; the empty string for no run."""
    sentence: str = ""
    name: str = ""
    title: str = ""
    """What the title of the window names in place of the name."""
    owner: str = ""
    """The user to whom the run belongs if that is another one."""
    what: str = ""
    is_slow: bool = False
    epoch: str = ""
    """The current epoch or step and their total."""
    fraction: float | None = None
    starting: str = ""
    """What the run does before its first step: `loading PyTorch 3 s`."""
    detail: str = ""
    """Speed and time left; before the first step, what the run does; while stopping, the steps of the stop; after
    saving, the step saved."""
    released: str = ""
    """The memory verdict once the run is over."""
    released_tone: str = ""
    saved: str = ""
    """The last checkpoint in words."""
    is_queued: bool = False
    """Whether it waits in the queue, from which Stop removes it."""
    can_stop: bool = False
    can_force: bool = False
    stopping: Forcing | None = None
    """What the stop button forces after a stop request or after training."""
    pause: PauseButtonState = field(default_factory=no_run)
    can_save: bool = False
    saving: bool = False
    save_refusal: str = ""
    """Why it cannot save on request; the empty string if it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    """The run that the window shows, at one moment."""

    id: str
    facts: RunFacts
    owner: str = ""
    """The user to whom it belongs if that is another one."""
    spec: RunSpec | None = None
    spec_problem: str | None = None
    """Why the spec cannot be read, in a sentence."""
    progress: ProgressView | None = None
    took_s: float | None = None
    """Seconds of training, once it has ended."""
    loss: RunLoss | None = None
    """The loss by which it is compared with others."""
    last_loss: float | None = None
    """The loss of the last step that has one."""
    asked: str = ""
    """`pause` or `save` while the run has yet to answer that request; else the empty string."""
    stop_asked: float | None = None
    """When this window asked the run to stop, by `time.monotonic()`."""
    diagnosis: Diagnosis | None = None

    @property
    def is_script(self) -> bool:
        """True if the run starts a user's program."""
        return self.spec is not None and self.spec.script is not None

    def refusal(self, what: str) -> str:
        """Return why the run cannot answer a request to `pause` or `save`, or the empty string."""
        return unanswered(self.spec, what) if self.spec else ""


def run_header(
    run: RunSnapshot | None, *, resuming: bool = False, compared: int = 0, waiting: tuple[str, str] = ("", ""),
    words: str = "", live: int = 0,
) -> RunHeader:
    """Return the header of a run. `resuming`: the run is being resumed. `waiting`: see `gui.runs.rows.waiting_words`.

    `words`: what makes it different. `live`: the number of live runs.

    `compared`: the number of runs that a comparison shows; the header is theirs then, whatever run was shown before.
    """
    if compared or run is None:
        return _header_of_several(compared, live)
    facts, state, now = run.facts, state_info(run.facts.state), time.time()
    progress = run.progress
    since_asked = time.monotonic() - run.stop_asked if run.stop_asked is not None else None
    forcing = _forcing(facts, now, asked=since_asked is not None)
    released, released_tone = released_words(facts)
    starting = start_words(facts, frameworks.framework_title(run.spec.framework), now) if run.spec else ""
    refusal, problem = run.refusal("pause"), run.spec_problem
    problem_of_loss = loss_problem(facts.state, run.last_loss)
    pause = pause_button_state(facts, run.asked, resuming=resuming, now=now, spec_problem=problem, refusal=refusal)
    place, why = waiting if state.waits else ("", "")
    if place:
        tip = tr("Start it beside the runs that use its devices")
        pause = PauseButtonState(text=tr("Start now"), enabled=True, tip=tip, resumes=True)
    found = run.diagnosis if run.diagnosis and run.diagnosis.parts["seconds"] and run.diagnosis.verdict else None
    is_slow = found is not None and found.verdict not in {"compute", "balanced"}
    verdict = "" if found is None else found.findings[0].words if found.findings else found.sentence
    about = [_description(run.spec) if run.spec else "", verdict.rstrip(".。")]
    name = run.spec.name if run.spec else run.id
    is_whole = progress is not None and progress.unit != IN_EPOCH and not has_ended(facts)
    done = percent(math.floor(100 * progress.fraction)) if progress is not None and is_whole else ""
    return RunHeader(
        label=tr("Resuming") if _is_resumed(facts) else tr(state.label),
        tone="warn" if problem_of_loss else state.colour,
        mark="alert" if problem_of_loss else STATE_MARKS[facts.state],
        sentence=join_sentences([_sentence(run), problem_of_loss, verdict]),
        name=name,
        title=" ".join(filter(None, (done, name, words))),
        owner=run.owner,
        what=" · ".join(filter(None, reversed(about) if is_slow else about)),
        is_slow=is_slow,
        epoch=place or (_resumed_words(facts) if _is_resumed(facts) else position_words(progress) if progress else ""),
        fraction=progress.fraction if progress else None,
        starting=starting,
        detail=why or (tr("resuming …") if resuming else _detail(run, now, starting)),
        released="" if resuming else released,
        released_tone=released_tone,
        saved=saved_words(facts.checkpoint, now),
        is_queued=state.waits,
        can_stop=state.can_stop and since_asked is None,
        can_force=bool(forcing and state.can_force) and (since_asked is None or since_asked > SECOND_THOUGHT_S),
        stopping=forcing,
        pause=pause,
        can_save=state.can_save and not run.refusal("save"),
        save_refusal=run.refusal("save"),
        saving=run.asked == "save",
    )


def _header_of_several(compared: int, live: int) -> RunHeader:
    """Return the header of a comparison, or of the machine's page."""
    if compared:
        return RunHeader(
            label=tr("Comparison"),
            sentence=tr("Runs are compared, and none is shown alone."),
            name=tr_plural("{count} run", "{count} runs", compared),
            title=tr_plural("Comparison of {count} run", "Comparison of {count} runs", compared),
        )
    return RunHeader(
        label=tr("This machine") if live else tr("No run"),
        sentence=tr("No run is shown. Start one or select one in the list."),
        what=tr_plural("{count} run is active", "{count} runs are active", live) if live
        else tr("Tick devices, choose what to train, and press Start"),
    )


def _sentence(run: RunSnapshot) -> str:
    """Return the sentence for the state, and where training would be resumed after it stopped or failed."""
    sentence = state_sentence(run.facts.state, is_script=run.is_script)
    resumable = state_info(run.facts.state).can_resume and run.spec is not None and not run.is_script
    if not resumable or run.facts.state is RunState.PAUSED:
        return sentence
    if run.facts.checkpoint is None:
        return tr("{sentence} It has no checkpoint and can only be started over.", sentence=sentence)
    return tr("{sentence} It can be resumed from its last checkpoint.", sentence=sentence)


def _forcing(facts: RunFacts, now: float, *, asked: bool) -> Forcing | None:
    """Return what can be forced; `asked`: this window has asked the run to stop."""
    state = state_info(facts.state)
    if facts.state is RunState.RELEASING:
        since_s = now - facts.history[-1][0] if facts.history else SECOND_THOUGHT_S
        # The check usually ends sooner. A negative time means that the clock was set back.
        return None if 0 <= since_s < SECOND_THOUGHT_S else Forcing.WAITING
    return Forcing.WORKERS if state.can_force or (state.can_stop and asked) else None


def _description(spec: RunSpec) -> str:
    """Return `PyTorch, data parallel (DDP) on 2 devices` or `Script, one process on 2 devices`."""
    devices = tr_plural("{count} device", "{count} devices", len(spec.devices))
    try:
        strategy = strategies.strategy_of(spec)
        what = tr("Script") if spec.script else frameworks.framework(spec.framework).title
    except ValueError:  # a run of another version
        return tr("{what}, {how} on {devices}", what=spec.framework, how=spec.strategy, devices=devices)
    title = tr(strategy.title)
    how = f"{title[0].lower()}{title[1:]}"
    if strategy.parallel == "one":
        return tr("{what}, {how}", what=what, how=how)
    return tr("{what}, {how} on {devices}", what=what, how=how, devices=devices)


def position_words(progress: ProgressView) -> str:
    """Return `epoch 3 of 10`, `step 340 of 1 000`, `340 of 1 000`, or `91 of 100 in this epoch`."""
    done, total = (number(value, 1 if value == int(value) else 0.01) for value in (progress.done, progress.total))
    if progress.unit not in POSITIONS:
        return tr("{unit}: {done} of {total}", unit=progress.unit, done=done, total=total)
    return tr(POSITIONS[progress.unit], done=done, total=total)


def _is_resumed(facts: RunFacts) -> bool:
    """Return whether it loads what it needs to go on after a pause, a stop or a failure."""
    return facts.state is RunState.STARTING and facts.starts > 1


def _resumed_words(facts: RunFacts) -> str:
    """Return where it goes on, beside the state Resuming."""
    if facts.checkpoint is None:
        return tr("from the beginning")
    return tr("from step {step}", step=number(facts.checkpoint.step, 1))


def _detail(run: RunSnapshot, now: float, starting: str) -> str:
    facts, progress = run.facts, run.progress
    if facts.state is RunState.STOPPING and facts.stop_steps:
        return stop_progress(facts, now)
    if state_info(facts.state).can_save and run.asked == "save":
        return tr("saving …")
    if _shows_checkpoint(facts, now):
        return saved_words(facts.checkpoint, now)
    if starting:
        return starting
    if progress is not None and not has_ended(facts):
        return _pace(facts, progress)
    return _end(run, now) if has_ended(facts) else ""


def _end(run: RunSnapshot, now: float) -> str:
    """Return the loss of a run whose training has ended, how long it took, and how long its memory is being checked."""
    watched = watched_s(run.facts, now)
    took = "" if run.took_s is None else tr("took {time}", time=duration(run.took_s))
    check = "" if watched is None else tr("memory check {time}", time=duration(watched))
    return " · ".join(filter(None, (loss_words(run.loss), took, check)))


def _shows_checkpoint(facts: RunFacts, now: float) -> bool:
    """True for some seconds after a requested checkpoint, and while the run is paused."""
    written = facts.checkpoint
    if written is None:
        return False
    fresh = written.reason == "asked" and now - written.time < FRESH_S
    return facts.state is RunState.PAUSED or (fresh and state_info(facts.state).can_save)


def _pace(facts: RunFacts, progress: ProgressView) -> str:
    """Return the speed and the time left of a run that trains."""
    parts = []
    if progress.samples_per_s is not None:
        parts.append(rate(progress.samples_per_s))
    elif progress.steps_per_s is not None:
        parts.append(step_rate(progress.steps_per_s))
    if facts.state is RunState.RUNNING:
        left = duration(progress.left_s) if progress.left_s is not None else DASH
        within = progress.unit == IN_EPOCH
        parts.append(tr("{time} left in this epoch", time=left) if within else tr("{time} left", time=left))
    return " · ".join(parts)


def stop_progress(facts: RunFacts, now: float) -> str:
    """Return the steps of the stop so far and when the next follows: `stopping politely · interrupt in 7 s`."""
    taken = [tr(STEP_WORDS.get(step.name, step.name)) for step in facts.stop_steps]
    last = facts.stop_steps[-1]
    following = STEP_NAMES[STEP_NAMES.index(last.name) + 1 :] if last.name in STEP_NAMES else ()
    if last.grace_s is None or not following:
        return " · ".join(taken)
    wait_s = max(0, round(last.time + last.grace_s - now))
    return " · ".join([*taken, tr("{step} in {seconds} s", step=tr(STEP_WORDS[following[0]]), seconds=wait_s)])
