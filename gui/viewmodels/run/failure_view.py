"""What the card about a failure shows: the cause, the place, the last lines, and what can be pressed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.config.validation import smaller_batch
from core.diagnosis.failures import Cause, failure_of
from core.runs.facts.run_facts import RunFacts
from core.schema.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """A failure, ready to be shown."""

    title: str
    sentence: str
    place: str
    """`train.py, line 34, in loss()`; the empty string if it is not known."""
    lines: tuple[str, ...]
    smaller: RunSpec | None
    """The spec of this run with a smaller batch; None if that would not help."""
    smaller_words: str
    """`batch 48`."""
    can_run_again: bool
    rank: int
    """The rank whose log has the error."""
    sought: str
    """A line to look for in that log."""

    @property
    def spoken(self) -> str:
        """The title and the sentence, for a screen reader."""
        return f"{self.title}. {self.sentence}"


def failure_view(
    facts: RunFacts, spec: RunSpec | None, *, log_end: str, labels: Mapping[str, str]
) -> FailureView | None:
    """Return what to show about a failed run; None for a run that did not fail.

    `log_end`: the end of its log; `labels`: names of the devices by id.
    """
    failure = failure_of(facts, spec, log_end=log_end, labels=labels)
    if failure is None or (spec is None and facts.supervisor is None):  # without a spec it could not start
        return None
    found = smaller_batch(spec) if spec is not None and failure.cause in SMALLER_HELPS else None
    smaller, words = found or (None, "")
    return FailureView(
        title=failure.title,
        sentence=failure.sentence,
        place=str(failure.place) if failure.place is not None else "",
        lines=failure.lines,
        smaller=smaller,
        smaller_words=words,
        can_run_again=spec is not None and failure.cause is not Cause.HEAD_LOST,
        rank=failure.rank,
        sought=failure.lines[-1].strip() if failure.lines else "",
    )


SMALLER_HELPS = frozenset({Cause.DEVICE_MEMORY, Cause.HOST_MEMORY})
"""Causes for which a smaller batch is offered."""
