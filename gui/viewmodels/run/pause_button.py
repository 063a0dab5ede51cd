"""What the pause button says and does: pause a run that goes on, resume one that can be, or wait for either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.runs.states import state_info
from gui.style.formatting import moment

if TYPE_CHECKING:
    from core.runs.facts import Checkpoint, RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseButtonState:
    """One face of the button."""

    text: str
    tip: str
    enabled: bool = False
    resumes: bool = False
    """Pressed, it resumes; else it pauses."""


NO_RUN = PauseButtonState(text="Pause", tip="No run is going on that could be paused")
NOT_NOW = PauseButtonState(text="Pause", tip="This run cannot be paused now")


def pause_button_state(
    facts: RunFacts, asked: str, *, resuming: bool, now: float, spec_problem: str | None = None, refusal: str = ""
) -> PauseButtonState:
    """The face for a run. `asked`: what its workers have yet to answer; `resuming`: its supervisor is coming up;
    `spec_problem`: why what was asked of the run cannot be read; `refusal`: why it cannot be asked."""
    state = state_info(facts.state)
    if refusal:
        return PauseButtonState(text="Pause", tip=refusal) if state.can_pause or state.can_resume else NOT_NOW
    if resuming:
        return PauseButtonState(text="Resume", tip="The run is coming up again", resumes=True)
    if state.can_resume:
        return _resume_face(facts, now, spec_problem)
    if not state.can_pause:
        return NOT_NOW
    if asked == "pause":
        return PauseButtonState(text="Pausing…", tip="The run saves first; then it ends and frees its devices")
    return PauseButtonState(
        text="Pause", enabled=True, tip="Pause this run: it saves a checkpoint, ends, and frees its devices"
    )


def _resume_face(facts: RunFacts, now: float, spec_problem: str | None) -> PauseButtonState:
    if spec_problem:
        return PauseButtonState(text="Resume", tip=f"This run cannot be resumed: {spec_problem}", resumes=True)
    return PauseButtonState(text="Resume", enabled=True, tip=_from_where(facts.checkpoint, now), resumes=True)


def saved_words(checkpoint: Checkpoint | None, now: float) -> str:
    """`saved at step 230, 18:03`; no text where nothing was."""
    return f"saved at {_place(checkpoint, now)}" if checkpoint else ""


def _place(checkpoint: Checkpoint, now: float) -> str:
    return f"step {checkpoint.step}, {moment(checkpoint.time, now)}"


def _from_where(checkpoint: Checkpoint | None, now: float) -> str:
    if checkpoint is None:
        return "Start this run over: no checkpoint of it was written"
    return f"Go on with this run from its last checkpoint: {_place(checkpoint, now)}"
