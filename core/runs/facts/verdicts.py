"""The findings of the memory watch, from the best to the worst."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.schema.event_kinds import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.schema.event_kinds import Release

BADNESS = (
    Verdict.RELEASED, Verdict.CANNOT_BE_JUDGED, Verdict.HELD_BY_OTHERS, Verdict.UNEXPLAINED, Verdict.HELD_BY_RUN
)  # fmt: skip
"""From the best to the worst."""
HELD = frozenset({Verdict.HELD_BY_RUN, Verdict.HELD_BY_OTHERS, Verdict.UNEXPLAINED})
"""The verdicts on memory that did not come back."""


def worst(releases: Iterable[Release]) -> Release | None:
    """Return the release with the worst verdict, and of those the one that took longest; None for no releases."""
    return max(releases, key=lambda each: (BADNESS.index(each.verdict), each.seconds), default=None)
