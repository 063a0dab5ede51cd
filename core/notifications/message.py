"""What became of a run, read from its directory; the text that is sent about runs; why it was not sent."""

from __future__ import annotations

import math
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.devices.names import list_labels
from core.history.differences import differences_below
from core.history.summary import RunSummary, SummaryReader
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.notifications.channels import FAILED, FINISHED, LOST, NAN, OCCASION_OF, OCCASIONS, STALLED, STOPPED
from core.runs.facts import HELD, RunFacts, RunState, state_info, worst
from core.runs.run import Run, folders_mark
from core.schema.codec import encode
from core.schema.event_kinds import Release, Verdict
from core.schema.paths import EVENTS, SUPERVISOR_EVENTS
from core.text import as_sentence, duration, first_names, join_names, join_phrases, one_line, replace_control_characters

OVER_WITHIN_S = 30.0
"""Seconds to wait for the end of a run: its supervisor may still be leaving."""
NAP_S = 0.1
MAX_TEXT = 300
"""Characters of an error or of a sentence."""
MAX_NAME = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews:
    """What became of one run, or of this machine without a `run_dir`. The texts are in the language of the user."""

    run_dir: str
    name: str
    occasion: str
    """One of `OCCASIONS`."""
    state: str
    """The value of its `RunState`."""
    time: float
    """Unix seconds of the end, of the stall, or of the NaN."""
    duration_s: float | None = None
    """Seconds since its last start."""
    asked_s: float | None = None
    """Seconds since the user asked for it: with the time in a queue."""
    last_loss: float | None = None
    best_validation_loss: float | None = None
    memory: str = ""
    """What became of the memory of its devices, in a sentence; the empty string if that was not watched."""
    memory_verdict: str = ""
    """The worst value of `Verdict` of its devices; the empty string if that was not watched."""
    detail: str = ""
    """Why it failed or was lost, or what the alarm is about; else the empty string."""
    loss: str = ""
    """The loss by which it is compared with others, in words; the empty string if it has none."""
    difference: str = ""
    """What makes it different from the run before."""


def news_of_end(run_dir: Path, *, only_lost: bool = False) -> RunNews | None:
    """Wait until a run is over, and return what became of it; None if it goes on, or is gone.

    `only_lost`: return None unless the run is lost.
    """
    run = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    deadline = time.monotonic() + OVER_WITHIN_S
    run.catch_up()
    while not state_info(run.facts.state).over:
        if time.monotonic() > deadline:
            return None
        time.sleep(NAP_S)
        run.catch_up()
    if not run_dir.is_dir() or (only_lost and run.facts.state is not RunState.LOST):
        return None
    ended = run.facts.ended or time.time()
    return _news(run_dir, run.facts, OCCASION_OF[run.facts.state], ended, run.facts.error or "")


def news_of_trouble(run_dir: Path, occasion: str, detail: str = "") -> RunNews | None:
    """Return that a run has this trouble, or the machine if this is no folder of a run; None if it is over."""
    if run_dir.is_dir() and not (run_dir / EVENTS).exists():
        host, now = socket.gethostname(), time.time()
        return RunNews(run_dir="", name=host, occasion=occasion, state="", time=now, detail=detail)
    run = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    run.catch_up()
    if (occasion == STALLED and not run.facts.stalled) or not run_dir.is_dir():
        return None
    return _news(run_dir, run.facts, occasion, time.time(), detail)


def _news(run_dir: Path, facts: RunFacts, occasion: str, when: float, detail: str) -> RunNews:
    summary: RunSummary = SummaryReader(run_dir).summary(folders_mark(run_dir), None)
    asked, started = _starts(facts)
    best, loss, memory = summary.best_validation, summary.last_loss, worst(facts.releases.values())
    if occasion == FINISHED and loss is not None and not math.isfinite(loss):
        detail = tr("Its last loss is not a number.")
    return RunNews(
        run_dir=str(run_dir), name=one_line(summary.name, MAX_NAME), occasion=occasion, state=facts.state.value,
        time=when, duration_s=None if started is None else max(0.0, when - started),
        asked_s=None if asked is None else max(0.0, when - asked),
        last_loss=loss if loss is not None and math.isfinite(loss) else None,
        best_validation_loss=None if best is None else best[1], memory=_memory_words(facts, memory),
        memory_verdict="" if memory is None else memory.verdict.value,
        detail=one_line(tr(detail).partition("\n")[0], MAX_TEXT), loss=summary.loss.words() if summary.loss else "",
        difference=differences_below(run_dir.parent).get(run_dir.name, ""),
    )


def _starts(facts: RunFacts) -> tuple[float | None, float | None]:
    """Return when the user last asked for the run, and when it was last started."""
    asked = started = None
    was_over = True
    for when, state in facts.history:
        if was_over and not state_info(state).over:
            asked = when
        if state is RunState.STARTING:
            started = when
        was_over = state_info(state).over
    return asked, started


