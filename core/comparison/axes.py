"""The axes over which several runs are drawn together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.arrays import np
from core.series.series import STEP, Axis

if TYPE_CHECKING:
    from core.comparison.measured_run import MeasuredRun
    from core.series.min_max_tree import Floats
    from core.series.series import Series

AXES = ("step", "epoch", "samples", "training", "wall")
"""`training`: seconds of training without interruptions; `wall`: seconds since a moment that all runs share."""


def axis_of(run: MeasuredRun, name: str, metric: str = "", origin: float = 0.0) -> Axis | None:
    """Return an axis of `AXES` for a run; None if the run does not say what it needs, such as steps per epoch.

    `metric`: its steps may be numbers of epochs. `origin`: unix time at which the axis `wall` begins.
    """
    by_epoch, plan = metric in run.series.by_epoch, run.plan
    match name:
        case "epoch":
            per_epoch = 1 if by_epoch else run.series.steps_per_epoch
            return Axis(column="step", unit=float(per_epoch)) if per_epoch else None
        case "samples":
            if plan is None or not plan.samples_per_epoch or not plan.steps_per_epoch:
                return None
            return Axis(column="step", unit=(1 if by_epoch else plan.steps_per_epoch) / plan.samples_per_epoch)
        case "training":
            return run.series.axes["training"]
        case "wall":
            return Axis(column="time", origin=origin)
        case _:
            return STEP


def guide_of(run: MeasuredRun) -> Series | None:
    """Return the metric with the most steps and times, which tells when each step was; None if nothing was measured."""
    found = [series for name, series in run.series.metrics.items() if name not in run.series.by_epoch and len(series)]
    return max(found or [each for each in run.series.metrics.values() if len(each)], key=len, default=None)


def times_of(axis: Axis, guide: Series | None, positions: Floats) -> Floats:
    """Return the unix times of positions on an axis, shape (n,) -> (n,); NaN before the first step and after the last.

    `guide`: the series by whose steps positions on an axis of steps are timed.
    """
    located = axis.locate_all(positions)
    if axis.column == "time":
        return located
    if guide is None:
        return np.full(len(positions), np.nan)
    timed: Floats = np.interp(located, guide.steps, guide.times, left=np.nan, right=np.nan)
    return timed
