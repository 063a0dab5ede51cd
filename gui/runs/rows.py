"""The list of runs as rows: what runs now, then queued runs, then the others by day."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.diagnosis.failures import short_cause, short_reason
from core.history.summary import RunSummary
from core.language import tr, tr_noop
from core.queue.listing import QueuedRun, QueueView
from core.runs.facts import RunState, state_info
from core.runs.owners import execution_warning
from core.schema.spec import RunSpec
from core.text import join_phrases
from gui.base.formatting import DAY_S, day, duration, moment, number
from gui.runs.actions import is_table
from gui.runs.groups import ARROWS, MEMBER, UNFOLDED, Group
from gui.runs.progress import ProgressView, epoch_of
from gui.runs.words import (
    POSITIONS,
    STATE_MARKS,
    QuestionWords,
    loss_problem,
    loss_words,
    position_words,
    state_sentence,
)

NO_QUEUE = QueueView()
RUNNING, QUEUE = "/running", "/queue"
SECTIONS = {RUNNING: tr_noop("Running"), QUEUE: tr_noop("Queue")}
"""What stands for the day of runs that go on or wait, and the headings above them."""
DAY = re.compile(r"20\d{6}-")
"""How the name of a folder begins that Trainyard made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run, ready to be shown in two lines, or three if it goes on or waits."""

    dir: Path
    title: str
    """`18:03 digits_cnn`, with a star before it if the run has one; without the day below the heading of that day."""
    outcome: str
    """For screen readers: `finished · loss 0.214`, then the tags; before it the owner, if that is another user."""
    tone: str
    """Name of a colour of the theme."""
    mark: str
    """Name of the mark of its state in `gui.base.icons`; its shape identifies the state without its colour."""
    tip: str
    day: str = ""
    """The day on which the folder was made, if this is the first run of that day: `Today`, `19 November 2026`."""
    of_day: int = 0
    """The number of runs of that day."""
    is_queued: bool = False
    words: str = ""
    """What makes it different, between owner and tags: `lr 0.05 · batch 128 · seed 2`."""
    result: str = ""
    """What came out, or when it is expected to start: `val. loss 0.437`, `out of memory`, `19:20`."""
    below: str = ""
    """The third line: why it waits, or `epoch 34 of 72`."""
    left: str = ""
    """`57:10 left`."""
    fraction: float | None = None
    """How much is done of a run that goes on, if that is known."""
    runs: tuple[str, ...] = ()
    """The folders of the runs that it stands for; none for a scaling table."""

    def is_ticked(self, ticked: Collection[str]) -> bool:
        """Return whether it is ticked where these runs are. While it is unfolded, the rows below it are."""
        return bool(self.runs) and not self.title.startswith(UNFOLDED) and all(each in ticked for each in self.runs)


def run_rows(
    summaries: Sequence[RunSummary], now: float, *, limit: int | None = None, by_day: bool = False,
    words: Callable[[RunSummary], str] = lambda _: "", queue: QueueView = NO_QUEUE,
    shown: tuple[Path, ProgressView | None] | None = None,
) -> list[RunRow]:
    """Return the rows of the first `limit` summaries, in their order; `now` in unix seconds.

    `by_day`: the first run of each day has its heading, with the number of all summaries of that day; so have the first
    run that goes on and the first queued run. `words`: says what makes a run different. `shown`: the folder of the run
    whose progress is known better than that of the others.
    """
    days: dict[int, tuple[str, int]] = {}
    if by_day:
        running, waiting, others = sections(summaries, queue)
        summaries, names = [*running, *waiting, *others], [RUNNING] * len(running) + [QUEUE] * len(waiting)
        days = _headings(summaries, [*names, *_listed_by(others)], limit, now)
    queued, rows = {each.run_dir: each for each in queue.runs}, []
    named = [(each.name, each.started and each.started // 60, words(each)) for each in summaries[:limit]]
    alike = Counter(named)
    for name, each in zip(named, summaries, strict=False):
        waits = _waiting(each, queued)
        row = _row(each, now, waits, name[2], _title(each, now, waits, by_day=by_day, exact=alike[name] > 1))
        if state_info(each.state).live:
            ends = queue.ends.get(each.dir.name)
            progress = shown[1] if shown is not None and shown[0] == each.dir else None
            row = _going_on(row, each, None if ends is None else ends - now, progress)
        rows.append(_of_group(row, each) if isinstance(each, Group) else row)
    return [
        replace(row, day=days[place][0], of_day=days[place][1]) if place in days else row
        for place, row in enumerate(rows)
    ]


def _row(summary: RunSummary, now: float, queued: QueuedRun | None, words: str, title: str) -> RunRow:
    state, owner, tags = state_info(summary.state), summary.owner, summary.marks.tags
    what = outcome(summary) if queued is None else queued_words(queued)
    starts = None if queued is None or queued.state == HELD else queued.expected_start
    tips = (*_tip_lines(summary), "" if queued is None else queued_tip(queued))
    return RunRow(
        dir=summary.dir,
        title=title,
        outcome=" · ".join(part for part in (owner, what, *tags) if part),
        words=" · ".join(part for part in (owner, words or _label(summary), *tags) if part),
        result=result(summary) if queued is None else moment(starts, now) if starts else "",
        below="" if queued is None else what,
        tone=tone(summary),
        mark=mark(summary),
        tip="\n".join(text for text in (*tips[:1], words, *tips[1:]) if text),
        is_queued=state.waits,
        runs=() if is_table(str(summary.dir)) else (str(summary.dir),),
    )


def _waiting(summary: RunSummary, queue: Mapping[Path, QueuedRun]) -> QueuedRun | None:
    """Return a run that waits as the queue has it; of several in one row, the first."""
    runs = summary.members if isinstance(summary, Group) else (summary,)
    found = [queue[each.dir] for each in runs if each.dir in queue] if state_info(summary.state).waits else []
    return min(found, key=lambda each: each.place, default=None)


def _of_group(row: RunRow, group: Group) -> RunRow:
    """Return the row of several runs. While none of them has ended, why they wait is worth more than that."""
    return replace(
        row, words=group.words, outcome=group.outcome, result=row.result if row.is_queued else group.result,
        below=group.below if group.fraction or not row.is_queued else row.below, left=group.left, tip=group.tip,
        fraction=group.fraction if state_info(group.state).live else None,
        runs=tuple(str(each.dir) for each in group.members if row.runs),
    )


def _going_on(row: RunRow, summary: RunSummary, left: float | None, progress: ProgressView | None) -> RunRow:
    """Add how far a run is, and how long it will take: `left` in seconds."""
    plan, below = summary.plan, _detail(summary)
    fraction = min(summary.step / plan.steps, 1.0) if plan is not None and plan.steps else None
    if progress is not None:
        below, fraction, left = position_words(progress), progress.fraction, progress.left_s
    if summary.state is not RunState.RUNNING:
        below, left = "", None
    time_left = tr("{time} left", time=duration(left)) if left is not None and left > 0 else ""
    return replace(row, below=below or _label(summary), left=time_left, fraction=fraction)


def _title(summary: RunSummary, now: float, queued: QueuedRun | None, *, by_day: bool, exact: bool) -> str:
    """Return `2  digits_cnn`, or `18:03 digits_cnn`, with the day unless it is in the heading above.

    `exact`: with seconds. A run below the row of several has no time.
    """
    sign = summary.name[:2] if summary.name.startswith((MEMBER, *ARROWS)) else ""
    name = summary.name.removeprefix(sign)
    if queued is not None:
        name = f"{queued.place}  {name}"
    elif summary.started is not None and sign != MEMBER:
        started, folder, when = time.localtime(summary.started), summary.dir.name, moment(summary.started, now)
        is_of_day = isinstance(summary, Group) or folder[:8] == time.strftime("%Y%m%d", started)
        if (by_day and is_of_day and state_info(summary.state).over) or when[2] == ":":  # today
            when = time.strftime("%H:%M:%S" if exact else "%H:%M", started)
        name = f"{when} {name}"
    return f"{sign}{'★ ' if summary.marks.star else ''}{name}"


def sections(summaries: Iterable[RunSummary], queue: QueueView) -> tuple[list[RunSummary], ...]:
    """Return the runs that go on, the queued ones in the order of the queue, and the others.

    The runs below a row of several stay there.
    """
    queued = {each.run_dir: each for each in queue.runs}
    running, waiting, others = list[RunSummary](), list[tuple[int, RunSummary]](), list[RunSummary]()
    section, place = others, 0
    for each in summaries:
        is_over = each.state is RunState.FINISHED or state_info(each.state).over  # mostly it has, among thousands
        if not each.name.startswith(MEMBER):
            section, place = others if is_over else running, 0
            if not is_over and state_info(each.state).waits:  # one that was queued just now is the last
                place = found.place if (found := _waiting(each, queued)) else len(queued) + 1
        if place:
            waiting.append((place, each))
        else:
            section.append(each)
    return running, [each for _, each in sorted(waiting, key=lambda pair: pair[0])], others


def _listed_by(summaries: Sequence[RunSummary]) -> list[str]:
    """Return the names of the runs' folders, which begin with the day.

    A row of several has that of its newest run, and so have the runs below it, which may have been made before.
    """
    names: list[str] = []
    for each in summaries:
        if isinstance(each, Group):
            names.append(max((run.dir.name for run in each.members), default=time.strftime("%Y%m%d-")))
        else:
            names.append(names[-1] if names and each.name.startswith(MEMBER) else each.dir.name)
    return names


def _headings(runs: Sequence[RunSummary], names: list[str], most: int | None, now: float) -> dict[int, tuple[str, int]]:
    """Return the heading and the number of runs of each day, by the place of its first run.

    The list is sorted by the names of the folders, which begin with the day. Others are below a heading of their own.
    A row of several runs counts once, also while they are below it.
    """
    places = [place for place, name in enumerate(names) if not place or name[:8] != names[place - 1][:8]]
    days = [names[place][:8] if DAY.match(names[place]) or names[place] in SECTIONS else "" for place in places]
    first = [at for at, day_ in enumerate(days) if not at or day_ != days[at - 1]]
    ends = [*(places[at] for at in first[1:]), len(names)][: len(first)]
    return {
        places[at]: (
            _day_title(days[at], now), sum(not each.name.startswith(MEMBER) for each in runs[places[at] : end])
        )
        for at, end in zip(first, ends, strict=True)
        if most is None or places[at] < most
    }


def _day_title(digits: str, now: float) -> str:
    """Return `Today`, `Yesterday` or `19 November 2026` for a day in digits, or the title of a section."""
    if digits in SECTIONS:
        return tr(SECTIONS[digits])
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
    return " · ".join(part for part in (_label(summary), _detail(summary)) if part)


def result(summary: RunSummary) -> str:
    """Return what came out of a run, in a few words: `val. loss 0.437`, `out of memory`, `stopped, 2 of 30`."""
    if loss_problem(summary.state, summary.last_loss) and summary.nan_step is not None:
        return tr("NaN at step {step}", step=number(summary.nan_step, 1))
    if summary.state in {RunState.STOPPED, RunState.PAUSED}:
        return join_phrases([_label(summary), _epoch(summary, "") or _step(summary)])
    if state_info(summary.state).over:
        return _detail(summary) or _label(summary)
    return loss_words(summary.loss)


def _label(summary: RunSummary) -> str:
    return tr(state_info(summary.state).label).lower()


def _detail(summary: RunSummary) -> str:
    match summary.state:
        case RunState.FINISHED:
            return loss_words(summary.loss)
        case RunState.FAILED | RunState.LOST | RunState.HEAD_LOST:
            return short_cause(summary.error or "") or short_reason(summary.error or "")
        case RunState.STOPPED | RunState.PAUSED:
            return _epoch(summary) or _step(summary) or tr("before its first step")
        case RunState.RUNNING | RunState.STOPPING:
            return _epoch(summary) or _step(summary)
        case _:
            return ""


def _epoch(summary: RunSummary, unit: str = "epochs") -> str:
    """Return the epoch as the header counts it; the empty string if the total is unknown."""
    if summary.plan is None:
        return ""
    done = epoch_of(summary.plan, summary.step, over=state_info(summary.state).over)
    return tr(POSITIONS[unit], done=done, total=summary.plan.epochs)


def _step(summary: RunSummary) -> str:
    """Return the step of a script without epochs; the empty string before its first step."""
    return tr("step {step}", step=number(summary.step, 1)) if summary.step else ""


HELD = "held"
"""The state of a queued run that does not start: see `core.queue.listing.QueuedRun`."""


def queued_words(queued: QueuedRun) -> str:
    """Return the second line of a queued run: `GPU 0 is used by run bert`, `held`, or `held · ...` with why."""
    if queued.request.held and not queued.request.why_held:
        return tr("held")
    reason = queued.reason.partition("\n")[0].rstrip(".。")
    return f"{tr('held')} · {reason}" if queued.state == HELD else reason


def waiting_words(queue: Sequence[QueuedRun], run_dir: Path | None, now: float) -> tuple[str, str]:
    """Return `place 1 of 3`, and `about 22:29 · CPU 0 is used by run bert`, for the header; empty if not known yet."""
    queued = next((each for each in queue if each.run_dir == run_dir), None)
    if queued is None:
        return "", ""
    when = "" if queued.expected_start is None else tr("about {time}", time=moment(queued.expected_start, now))
    place = tr("place {place} of {count}", place=queued.place, count=len(queue))
    return place, " · ".join(filter(None, (when, queued_words(queued))))


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
