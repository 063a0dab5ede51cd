"""How far a run is, how fast it goes and how long it will take: from its facts and its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.state import RunState, row

if TYPE_CHECKING:
    from core.series import Series
    from core.state import Facts, Plan

PACE_S = 5.0
"""The throughput is that of the last so many seconds."""
FORECAST_S = 60.0
"""The time left goes by the last so many, which hold validation and other pauses as well."""
LEAST_S = 1.0
"""Of a shorter run there is no saying how fast it went: steps are reported in batches."""
LEAST_STEPS = 4
"""Slow steps are looked at over as many, however long they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands. None where there is nothing to go by."""

    epoch: int
    epochs: int
    fraction: float
    samples_per_s: float | None
    left_s: float | None
    took_s: float | None
    """Only of a run that is over."""


def progress(facts: Facts, losses: Series | None, now: float) -> Progress | None:
    """The progress of a run at `now`, unix seconds; None until it is known how much there is to do."""
    plan = facts.plan
    if plan is None or plan.steps <= 0:
        return None
    over = row(facts.state).over
    pace = _whole_pace(losses) if over else _pace(losses, PACE_S, now)
    forecast = _pace(losses, FORECAST_S, now) if facts.state is RunState.RUNNING else None
    return Progress(
        epoch=_epoch(plan, facts.step, over=over),
        epochs=plan.epochs,
        fraction=min(facts.step / plan.steps, 1.0),
        samples_per_s=None if pace is None else pace * plan.samples_per_epoch / plan.steps_per_epoch,
        left_s=max(plan.steps - facts.step, 0) / forecast if forecast else None,
        took_s=facts.ended - facts.started if facts.ended and facts.started else None,
    )


def _epoch(plan: Plan, step: int, *, over: bool) -> int:
    """The epoch that is under way, or the last that was begun."""
    begun = -(-step // plan.steps_per_epoch) if over else step // plan.steps_per_epoch + 1
    return min(begun, plan.epochs)


def _pace(losses: Series | None, window_s: float, now: float) -> float | None:
    """Steps a second over the last `window_s`; None when there is no saying, or nothing has come for long."""
    if losses is None or len(losses) < 2:
        return None
    steps, times = losses.steps, losses.times
    first = int(np.searchsorted(times, times[-1] - window_s))
    first = max(min(first, len(times) - 1 - LEAST_STEPS), 0)
    took = float(times[-1] - times[first])
    if took <= 0 or now - float(times[-1]) > max(2 * window_s, 3 * took):
        return None
    return float(steps[-1] - steps[first]) / took


def _whole_pace(losses: Series | None) -> float | None:
    """Steps a second over the whole run."""
    if losses is None or len(losses) < 2 or losses.times[-1] - losses.times[0] < LEAST_S:
        return None
    return float(losses.steps[-1] - losses.steps[0]) / float(losses.times[-1] - losses.times[0])
