"""The message below the plots about the shown run."""

from __future__ import annotations

from dataclasses import dataclass

from core.language import join_sentences, tr, tr_noop, tr_stored
from core.runs.facts.run_facts import RunFacts
from core.runs.facts.states import state_info

from .memory_verdicts import seen_words, sentences


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
    since = [tr("{phrase}:", phrase=f"{seen[0].upper()}{seen[1:]}")] if held and seen else []  # it may be long ago
    unticked = [tr_stored(use.sentence) for use in facts.unticked_device_uses]
    stalled = [each for each in (facts.stopped_processes, facts.stalled, *facts.slowed.values()) if each]
    told = [past_tense(each) for each in facts.notices] if state_info(facts.state).over else facts.notices
    notices = [] if facts.error or spec_problem else [tr_stored(each) for each in (*stalled, *told)]
    bad = bool(spec_problem or unticked or held_tone == "bad")
    texts = [*([spec_problem] if spec_problem else []), *unticked, *since, *held, *notices]
    return Message(text=join_sentences(texts), tone="bad" if bad else "warn", details=bool(held))


PAST = (
    (" The next checkpoint is tried when it is due.", ""),
    ("The script continues, and its log is complete.", "The script went on, and its log is complete."),
    ("so the curves are no longer updated.", "so the curves end there."),
    ("are being terminated:", "were terminated:"),
    (
        "If they wait for each other, stop the run, and start it again with",
        "If they waited for each other, start it with",
    ),
)
"""Parts of notices that hold only while a run goes on, and what they are once it is over."""


TOLD = (
    tr_noop(
        "The process that reads measurements from the script's output has ended, so the curves end there. "
        "The script went on, and its log is complete."
    ),
    tr_noop(
        "The process at which the script's PyTorch ranks meet has ended. If they waited for each other, start it with "
        "--env TORCHELASTIC_USE_AGENT_STORE=False, so that rank 0 takes its place."
    ),
    tr_noop("Training is done, but these processes did not exit and were terminated: pid {pids}."),
    tr_noop("The checkpoint at step {step} could not be written to {folder}: {error}. Earlier checkpoints are kept."),
)
"""What `past_tense` makes of these notices, for their translation."""


def past_tense(notice: str) -> str:
    """Return a notice in the past tense, for a run that is over."""
    for now, then in PAST:
        notice = notice.replace(now, then)
    return notice
