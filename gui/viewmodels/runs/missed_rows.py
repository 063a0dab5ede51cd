"""The list of the runs that ended while the user was not there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from core.history.summary import RunSummary
from core.language import tr
from core.runs.facts.run_facts import HELD
from gui.style.formatting import moment
from gui.viewmodels.run.memory_verdicts import SHORT, TONES

from .run_rows import mark, outcome, tone


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedRow:
    """One run, ready to be shown in two lines."""

    dir: Path
    name: str
    when: str
    """`18:03`."""
    words: str
    """`finished · loss 0.214 · memory used by others`."""
    mark: str
    tone: str
    is_new: bool
    """Whether the user has not looked at the list since."""

    @property
    def spoken(self) -> str:
        """The row for a screen reader, and whole for a tooltip."""
        return tr(", ").join(filter(None, (self.name, self.words, self.when)))


def missed_rows(runs: Iterable[tuple[RunSummary, bool]], now: float) -> list[MissedRow]:
    """Return the rows of these runs, each with whether it is new; `now` in unix seconds."""
    return [_row(summary, now, is_new=is_new) for summary, is_new in runs]


def _row(summary: RunSummary, now: float, *, is_new: bool) -> MissedRow:
    held = summary.verdict if summary.verdict in HELD else None
    is_success = tone(summary) == "good"
    return MissedRow(
        dir=summary.dir, name=summary.name, when="" if summary.ended is None else moment(summary.ended, now),
        words=outcome(summary) if held is None else f"{outcome(summary)} · {tr(SHORT[held])}",
        mark="alert" if held is not None and is_success else mark(summary),
        tone=TONES[held] if held is not None and is_success else tone(summary), is_new=is_new,
    )  # fmt: skip
