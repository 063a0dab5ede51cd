"""The question before a run or a preset of another user is used: its program and its Python would be executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import tr, tr_noop
from core.runs.ownership import execution_warning

if TYPE_CHECKING:
    from core.schema.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerQuestion:
    """The texts of the question."""

    question: str
    words: str
    """What would be executed."""
    yes: str
    """The text of the button that agrees."""


VERBS = (tr_noop("Start"), tr_noop("Resume"), tr_noop("Load"), tr_noop("Export"))
"""What is asked about, here and in `device_sharing`."""


def owner_question(verb: str, what: str, owner: str | None, spec: RunSpec | None) -> OwnerQuestion | None:
    """Return the question before `verb` (such as `Resume`) is done with `what` (such as `the run digits`).

    None if it is the user's own, that is without an `owner`. `spec`: None if it cannot be read.
    """
    if owner is None:
        return None
    return OwnerQuestion(
        question=tr("{verb} {what}, which belongs to {owner}?", verb=tr(verb), what=what, owner=owner),
        words=execution_warning(owner, spec),
        yes=tr("{verb} anyway", verb=tr(verb)),
    )
