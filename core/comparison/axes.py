"""The axes over which several runs are drawn together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.arrays import np
from core.series.series import STEP, Axis

if TYPE_CHECKING:
    from core.comparison.measured_run import MeasuredRun
    from core.series.min_max_tree import Floats

KNOTS = 4096
"""Steps of which a guide knows the times."""
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


@dataclass(frozen=True, slots=True)
class Guide:
    """Tells when each step was, shape (n,) each; n is at most `KNOTS`. Between two steps the time runs evenly."""

    steps: Floats
    times: Floats
    """Unix seconds."""

    def times_of(self, axis: Axis, positions: Floats) -> Floats:
        """Return the unix times of positions on an axis, shape (n,) -> (n,); NaN beyond the first and the last step."""
        located = axis.locate_all(positions)
        if axis.column == "time":
            return located
        if not len(self.steps):
            return np.full(len(positions), np.nan)
        timed: Floats = np.interp(located, self.steps, self.times, left=np.nan, right=np.nan)
        return timed

    def ends(self, axis: Axis) -> tuple[float, float] | None:
        """Return the positions of the first and the last step; None without steps."""
        if not len(self.steps):
            return None
        first, last = axis.place((self.steps if axis.column == "step" else self.times)[[0, -1]]).tolist()
        return first, last


def guide_of(run: MeasuredRun) -> Guide:
    """Return the guide of a run: the steps and times of the metric that has most of them."""
    metrics, by_epoch = run.series.metrics, run.series.by_epoch
    found = [each for name, each in metrics.items() if name not in by_epoch and len(each)] or list(metrics.values())
    longest = max(found, key=len, default=None)
    if longest is None or not len(longest):
        return Guide(np.empty(0), np.empty(0))
    at = np.linspace(0, len(longest) - 1, min(len(longest), KNOTS)).astype(np.intp)
    return Guide(longest.steps[at], longest.times[at])
