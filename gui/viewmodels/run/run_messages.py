"""What the strip across the window says about the run that is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.runs.states import state_info

from .memory_verdicts import seen_words, sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.runs.facts import RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message; no text says nothing."""

    text: str
    tone: str
    details: bool
    """Whether there is more to read."""


def run_message(facts: RunFacts, strays: Sequence[str], spec_problem: str | None, now: float) -> Message:
    """What went wrong, what runs where it should not, whose memory is not back; or else what is merely to be known.

    `strays`: sentences on processes of the run that are on devices which were not ticked; `now`: unix seconds.
    """
    error = _error(facts, spec_problem)
    held, held_tone = sentences(facts) if state_info(facts.state).over else ([], "")
    seen = seen_words(facts, now)
    since = [f"{seen[0].upper()}{seen[1:]}:"] if held and seen else []  # it may be long ago
    grave = [*([error] if error else []), *strays, *held]
    stalled = [facts.stalled] if facts.stalled else []
    notices = [] if error else [*stalled, *(text for text in facts.notices if text not in grave)]
    bad = bool(error or strays or held_tone == "bad")
    told = [*grave[: len(grave) - len(held)], *since, *held, *notices]
    return Message(text=" ".join(told), tone="bad" if bad else "warn", details=bool(facts.error))


def _error(facts: RunFacts, spec_problem: str | None) -> str:
    """A run whose spec cannot be used comes to nothing for that reason, whatever else is known of it."""
    never_came_up = facts.supervisor is None
    told = (spec_problem, None if spec_problem and never_came_up else facts.error)
    return " ".join(text for text in told if text)
