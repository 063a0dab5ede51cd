"""What is said of processes that runs have left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.text import first_names, join_names
from gui.style.formatting import age, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.runs.leftovers import OrphanedProcess

MAX_NAMES, MAX_LINES, MAX_REASONS = 3, 8, 4
COMMAND_LENGTH = 90


def found_words(found: Sequence[OrphanedProcess], names: Mapping[str, str]) -> str:
    """`2 processes of the run X, which is over, are still there: ...`; no text for none. `names`: by run id."""
    if not found:
        return ""
    runs = list(dict.fromkeys(each.run_id for each in found))
    of = (
        f"the run {names.get(runs[0], runs[0])}, which is over,"
        if len(runs) == 1
        else f"{len(runs)} runs that are over"
    )
    alone = len(found) == 1
    what, verb, they = ("1 process", "is", "It") if alone else (f"{len(found)} processes", "are", "They")
    who = first_names([f"{each.name} (pid {each.process.pid})" for each in found], MAX_NAMES)
    return f"{what} of {of} {verb} still there: {join_names(who)}. {they} may hold memory of a device."


def confirmation(found: Sequence[OrphanedProcess]) -> tuple[str, str]:
    """The question before they are ended, and who they are."""
    question = "End what was left over?" if len(found) > 1 else f"End {found[0].name} (pid {found[0].process.pid})?"
    lines = [
        f"pid {each.process.pid}  {each.name}  ({age(each.age_s)} old): {one_line(each.command, COMMAND_LENGTH)}"
        for each in found
    ]
    reasons = first_names(list(dict.fromkeys(each.why for each in found)), MAX_REASONS, "more runs are over as well.")
    they = "They are" if len(found) > 1 else "It is"
    how = f"{they} asked to end (SIGTERM), and some seconds later killed (SIGKILL)."
    return question, "\n".join([*first_names(lines, MAX_LINES), "", *reasons, how])
