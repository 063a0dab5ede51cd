"""How the state of a run reads, in its header and in the list of runs: its sentence, its mark, and its loss."""

from __future__ import annotations

from core.history.run_loss import RunLoss
from core.language import tr, tr_noop
from core.runs.facts.states import RunState, state_info
from gui.style.formatting import significant

STATE_MARKS = {
    RunState.CREATED: "clock",
    RunState.QUEUED: "clock",
    RunState.STARTING: "clock",
    RunState.RUNNING: "ring",
    RunState.STOPPING: "ring",
    RunState.RELEASING: "ring",
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
    return "" if loss is None else f"{loss.title} {significant(loss.value)}"
