"""The list of runs as rows: queued runs first, then by day."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.diagnosis.failures import short_cause, short_reason
from core.history.summary import RunSummary
from core.language import tr, tr_noop
from core.runs.facts import RunState, state_info
from core.runs.foreign import execution_warning
from core.schema.paths import SCALING_SUFFIX
from core.schema.spec import RunSpec
from gui.base.formatting import DAY_S, day, moment, number
from gui.runs.progress import epoch_of
from gui.runs.words import STATE_MARKS, QuestionWords, loss_problem, loss_words, state_sentence

if TYPE_CHECKING:
    from core.queue.listing import QueuedRun


QUEUE = "/queue"
"""What stands for the day of queued runs, which have a heading of their own."""
MEMBER = "↳ "
"""Begins the names of the runs below the row of a scaling table."""
FOLDED, UNFOLDED = ARROWS = "▸ ", "▾ "
"""Begin the names of scaling tables."""
DAY = re.compile(r"20\d{6}-")
"""How the name of a folder begins that Trainyard made."""


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
    """Name of the mark of its state in `gui.base.icons`; its shape identifies the state without its colour."""
    tip: str
    brief: str = ""
    """The title without the day, for a row below the heading of its day; empty: as the title."""
    day: str = ""
    """The day on which the folder was made, if this is the first run of that day: `Today`, `19 November 2026`."""
    of_day: int = 0
    """The number of runs of that day."""
    is_queued: bool = False


def run_rows(
    summaries: Sequence[RunSummary], now: float, *, limit: int | None = None, by_day: bool = False,
    queue: Sequence[QueuedRun] = (),
) -> list[RunRow]:
    """Return the rows of the first `limit` summaries, in their order; `now` in unix seconds.

    `by_day`: the first run of each day has its heading, with the number of all summaries of that day; so has the first
    queued run. `queue`: what is known of queued runs.
    """
    days = _headings(_listed_by(summaries), limit, now) if by_day else {}
    queued = {each.run_dir: each for each in queue}
    rows = _told_apart(summaries, [_row(each, now, queued.get(each.dir), by_day=by_day) for each in summaries[:limit]])
    return [
        replace(row, day=days[place][0], of_day=days[place][1]) if place in days else row
        for place, row in enumerate(rows)
    ]


def _told_apart(summaries: Sequence[RunSummary], rows: Sequence[RunRow]) -> list[RunRow]:
    """Return the rows, with the seconds of the start where several have one name and one minute."""
    alike = Counter(row.title for row in rows)

    def exact(row: RunRow, started: float | None) -> RunRow:
        if started is None or alike[row.title] == 1 or row.is_queued:
            return row
        then = time.localtime(started)
        minute, second = time.strftime("%H:%M ", then), time.strftime("%H:%M:%S ", then)
        return replace(row, title=row.title.replace(minute, second, 1), brief=row.brief.replace(minute, second, 1))

    return [exact(row, summary.started) for row, summary in zip(rows, summaries, strict=False)]


def _row(summary: RunSummary, now: float, queued: QueuedRun | None, *, by_day: bool) -> RunRow:
    is_queued = state_info(summary.state).waits
    known = queued if is_queued else None
    title = run_title(summary, now) if known is None else f"{known.place}  {summary.name}"
    what = outcome(summary) if known is None else queued_words(known)
    tips = (*_tip_lines(summary), "" if known is None else queued_tip(known))
    return RunRow(
        dir=summary.dir,
        title=_starred(summary, title),
        brief=_brief(summary) if by_day and not is_queued else "",
        outcome=" · ".join(part for part in (summary.owner, what, *summary.marks.tags) if part),
        tone=tone(summary),
        mark=mark(summary),
        tip="\n".join(text for text in tips if text),
        is_queued=is_queued,
    )


def _starred(summary: RunSummary, title: str) -> str:
    return f"★ {title}" if summary.marks.star else title


def _brief(summary: RunSummary) -> str:
    """Return the title below the heading of a day; the empty string where the whole title is needed.

    A run of a scaling table has no time: the table above it has that of its newest run.
    """
    if summary.name.startswith(MEMBER):
        return _starred(summary, summary.name)
    if summary.started is None or not _is_of_day(summary):
        return ""
    arrow, name = (summary.name[:2], summary.name[2:]) if summary.name.startswith(ARROWS) else ("", summary.name)
    clock = time.strftime("%H:%M", time.localtime(summary.started))
    return f"{arrow}{_starred(summary, f'{clock} {name}')}"


def _is_of_day(summary: RunSummary) -> bool:
    """Return whether a run was started on the day on which its folder was made, by which it is listed."""
    if summary.started is None:
        return False
    day_digits = time.strftime("%Y%m%d", time.localtime(summary.started))
    return summary.dir.name.endswith(SCALING_SUFFIX) or summary.dir.name[:8] == day_digits


def _listed_by(summaries: Sequence[RunSummary]) -> list[str]:
    """Return the names of the runs' folders, which begin with the day; for queued runs `QUEUE`.

    A scaling table has that of its newest run, and so have the runs below it, which may have been made before.
    """
    names: list[str] = []
    for each in summaries:
        folder = each.dir.name
        if state_info(each.state).waits:
            names.append(QUEUE)
        elif folder.endswith(SCALING_SUFFIX):
            names.append(time.strftime("%Y%m%d-", time.localtime(each.started)))  # without a run, now
        else:
            names.append(names[-1] if names and each.name.startswith(MEMBER) else folder)
    return names


def _headings(names: Sequence[str], limit: int | None, now: float) -> dict[int, tuple[str, int]]:
    """Return the heading and the number of runs of each day, by the place of its first run.

    The list is sorted by the names of the folders, which begin with the day. Others are below a heading of their own.
    """
    places = [place for place, name in enumerate(names) if not place or name[:8] != names[place - 1][:8]]
    days = [names[place][:8] if DAY.match(names[place]) or names[place] == QUEUE else "" for place in places]
    first = [at for at, day_ in enumerate(days) if not at or day_ != days[at - 1]]
    ends = [*(places[at] for at in first[1:]), len(names)][: len(first)]
    return {
        places[at]: (_day_title(days[at], now), end - places[at])
        for at, end in zip(first, ends, strict=True)
        if limit is None or places[at] < limit
    }


def _day_title(digits: str, now: float) -> str:
    """Return `Today`, `Yesterday` or `19 November 2026` for a day in digits, or `Queue`."""
    if digits == QUEUE:
        return tr("Queue")
    try:
        begun = time.mktime(time.strptime(digits, "%Y%m%d"))
    except (ValueError, OverflowError):
        return tr("Others")
    days = round((time.mktime(time.strptime(time.strftime("%Y%m%d", time.localtime(now)), "%Y%m%d")) - begun) / DAY_S)
    return {0: tr("Today"), 1: tr("Yesterday")}.get(days) or day(begun, now)


def _tip_lines(summary: RunSummary) -> tuple[str | None, ...]:
    return (
        summary.dir.name,
        tr("It belongs to {owner}.", owner=summary.owner) if summary.owner else "",
        state_sentence(summary.state, is_script=summary.is_script),
        tr(summary.error or ""),
        _losses(summary),
        loss_problem(summary.state, summary.last_loss),
        tr("Tags: {tags}.", tags=", ".join(summary.marks.tags)) if summary.marks.tags else "",
        *(note.text for note in summary.marks.notes),
    )


def _losses(summary: RunSummary) -> str:
    """Return all losses of a run that are known; the empty string without any."""
    best, sentences = summary.loss, []
    if best is not None and best.step is not None:
        words = tr("Best validation loss: {loss:.4g}, at step {step}.", loss=best.value, step=number(best.step, 1))
        sentences.append(best.with_kept(words))
    if summary.mean_loss is not None:
        sentences.append(tr("Loss, smoothed: {loss:.4g}.", loss=summary.mean_loss))
    if summary.last_loss is not None:
        sentences.append(tr("Loss of the last step: {loss:.4g}.", loss=summary.last_loss))
    return "\n".join(sentences)


def run_title(summary: RunSummary, now: float) -> str:
    """Return `18:03 digits_cnn`."""
    return f"{moment(summary.started, now)} {summary.name}" if summary.started else summary.name


def tone(summary: RunSummary) -> str:
    """Return the colour name of the state, or `warn` for a run whose loss is not a number."""
    return "warn" if loss_problem(summary.state, summary.last_loss) else state_info(summary.state).colour


def mark(summary: RunSummary) -> str:
    """Return the mark of the state, or that of a warning for a run whose loss is not a number."""
    return "alert" if loss_problem(summary.state, summary.last_loss) else STATE_MARKS[summary.state]


def outcome(summary: RunSummary) -> str:
    """Return the state of a run with its loss, error or position."""
    label = tr(state_info(summary.state).label).lower()
    match summary.state:
        case RunState.FINISHED:
            detail = loss_words(summary.loss)
        case RunState.FAILED | RunState.LOST | RunState.HEAD_LOST:
            detail = short_cause(summary.error or "") or short_reason(summary.error or "")
        case RunState.STOPPED | RunState.PAUSED:
            detail = _epoch(summary) or _step(summary) or tr("before its first step")
        case RunState.RUNNING | RunState.STOPPING:
            detail = _epoch(summary) or _step(summary)
        case _:
            detail = ""
    return " · ".join(part for part in (label, detail) if part)


def _epoch(summary: RunSummary) -> str:
    """Return the epoch as the header counts it; the empty string if the total is unknown."""
    if summary.plan is None:
        return ""
    done = epoch_of(summary.plan, summary.step, over=state_info(summary.state).over)
    return tr("epoch {done} of {total}", done=done, total=summary.plan.epochs)


def _step(summary: RunSummary) -> str:
    """Return the step of a script without epochs; the empty string before its first step."""
    return tr("step {step}", step=number(summary.step, 1)) if summary.step else ""


HELD = "held"
"""The state of a queued run that does not start: see `core.queue.listing.QueuedRun`."""


def queued_first(summaries: Iterable[RunSummary], queue: Sequence[QueuedRun]) -> list[RunSummary]:
    """Return the summaries with the queued runs on top, in the order of the queue."""
    places = {each.run_dir: each.place for each in queue}

    def place(summary: RunSummary) -> int:
        if not state_info(summary.state).waits:
            return len(places) + 2
        return places.get(summary.dir, len(places) + 1)  # one that was queued just now is the last

    return sorted(summaries, key=place)


def queued_words(queued: QueuedRun) -> str:
    """Return the second line of a queued run: `GPU 0 is used by run bert`, `held`, or `held · ...` with why."""
    if queued.request.held and not queued.request.why_held:
        return tr("held")
    reason = queued.reason.partition("\n")[0].rstrip(".。")
    return f"{tr('held')} · {reason}" if queued.state == HELD else reason


def queued_tip(queued: QueuedRun) -> str:
    """Return the place, the devices and the whole reason of a queued run."""
    place = tr("Place {place} in your queue. It needs {devices}.", place=queued.place, devices=queued.needs)
    return f"{place}\n{queued.reason}"


def place_of_drop(queue: Sequence[QueuedRun], run_dir: Path, before: Path | None) -> int | None:
    """Return the place of a queued run that was dropped before another one; None if it stays where it is.

    `before`: the run that should follow it; one that is not queued, or None, means the end of the queue.
    """
    order = [each.run_dir for each in queue]
    if run_dir not in order or before == run_dir:
        return None
    others = [each for each in order if each != run_dir]
    place = others.index(before) + 1 if before in others else len(others) + 1
    return None if place == order.index(run_dir) + 1 else place


def place_of_step(queue: Sequence[QueuedRun], run_dir: Path, step: int) -> int | None:
    """Return the place of a queued run that is moved up (-1) or down (1); None at the end, or if it is not queued."""
    place = next((each.place for each in queue if each.run_dir == run_dir), None)
    return None if place is None or not 1 <= place + step <= len(queue) else place + step


QUESTIONS = {
    "Start": (tr_noop("Start {what}, which belongs to {owner}?"), tr_noop("Start anyway")),
    "Resume": (tr_noop("Resume {what}, which belongs to {owner}?"), tr_noop("Resume anyway")),
    "Use": (tr_noop("Use {what}, which belongs to {owner}?"), tr_noop("Use anyway")),
    "Save": (tr_noop("Save {what}, which belongs to {owner}?"), tr_noop("Save anyway")),
    "Copy": (tr_noop("Copy {what}, which belongs to {owner}?"), tr_noop("Copy anyway")),
    "Load": (tr_noop("Load {what}, which belongs to {owner}?"), tr_noop("Load anyway")),
    "Export": (tr_noop("Export {what}, which belongs to {owner}?"), tr_noop("Export anyway")),
}
"""By verb, the question and the text of the button that agrees."""


def owner_question(verb: str, what: str, owner: str | None, spec: RunSpec | None) -> QuestionWords | None:
    """Return the question before `verb` (one of `QUESTIONS`) is done with `what` (such as `the run digits`).

    None if it is the user's own, that is without an `owner`. `spec`: None if it cannot be read.
    """
    if owner is None:
        return None
    question, yes = QUESTIONS[verb]
    return QuestionWords(tr(question, what=what, owner=owner), execution_warning(owner, spec), tr(yes))
