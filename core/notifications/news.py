"""What became of a run, read from its directory."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.history.summary import SummaryReader
from core.language import tr, tr_stored
from core.notifications.settings import OCCASION_OF, STALLED
from core.runs.facts.run_facts import HELD, Verdict, worst
from core.runs.facts.states import RunState, state_info
from core.runs.run import Run, folders_mark
from core.schema.paths import SUPERVISOR_EVENTS
from core.text import list_labels, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from core.history.summary import RunSummary
    from core.runs.facts.run_facts import RunFacts

OVER_WITHIN_S = 30.0
"""Seconds to wait for the end of a run: its supervisor may still be leaving."""
NAP_S = 0.1
MAX_TEXT = 300
"""Characters of an error or of a sentence."""
MAX_NAME = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews:
    """What became of one run. The texts are in the language of the user."""

    run_dir: str
    name: str
    occasion: str
    """One of `settings.OCCASIONS`."""
    state: str
    """The value of its `RunState`."""
    time: float
    """Unix seconds of the end, or of the stall."""
    duration_s: float | None
    """Seconds since its last start."""
    asked_s: float | None
    """Seconds since the user asked for it: with the time in a queue."""
    last_loss: float | None
    best_validation_loss: float | None
    memory: str
    """What became of the memory of its devices, in a sentence; the empty string if that was not watched."""
    memory_verdict: str
    """The worst value of `Verdict` of its devices; the empty string if that was not watched."""
    detail: str
    """Why it failed, was lost or seems to make no progress; else the empty string."""

    @property
    def memory_is_held(self) -> bool:
        """Whether the memory of a device did not come back."""
        return self.memory_verdict in {each.value for each in HELD}


def news_of_end(run_dir: Path, *, only_lost: bool = False) -> RunNews | None:
    """Wait until a run is over, and return what became of it; None if it goes on, or is gone.

    `only_lost`: return None unless the run is lost.
    """
    run = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    deadline = time.monotonic() + OVER_WITHIN_S
    run.catch_up()
    while not state_info(run.facts.state).over:
        if time.monotonic() > deadline:
            return None
        time.sleep(NAP_S)
        run.catch_up()
    if not run_dir.is_dir() or (only_lost and run.facts.state is not RunState.LOST):
        return None
    error = (run.facts.error or "").partition("\n")[0]
    return _news(run_dir, run.facts, OCCASION_OF[run.facts.state], run.facts.ended or time.time(), error)


def news_of_stall(run_dir: Path) -> RunNews | None:
    """Return that a run makes no progress; None if it does again, or is gone."""
    run = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    run.catch_up()
    if not run.facts.stalled or not run_dir.is_dir():
        return None
    return _news(run_dir, run.facts, STALLED, time.time(), run.facts.stalled)


def _news(run_dir: Path, facts: RunFacts, occasion: str, when: float, detail: str) -> RunNews:
    summary: RunSummary = SummaryReader(run_dir).summary(folders_mark(run_dir), None)
    asked, started = _starts(facts)
    best = summary.best_validation
    return RunNews(
        run_dir=str(run_dir), name=one_line(summary.name, MAX_NAME), occasion=occasion, state=facts.state.value,
        time=when, duration_s=None if started is None else max(0.0, when - started),
        asked_s=None if asked is None else max(0.0, when - asked), last_loss=_finite(summary.last_loss),
        best_validation_loss=None if best is None else best[1], memory=_memory(facts),
        memory_verdict=_verdict(facts), detail=one_line(tr_stored(detail), MAX_TEXT),
    )  # fmt: skip


def _starts(facts: RunFacts) -> tuple[float | None, float | None]:
    """Return when the user last asked for the run, and when it was last started."""
    asked = started = None
    was_over = True
    for when, state in facts.history:
        if was_over and not state_info(state).over:
            asked = when
        if state is RunState.STARTING:
            started = when
        was_over = state_info(state).over
    return asked, started


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _verdict(facts: RunFacts) -> str:
    found = worst(facts.releases.values())
    return "" if found is None else found.verdict.value


def _memory(facts: RunFacts) -> str:
    found = worst(facts.releases.values())
    if found is None:
        return ""
    if found.verdict is not Verdict.RELEASED:
        return one_line(tr_stored(found.sentence), MAX_TEXT)
    labels = [str(facts.devices.get(each, {}).get("label") or each) for each in facts.releases]
    return tr("The memory of {devices} is free again.", devices=list_labels(labels))
