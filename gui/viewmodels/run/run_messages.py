"""The message across the window about the shown run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import join_sentences, tr, tr_noop, tr_stored
from core.runs.states import state_info

from .memory_verdicts import seen_words, sentences

if TYPE_CHECKING:
    from core.runs.facts import RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message; the empty string means no message."""

    text: str
    tone: str
    details: bool
    """True if there are details to show."""


def run_message(facts: RunFacts, spec_problem: str | None, now: float) -> Message:
    """Return why the spec cannot be read, the uses of unticked devices and the memory that is not back; then notices.

    Why the run failed is not among them: see `failure_view`.

    `now`: unix seconds.
    """
    held, held_tone = sentences(facts) if state_info(facts.state).over else ([], "")
    seen = seen_words(facts, now)
    since = (
        [tr("{when}:", when=f"{seen[0].upper()}{seen[1:]}")] if held and seen else []
    )  # the run may have ended long ago
    unticked = [tr_stored(use.sentence) for use in facts.unticked_device_uses]
    stalled = [tr_stored(each) for each in (facts.stopped_processes, facts.stalled, *facts.slowed.values()) if each]
    notices = [tr_stored(each) for each in facts.notices]
    told = [past_tense(each) for each in notices] if state_info(facts.state).over else notices
    notices = [] if facts.error or spec_problem else [*stalled, *told]
    bad = bool(spec_problem or unticked or held_tone == "bad")
    texts = [*([spec_problem] if spec_problem else []), *unticked, *since, *held, *notices]
    return Message(text=join_sentences(texts), tone="bad" if bad else "warn", details=bool(held))


PAST = (
    (tr_noop(" Training goes on."), ""),
    (tr_noop("Training goes on from"), tr_noop("Training went on from")),
    (tr_noop("Training goes on, and the next checkpoint is tried when it is due."), tr_noop("Training went on.")),
    (tr_noop(" The next checkpoint is tried when it is due."), ""),
    (
        tr_noop("The script continues, and its log is complete."),
        tr_noop("The script went on, and its log is complete."),
    ),
    (tr_noop("so the curves are no longer updated."), tr_noop("so the curves end there.")),
    (tr_noop("are being terminated:"), tr_noop("were terminated:")),
    (
        tr_noop("If they wait for each other, stop the run, and start it again with"),
        tr_noop("If they waited for each other, start it with"),
    ),
)
"""Parts of notices that hold only while a run goes on, and what they are once it is over; also of earlier versions."""


def past_tense(notice: str) -> str:
    """Return a notice as it is told about a run that is over."""
    for now, then in PAST:
        notice = notice.replace(tr(now), tr(then))
    return notice
