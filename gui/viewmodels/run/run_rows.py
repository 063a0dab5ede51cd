"""A row of the list of runs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.runs.states import RunState, state_info
from gui.style.formatting import moment

from .progress import epoch_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from core.runs.index import RunSummary


SHORT_REASON = 60
WORKER = re.compile(r"^Worker \d+ on [^ ]+: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run, ready to be shown in two lines."""

    dir: Path
    title: str
    """`18:03 digits_cnn`."""
    outcome: str
    """`finished · loss 0.214`."""
    tone: str
    """A role of the theme."""
    tip: str


def run_rows(summaries: Iterable[RunSummary], now: float) -> list[RunRow]:
    """The rows, in the order of the summaries; `now` in unix seconds."""
    return [
        RunRow(
            dir=each.dir,
            title=run_title(each, now),
            outcome=outcome(each),
            tone=tone(each),
            tip="\n".join(text for text in (each.dir.name, _sentence(each), each.error, _doubt(each)) if text),
        )
        for each in summaries
    ]


def _sentence(summary: RunSummary) -> str:
    return state_sentence(summary.state, is_script=summary.is_script)


def run_title(summary: RunSummary, now: float) -> str:
    """`18:03 digits_cnn`."""
    return f"{moment(summary.started, now)} {summary.name}" if summary.started else summary.name


def tone(summary: RunSummary) -> str:
    """A role of the theme: that of the state, but no good one for a run whose loss came to be no number."""
    return "warn" if _doubt(summary) else state_info(summary.state).colour


def _doubt(summary: RunSummary) -> str:
    """Why a run that went through to its end is not a good one all the same."""
    void = summary.last_loss is not None and not math.isfinite(summary.last_loss)
    return "Its last loss is not a number." if void and summary.state is RunState.FINISHED else ""


def outcome(summary: RunSummary) -> str:
    """What a run came to, or where it is."""
    label = state_info(summary.state).label.lower()
    match summary.state:
        case RunState.FINISHED:
            detail = f"loss {summary.last_loss:.3g}" if summary.last_loss is not None else ""
        case RunState.FAILED | RunState.LOST:
            detail = short_reason(summary.error or "")
        case RunState.STOPPED | RunState.PAUSED:
            detail = _epoch(summary) or _step(summary) or "before its first step"
        case RunState.RUNNING | RunState.STOPPING:
            detail = _epoch(summary) or _step(summary)
        case _:
            detail = ""
    return " · ".join(part for part in (label, detail) if part)


def short_reason(sentence: str) -> str:
    """The first words of a sentence on what went wrong."""
    first = WORKER.sub("", sentence.partition("\n")[0])
    return first if len(first) <= SHORT_REASON else first[:SHORT_REASON].rstrip() + "…"


def _epoch(summary: RunSummary) -> str:
    """As the head of the window counts; no text before it is known how many there are."""
    if summary.plan is None:
        return ""
    return f"epoch {epoch_of(summary.plan, summary.step, over=state_info(summary.state).over)} of {summary.plan.epochs}"


def _step(summary: RunSummary) -> str:
    """Of a script, which tells of no epochs; no text before its first step was seen."""
    return f"step {summary.step}" if summary.step else ""


OF_SCRIPT = {
    RunState.STARTING: "The script is being started.",
    RunState.RUNNING: "The script is running.",
    RunState.FINISHED: "The script went through to its end.",
    RunState.STOPPED: "The script was stopped on request.",
    RunState.FAILED: "The script ended with an error.",
    RunState.LOST: "The run's supervisor exited unexpectedly.",
}
"""Where it is not the same: a script is not resumed."""


def state_sentence(state: RunState, *, is_script: bool) -> str:
    """The sentence for a state."""
    return OF_SCRIPT.get(state, state_info(state).sentence) if is_script else state_info(state).sentence
