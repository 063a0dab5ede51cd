"""How far a run is, how fast it goes and how long it will take: from its facts and its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.state import RunState, row

if TYPE_CHECKING:
    from core.pyramid import Floats
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
    leg = _last_leg(facts, losses)
    pace = leg.whole_pace() if over else leg.pace(PACE_S, now)
    forecast = leg.pace(FORECAST_S, now) if facts.state is RunState.RUNNING else None
    return Progress(
        epoch=epoch_of(plan, facts.step, over=over),
        epochs=plan.epochs,
        fraction=min(facts.step / plan.steps, 1.0),
        samples_per_s=None if pace is None else pace * plan.samples_per_epoch / plan.steps_per_epoch,
        left_s=max(plan.steps - facts.step, 0) / forecast if forecast else None,
        took_s=_took_s(facts) if over else None,
    )


def epoch_of(plan: Plan, step: int, *, over: bool) -> int:
    """The epoch that is under way, or the last that was begun."""
    begun = -(-step // plan.steps_per_epoch) if over else step // plan.steps_per_epoch + 1
    return min(begun, plan.epochs)


def _took_s(facts: Facts) -> float | None:
    """How long the run was under way, all its legs together: while it was paused, it took no time."""
    took, began = 0.0, None
    for time, state in facts.history:
        if state is RunState.STARTING:
            began = time
        elif row(state).over and began is not None:
            took, began = took + time - began, None
    return took or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leg:
    """The steps since the run was started or resumed for the last time."""

    steps: Floats
    times: Floats

    def pace(self, window_s: float, now: float) -> float | None:
        """Steps a second over the last `window_s`; None when there is no saying, or nothing has come for long."""
        times = self.times
        if len(times) < 2:
            return None
        first = int(np.searchsorted(times, times[-1] - window_s))
        first = max(min(first, len(times) - 1 - LEAST_STEPS), 0)
        took = float(times[-1] - times[first])
        if took <= 0 or now - float(times[-1]) > max(2 * window_s, 3 * took):
            return None
        return float(self.steps[-1] - self.steps[first]) / took

    def whole_pace(self) -> float | None:
        """Steps a second over all of it."""
        if len(self.times) < 2 or self.times[-1] - self.times[0] < LEAST_S:
            return None
        return float(self.steps[-1] - self.steps[0]) / float(self.times[-1] - self.times[0])


def _last_leg(facts: Facts, losses: Series | None) -> _Leg:
    if losses is None:
        return _Leg(steps=np.empty(0), times=np.empty(0))
    began = max((time for time, state in facts.history if state is RunState.STARTING), default=0.0)
    first = int(np.searchsorted(losses.times, began))
    return _Leg(steps=losses.steps[first:], times=losses.times[first:])
