"""A row of the list of runs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import tr, tr_noop, tr_stored
from core.runs.failures import short_cause
from core.runs.states import RunState, state_info
from gui.style.formatting import moment

from .progress import epoch_of
from .queue_rows import queued_tip, queued_words

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from core.queue.listing import QueuedRun
    from core.runs.run_loss import RunLoss
    from core.runs.summary import RunSummary


SHORT_REASON = 60
WORKER = re.compile(r"^Worker \d+ on [^ ]+: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run, ready to be shown in two lines."""

    dir: Path
    title: str
    """`18:03 digits_cnn`, with a star before it if the run has one."""
    outcome: str
    """`finished · loss 0.214`, then the tags; the owner's name before it if the run belongs to another user."""
    tone: str
    """Name of a colour of the theme."""
    mark: str
    """Name of the mark of its state in `gui.style.icons`; its shape identifies the state without its colour."""
    tip: str
    is_queued: bool = False


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
}
"""The shape of each state, for those who cannot tell its colour."""


def run_rows(summaries: Iterable[RunSummary], now: float, queue: Iterable[QueuedRun] = ()) -> list[RunRow]:
    """Return the rows in the order of the summaries; `now` in unix seconds. `queue`: what is known of queued runs."""
    queued = {each.run_dir: each for each in queue}
    return [_row(each, now, queued.get(each.dir)) for each in summaries]


def _row(summary: RunSummary, now: float, queued: QueuedRun | None) -> RunRow:
    is_queued = state_info(summary.state).waits
    known = queued if is_queued else None
    title = run_title(summary, now)
    if known is not None:
        title = f"{known.place}  {title}"
    what = outcome(summary) if known is None else queued_words(known)
    tips = (*_tip_lines(summary), "" if known is None else queued_tip(known))
    return RunRow(
        dir=summary.dir,
        title=f"★ {title}" if summary.marks.star else title,
        outcome=" · ".join(part for part in (summary.owner, what, *summary.marks.tags) if part),
        tone=tone(summary),
        mark=mark(summary),
        tip="\n".join(text for text in tips if text),
        is_queued=is_queued,
    )


def _tip_lines(summary: RunSummary) -> tuple[str | None, ...]:
    belongs = tr("It belongs to {owner}.", owner=summary.owner) if summary.owner else ""
    return (
        summary.dir.name,
        belongs,
        _sentence(summary),
        tr_stored(summary.error or ""),
        _losses(summary),
        _loss_problem(summary),
        *(note.text for note in summary.marks.notes),
    )


def _losses(summary: RunSummary) -> str:
    """Return all losses of a run that are known; the empty string without any."""
    best, mean, last = summary.best_validation, summary.mean_loss, summary.last_loss
    sentences = (
        "" if best is None else tr("Best validation loss: {loss:.4g}, at step {step}.", loss=best[1], step=best[0]),
        "" if mean is None else tr("Loss, smoothed: {loss:.4g}.", loss=mean),
        "" if last is None else tr("Loss of the last step: {loss:.4g}.", loss=last),
    )
    return "\n".join(text for text in sentences if text)


def _sentence(summary: RunSummary) -> str:
    return state_sentence(summary.state, is_script=summary.is_script)


def run_title(summary: RunSummary, now: float) -> str:
    """Return `18:03 digits_cnn`."""
    return f"{moment(summary.started, now)} {summary.name}" if summary.started else summary.name


def tone(summary: RunSummary) -> str:
    """Return the colour name of the state, or `warn` for a finished run whose loss is not a number."""
    return "warn" if _loss_problem(summary) else state_info(summary.state).colour


def mark(summary: RunSummary) -> str:
    """Return the mark of the state, or that of a warning for a finished run whose loss is not a number."""
    return "alert" if _loss_problem(summary) else STATE_MARKS[summary.state]


def _loss_problem(summary: RunSummary) -> str:
    """Return why a finished run did not succeed, or the empty string."""
    is_nan = summary.last_loss is not None and not math.isfinite(summary.last_loss)
    return tr("Its last loss is not a number.") if is_nan and summary.state is RunState.FINISHED else ""


def outcome(summary: RunSummary) -> str:
    """Return the state of a run with its loss, error or position."""
    label = tr(state_info(summary.state).label).lower()
    match summary.state:
        case RunState.FINISHED:
            detail = loss_words(summary.loss)
        case RunState.FAILED | RunState.LOST:
            detail = short_cause(summary.error or "") or tr_stored(short_reason(summary.error or ""))
        case RunState.STOPPED | RunState.PAUSED:
            detail = _epoch(summary) or _step(summary) or tr("before its first step")
        case RunState.RUNNING | RunState.STOPPING:
            detail = _epoch(summary) or _step(summary)
        case _:
            detail = ""
    return " · ".join(part for part in (label, detail) if part)


def loss_words(loss: RunLoss | None) -> str:
    """Return `val. loss 0.306` or `loss 0.214`; the empty string without a loss."""
    return "" if loss is None else f"{loss.title} {loss.value:.3g}"


def short_reason(sentence: str) -> str:
    """Return the first words of an error."""
    first = WORKER.sub("", sentence.partition("\n")[0])
    return first if len(first) <= SHORT_REASON else first[:SHORT_REASON].rstrip() + "…"


def _epoch(summary: RunSummary) -> str:
    """Return the epoch as the header counts it; the empty string if the total is unknown."""
    if summary.plan is None:
        return ""
    return tr(
        "epoch {done} of {total}",
        done=epoch_of(summary.plan, summary.step, over=state_info(summary.state).over),
        total=summary.plan.epochs,
    )


def _step(summary: RunSummary) -> str:
    """Return the step of a script without epochs; the empty string before its first step."""
    return tr("step {step}", step=summary.step) if summary.step else ""


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