def _memory_words(facts: RunFacts, found: Release | None) -> str:
    if found is None:
        return ""
    if found.verdict is not Verdict.RELEASED:
        return one_line(tr(found.sentence), MAX_TEXT)
    labels = [str(facts.devices.get(each, {}).get("label") or each) for each in facts.releases]
    return tr("The memory of {devices} is free again.", devices=list_labels(labels))


PAUSED = tr_noop("{name} was paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent."""

    title: str
    text: str
    occasion: str
    """The worst of the runs; the empty string for a test."""
    news: tuple[RunNews, ...] = field(default=(), repr=False)

    @property
    def is_bad(self) -> bool:
        """Whether a run failed or was lost, or a GPU."""
        return bool(self.occasion) and OCCASIONS[self.occasion].is_bad

    def to_json(self) -> dict[str, Any]:
        """Return the message for programs; `text` and `content` are what chat services show."""
        whole = f"{self.title}\n{self.text}"
        return {
            "title": self.title, "message": self.text, "text": whole, "content": whole, "occasion": self.occasion,
            "host": socket.gethostname(), "runs": [encode(each) for each in self.news if each.run_dir],
        }


def trial_message() -> Message:
    """Return the message that `trainyard notify test` sends."""
    return Message(
        title=tr("Trainyard can reach you"),
        text=tr("This is a test from {host}. A run would be named here when it ends.", host=socket.gethostname()),
        occasion="",
    )


def message_about(news: Sequence[RunNews], held: str = "") -> Message:
    """Return one message about these runs; there must be one at least. `held`: why the user's queue is held."""
    ended = {each.run_dir for each in news if OCCASIONS[each.occasion].states}
    news = [each for each in news if each.occasion != NAN or each.run_dir not in ended]  # the end says it, too
    worst = next(each for each in OCCASIONS if any(one.occasion == each for one in news))
    title, text = _about_one(news[0]) if len(news) == 1 else _about_several(news)
    text = f"{text}\n{held}" if held else text
    return Message(
        title=replace_control_characters(title), text=replace_control_characters(text, keep="\n"), occasion=worst,
        news=tuple(news),
    )


def _about_one(news: RunNews) -> tuple[str, str]:
    title = PAUSED if news.occasion == STOPPED and news.state == "paused" else OCCASIONS[news.occasion].headline
    losses = [news.loss] if news.loss else []
    if news.duration_s is not None:
        losses.append(tr("after {duration}", duration=duration(news.duration_s)))
    numbers = as_sentence(join_phrases(losses)) if losses else ""
    text = join_sentences([_ended(news.difference), numbers, news.memory, _ended(news.detail)])
    return tr(title, name=news.name), text


def _ended(detail: str) -> str:
    return detail if not detail or detail.endswith((".", "!", "?", "…", "。")) else tr("{phrase}.", phrase=detail)


def _about_several(news: Sequence[RunNews]) -> tuple[str, str]:
    # Several runs and windows may report the same GPU or disk.
    told = {number if OCCASIONS[each.occasion].states else each.detail: each for number, each in enumerate(news)}
    counts = Counter(each.occasion for each in told.values())
    present = [each for each in OCCASIONS if counts[each]]
    counted = join_phrases(tr(OCCASIONS[each].number, count=counts[each]) for each in present)
    alarms = [each for each in news if not OCCASIONS[each.occasion].states]  # a run, or the machine, may have several
    title = tr_plural("{count} run: {counted}", "{count} runs: {counted}", len(news), counted=counted)
    lines = [tr(OCCASIONS[each].names, names=join_names(first_names(_named(news, each)))) for each in present]
    lines += first_names(list(dict.fromkeys(_ended(each.detail) for each in alarms if each.detail)))
    if error := next((each.detail for each in reversed(news) if each.occasion in {FAILED, LOST} and each.detail), ""):
        lines.append(tr("The last error: {error}", error=error))
    lines += [each.memory for each in news if each.memory_verdict in {held.value for held in HELD}][-1:]
    return counted if alarms else title, "\n".join(lines)


def _named(news: Sequence[RunNews], occasion: str) -> list[str]:
    """Return the names of the runs of an occasion, with the losses of those that finished; equal ones are counted."""
    names = Counter(_name(each) for each in news if each.occasion == occasion)
    return [
        name if count == 1 else tr("{name} ({count} times)", name=name, count=count) for name, count in names.items()
    ]


def _name(news: RunNews) -> str:
    name = f"{news.name} {news.difference}".rstrip()
    return f"{name} ({news.loss})" if news.occasion == FINISHED and news.loss else name
