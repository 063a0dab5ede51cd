"""The question before a run or a preset of another user is used: its program and its Python would be executed."""

from __future__ import annotations

from dataclasses import dataclass

from core.language import tr, tr_noop
from core.runs.foreign import execution_warning
from core.schema.spec import RunSpec

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerQuestion:
    """The texts of the question."""

    question: str
    words: str
    """What would be executed."""
    yes: str
    """The text of the button that agrees."""


def owner_question(verb: str, what: str, owner: str | None, spec: RunSpec | None) -> OwnerQuestion | None:
    """Return the question before `verb` (one of `QUESTIONS`) is done with `what` (such as `the run digits`).

    None if it is the user's own, that is without an `owner`. `spec`: None if it cannot be read.
    """
    if owner is None:
        return None
    question, yes = QUESTIONS[verb]
    return OwnerQuestion(
        question=tr(question, what=what, owner=owner),
        words=execution_warning(owner, spec),
        yes=tr(yes),
    )
