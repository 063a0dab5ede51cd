"""How far a run is, how fast it goes and how long it will take: from its facts, its losses and what a script tells."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.metrics.common.reading import IN_EPOCH
from core.runs.states import RunState, state_info

if TYPE_CHECKING:
    from core.runs.facts import Plan, RunFacts
    from core.runs.facts import RunProgress as Told
    from core.schema.events import Event
    from core.series.min_max_tree import Floats
    from core.series.series import Series

PACE_S = 5.0
"""The throughput is that of the last so many seconds."""
FORECAST_S = 60.0
"""The time left goes by the last so many, which hold validation and other pauses as well."""
MIN_S = 1.0
"""Of a shorter run there is no saying how fast it went: steps are reported in batches."""
MIN_STEPS = 4
"""Slow steps are looked at over as many, however long they take."""
MAX_TOLD = 600
"""A script tells where it is about once a second: this is more than the longest time that is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """Where a run stands. None where there is nothing to go by."""

    done: float
    total: float
    unit: str
    """What is counted: `epochs`, of which `done` is the one that is under way; of a script, whatever it tells."""
    fraction: float
    samples_per_s: float | None
    steps_per_s: float | None
    """Of a script that tells its steps, in place of samples."""
    left_s: float | None
    took_s: float | None
    """Only of a run that is over."""


class ScriptProgress:
    """When a script told how far it is. It may begin anew: another epoch's bar, another count."""

    def __init__(self) -> None:
        self._counted: tuple[float, str] | None = None
        self._first: tuple[float, float] = (0.0, 0.0)
        self._latest: deque[tuple[float, float]] = deque(maxlen=MAX_TOLD)

    def take_in(self, event: Event) -> None:
        """What `progress` events tell; of those that cannot be read, the run's facts tell."""
        try:
            time, done, counted = float(event["t"]), float(event["done"]), (float(event["total"]), str(event["unit"]))
        except (KeyError, TypeError, ValueError):
            return
        if counted != self._counted or done < self._latest[-1][1]:
            self._counted, self._first = counted, (time, done)
            self._latest.clear()
        if not self._latest or done > self._latest[-1][1]:  # told again, it is no step
            self._latest.append((time, done))

    def forget(self) -> None:
        """Another leg begins."""
        self._counted = None
        self._latest.clear()

    def leg(self) -> _Leg:
        """What was counted, and when; the first, and the latest."""
        told = list(self._latest)
        if told and told[0] != self._first:
            told = [self._first, *told]
        times, done = np.array(told).reshape(-1, 2).T
        return _Leg(steps=done, times=times)


def progress_view(
    facts: RunFacts, losses: Series | None, now: float, strides: ScriptProgress | None = None
) -> ProgressView | None:
    """The progress of a run at `now`, unix seconds; None until it is known how much there is to do."""
    if facts.plan is not None and facts.plan.steps > 0:
        return _of_plan(facts, facts.plan, losses, now)
    if facts.progress is not None and facts.progress.total > 0:
        return _of_script(facts, facts.progress, strides.leg() if strides else _NO_LEG, now)
    return None


def _of_plan(facts: RunFacts, plan: Plan, losses: Series | None, now: float) -> ProgressView:
    over = state_info(facts.state).over
    leg = _last_leg(facts, losses)
    pace = leg.whole_pace() if over else leg.pace(PACE_S, now)
    forecast = leg.pace(FORECAST_S, now) if facts.state is RunState.RUNNING else None
    return ProgressView(
        done=epoch_of(plan, facts.step, over=over),
        total=plan.epochs,
        unit="epochs",
        fraction=min(facts.step / plan.steps, 1.0),
        samples_per_s=None if pace is None else pace * plan.samples_per_epoch / plan.steps_per_epoch,
        steps_per_s=None,
        left_s=max(plan.steps - facts.step, 0) / forecast if forecast else None,
        took_s=took_s(facts) if over else None,
    )


def _of_script(facts: RunFacts, told: Told, leg: _Leg, now: float) -> ProgressView | None:
    """As it tells. Whoever has begun the last of ten epochs may tell that ten are done: then there is no forecast."""
    over = state_info(facts.state).over
    if over and told.unit == IN_EPOCH:
        return None  # where it was in its last epoch says nothing of the whole
    pace = leg.whole_pace() if over else leg.pace(PACE_S, now)
    forecast = leg.pace(FORECAST_S, now) if facts.state is RunState.RUNNING and told.done < told.total else None
    since_s = max(now - float(leg.times[-1]), 0.0) if len(leg.times) else 0.0
    return ProgressView(
        done=told.done,
        total=told.total,
        unit=told.unit,
        fraction=min(max(told.done / told.total, 0.0), 1.0),
        samples_per_s=None,
        steps_per_s=pace if told.unit == "steps" else None,
        left_s=max((told.total - told.done) / forecast - since_s, 0.0) if forecast else None,
        took_s=took_s(facts) if over else None,
    )


def epoch_of(plan: Plan, step: int, *, over: bool) -> int:
    """The epoch that is under way, or the last that was begun."""
    begun = -(-step // plan.steps_per_epoch) if over else step // plan.steps_per_epoch + 1
    return min(begun, plan.epochs)


def took_s(facts: RunFacts) -> float | None:
    """How long the run was under way, all its legs together: while it was paused, it took no time."""
    took, began = 0.0, None
    for time, state in facts.history:
        if state is RunState.STARTING:
            began = time
        elif state_info(state).over and began is not None:
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
        first = max(min(first, len(times) - 1 - MIN_STEPS), 0)
        took = float(times[-1] - times[first])
        if took <= 0 or now - float(times[-1]) > max(2 * window_s, 3 * took):
            return None
        return float(self.steps[-1] - self.steps[first]) / took

    def whole_pace(self) -> float | None:
        """Steps a second over all of it."""
        if len(self.times) < 2 or self.times[-1] - self.times[0] < MIN_S:
            return None
        return float(self.steps[-1] - self.steps[0]) / float(self.times[-1] - self.times[0])


def _last_leg(facts: RunFacts, losses: Series | None) -> _Leg:
    if losses is None:
        return _NO_LEG
    began = max((time for time, state in facts.history if state is RunState.STARTING), default=0.0)
    first = int(np.searchsorted(losses.times, began))
    return _Leg(steps=losses.steps[first:], times=losses.times[first:])


_NO_LEG = _Leg(steps=np.empty(0), times=np.empty(0))
