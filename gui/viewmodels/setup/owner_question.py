"""The question before a run or a preset of another user is used: its program and its Python would be executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.text import first_names
from gui.style.formatting import one_line

if TYPE_CHECKING:
    from core.schema.spec import RunSpec

MAX_CHARACTERS = 240
"""Maximum characters of a line in the question."""
MAX_VARIABLES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerQuestion:
    """The texts of the question."""

    question: str
    words: str
    """What would be executed."""
    yes: str
    """The text of the button that agrees."""


def owner_question(verb: str, what: str, owner: str | None, spec: RunSpec | None) -> OwnerQuestion | None:
    """Return the question before `verb` (such as `Resume`) is done with `what` (such as `the run digits`).

    None if it is the user's own, that is without an `owner`. `spec`: None if it cannot be read.
    """
    if owner is None:
        return None
    files = "\n".join(one_line(line, MAX_CHARACTERS) for line in _executed(spec)) if spec else "Its files are unknown."
    return OwnerQuestion(
        question=f"{verb} {what}, which belongs to {owner}?",
        words=f"This would be executed with your rights, and {owner} may be able to change it at any time:"
        f"\n\n{files}\n\nContinue only if you trust {owner}.",
        yes=f"{verb} anyway",
    )


def _executed(spec: RunSpec) -> list[str]:
    """Return what the run would execute, one line each."""
    script = spec.script
    command = " ".join(script.command) if script else spec.own_recipe.path
    lines = [f"Program: {command}", f"Python: {spec.python or 'the Python of Trainyard'}"]
    if spec.working_dir:
        lines.append(f"Folder: {spec.working_dir}")
    variables = [f"Variable: {name}={value}" for name, value in (script.environment if script else {}).items()]
    return [*lines, *first_names(variables, MAX_VARIABLES, "more variables")]
