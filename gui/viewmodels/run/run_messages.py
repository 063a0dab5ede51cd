"""What the strip across the window says about the run that is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.runs.states import state_info

from .memory_verdicts import seen_words, sentences

if TYPE_CHECKING:
    from core.runs.facts import RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message; no text says nothing."""

    text: str
    tone: str
    details: bool
    """Whether there is more to read."""


def run_message(facts: RunFacts, spec_problem: str | None, now: float) -> Message:
    """Return the error, the uses of unticked devices and the memory that is not back; then the notices.

    `now`: unix seconds.
    """
    error = _error(facts, spec_problem)
    held, held_tone = sentences(facts) if state_info(facts.state).over else ([], "")
    seen = seen_words(facts, now)
    since = [f"{seen[0].upper()}{seen[1:]}:"] if held and seen else []  # it may be long ago
    unticked = [use.sentence for use in facts.unticked_device_uses]
    stalled = [facts.stalled] if facts.stalled else []
    notices = [] if error else [*stalled, *facts.notices]
    bad = bool(error or unticked or held_tone == "bad")
    texts = [*([error] if error else []), *unticked, *since, *held, *notices]
    return Message(text=" ".join(texts), tone="bad" if bad else "warn", details=bool(facts.error))


def _error(facts: RunFacts, spec_problem: str | None) -> str:
    """A run whose spec cannot be used comes to nothing for that reason, whatever else is known of it."""
    never_came_up = facts.supervisor is None
    told = (spec_problem, None if spec_problem and never_came_up else facts.error)
    return " ".join(text for text in told if text)
