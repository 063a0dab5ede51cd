"""The state of the pause button, which pauses an active run or resumes a paused one; the question before a stop."""

from __future__ import annotations

from dataclasses import dataclass

from core.language import tr
from core.runs.facts.run_facts import RunFacts
from core.runs.facts.states import RunState, state_info
from core.schema.event_kinds import Checkpoint
from core.text import duration
from gui.style.formatting import moment, number

MUCH_S = 120.0
"""Seconds of training that a stop loses only after a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseButtonState:
    """Text, tooltip and action of the button."""

    text: str
    tip: str
    enabled: bool = False
    resumes: bool = False
    """True if pressing it resumes, False if it pauses."""


def no_run() -> PauseButtonState:
    """Return the state of the button while no run is shown."""
    return PauseButtonState(text=tr("Pause"), tip=tr("There is no active run to pause"))


def _not_now() -> PauseButtonState:
    return PauseButtonState(text=tr("Pause"), tip=tr("This run cannot be paused now"))


def pause_button_state(
    facts: RunFacts, asked: str, *, resuming: bool, now: float, spec_problem: str | None = None, refusal: str = ""
) -> PauseButtonState:
    """Return the state of the button for a run.

    `asked`: the request that its workers have not answered yet; `resuming`: its supervisor is starting;
    `spec_problem`: why its spec cannot be read; `refusal`: why it cannot pause.
    """
    state = state_info(facts.state)
    if refusal:
        return PauseButtonState(text=tr("Pause"), tip=refusal) if state.can_pause or state.can_resume else _not_now()
    if resuming:
        return PauseButtonState(text=tr("Resume"), tip=tr("The run is being resumed"), resumes=True)
    if state.can_resume:
        return _resume_state(facts, now, spec_problem)
    if not state.can_pause:
        return _not_now()
    if asked == "pause":
        return PauseButtonState(text=tr("Pausing…"), tip=tr("The run saves a checkpoint, exits and frees its devices"))
    return PauseButtonState(
        text=tr("Pause"), enabled=True, tip=tr("Pause this run: it saves a checkpoint, exits and frees its devices")
    )


def _resume_state(facts: RunFacts, now: float, spec_problem: str | None) -> PauseButtonState:
    if spec_problem:
        return PauseButtonState(
            text=tr("Resume"),
            tip=tr("This run cannot be resumed: {reason}", reason=spec_problem),
            resumes=True,
        )
    if facts.checkpoint is None:
        tip = tr("Start this run over: it has no checkpoint")
        return PauseButtonState(text=tr("Start over"), enabled=True, tip=tip, resumes=True)
    tip = tr(
        "Resume from step {step} ({moment})",
        step=number(facts.checkpoint.step, 1),
        moment=moment(facts.checkpoint.time, now),
    )
    return PauseButtonState(text=tr("Resume"), enabled=True, tip=tip, resumes=True)


def saved_words(checkpoint: Checkpoint | None, now: float) -> str:
    """Return `saved at step 230, 18:03`; the empty string without a checkpoint."""
    return (
        tr("saved at step {step}, {moment}", step=number(checkpoint.step, 1), moment=moment(checkpoint.time, now))
        if checkpoint
        else ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopQuestion:
    """What is asked before a run is stopped that has trained long since it was saved."""

    question: str
    words: str
    yes: str
    """The text of the button that stops the run at once."""
    can_save: bool
    """Whether the run can save a checkpoint before it ends."""


def stop_question(facts: RunFacts, name: str, now: float, *, refusal: str = "") -> StopQuestion | None:
    """Return the question before a stop; None if it loses little. `refusal`: why the run cannot save."""
    if facts.state is not RunState.RUNNING or not facts.history:
        return None
    began = facts.history[-1][0]
    saved = max(began, facts.checkpoint.time) if facts.checkpoint is not None else began
    unsaved_s = now - (began if refusal else saved)
    if unsaved_s < MUCH_S:
        return None
    if refusal:
        return StopQuestion(
            question=tr("Stop {name}?", name=name),
            words=tr(
                "It has been running for {time}. It is asked to stop as Ctrl+C does. What it does not save itself is "
                "lost.",
                time=duration(unsaved_s),
            ),
            yes=tr("Stop"),
            can_save=False,
        )
    return StopQuestion(
        question=tr("Stop {name} without saving?", name=name),
        words=tr(
            "The last {time} of training are in no checkpoint. “Save and stop” pauses the run: it writes a checkpoint, "
            "frees its devices and can be resumed from there.",
            time=duration(unsaved_s),
        ),
        yes=tr("Stop without saving"),
        can_save=True,
    )
