"""The state of the pause button: it pauses an active run or resumes a paused one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import tr
from core.runs.facts.states import state_info
from gui.style.formatting import moment

if TYPE_CHECKING:
    from core.runs.facts.run_facts import Checkpoint, RunFacts


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
    return PauseButtonState(text=tr("Resume"), enabled=True, tip=_resume_tip(facts.checkpoint, now), resumes=True)


def saved_words(checkpoint: Checkpoint | None, now: float) -> str:
    """Return `saved at step 230, 18:03`; the empty string without a checkpoint."""
    return (
        tr("saved at step {step}, {moment}", step=checkpoint.step, moment=moment(checkpoint.time, now))
        if checkpoint
        else ""
    )


def _resume_tip(checkpoint: Checkpoint | None, now: float) -> str:
    if checkpoint is None:
        return tr("Start this run over: it has no checkpoint")
    return tr("Resume from step {step} ({moment})", step=checkpoint.step, moment=moment(checkpoint.time, now))
