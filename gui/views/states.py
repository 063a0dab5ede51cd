"""What a state means to people, of a recipe or of a script."""

from __future__ import annotations

from core.state import RunState, row

OF_SCRIPT = {
    RunState.STARTING: "The script is being started.",
    RunState.RUNNING: "The script is running.",
    RunState.FINISHED: "The script went through to its end.",
    RunState.STOPPED: "The script was stopped on request.",
    RunState.FAILED: "The script ended with an error.",
    RunState.LOST: "The run's supervisor ended without a word.",
}
"""Where it is not the same: a script is not resumed."""


def state_sentence(state: RunState, *, is_script: bool) -> str:
    """The sentence for a state."""
    return OF_SCRIPT.get(state, row(state).sentence) if is_script else row(state).sentence
