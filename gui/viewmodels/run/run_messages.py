"""The message below the plots about the shown run."""

from __future__ import annotations

from dataclasses import dataclass

from core import language
from core.language import join_sentences, tr, tr_noop
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
    unticked = [tr(use.sentence) for use in facts.unticked_device_uses]
    stalled = [each for each in (facts.stopped_processes, facts.stalled, *facts.slowed.values()) if each]
    told = map(past_tense if state_info(facts.state).over else tr, facts.notices)
    notices = [] if facts.error or spec_problem else [*map(tr, stalled), *told]
    bad = bool(spec_problem or unticked or held_tone == "bad")
    texts = [*([spec_problem] if spec_problem else []), *unticked, *since, *held, *notices]
    return Message(text=join_sentences(texts), tone="bad" if bad else "warn", details=bool(held))


PAST = {
    tr_noop(
        "The process that reads measurements from the script's output has ended, so the curves are no longer updated. "
        "The script continues, and its log is complete."
    ): tr_noop(
        "The process that reads measurements from the script's output has ended, so the curves end there. "
        "The script went on, and its log is complete."
    ),
    tr_noop(
        "The process at which the script's PyTorch ranks meet has ended. If they wait for each other, stop the run, "
        "and start it again with --env TORCHELASTIC_USE_AGENT_STORE=False, so that rank 0 takes its place."
    ): tr_noop(
        "The process at which the script's PyTorch ranks meet has ended. If they waited for each other, start it with "
        "--env TORCHELASTIC_USE_AGENT_STORE=False, so that rank 0 takes its place."
    ),
    tr_noop("Training is done, but these processes did not exit and are being terminated: pid {pids}."): tr_noop(
        "Training is done, but these processes did not exit and were terminated: pid {pids}."
    ),
    tr_noop(
        "The checkpoint at step {step} could not be written to {folder}: {error}. The next checkpoint is tried when "
        "it is due. Earlier checkpoints are kept."
    ): tr_noop(
        "The checkpoint at step {step} could not be written to {folder}: {error}. Earlier checkpoints are kept."
    ),
}
"""Templates of notices that hold only while a run goes on, and what they are once it is over."""


def past_tense(notice: str) -> str:
    """Return a notice in the past tense, for a run that is over, in the language in use."""
    found = language.Message.read(notice)
    then = PAST.get(found.say[0]) if found.say else None
    if then is None or not isinstance(found.values, dict):
        return tr(notice)
    try:
        return tr(then, **{name: tr(str(each)) for name, each in found.values.items()})
    except LookupError:  # another user's run may have anything
        return tr(notice)
