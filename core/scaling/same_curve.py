"""Whether two runs walked the same curve: the loss of each step, and the validation loss, within a tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.arrays import np
from core.history.run_loss import LOSS, VALIDATION_LOSS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.comparison.measured_run import MeasuredRun
    from core.series.min_max_tree import Floats
    from core.series.series import Series

TOLERANCES = {"pytorch": 1e-5, "tensorflow": 1e-4, "keras": 1e-4}
"""By framework, the largest relative difference of two values of the same curve: those of `docs/recipes.md`."""
CURVES = (LOSS, VALIDATION_LOSS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveCheck:
    """How far the curve of a run is from that of another one."""

    steps: int
    """The steps of the shorter one."""
    largest: float | None
    """The largest relative difference of two values; infinite where only one of them is finite, None without values."""
    first_step: int | None
    """The first step at which they differ by more than the tolerance, or that only one of them has; None: nowhere."""

    @property
    def same(self) -> bool:
        """Whether the curves are the same within the tolerance."""
        return self.first_step is None


def compare_curves(run: MeasuredRun, reference: MeasuredRun, tolerance: float) -> CurveCheck | None:
    """Compare the curve of a run with that of another one; None unless both have one."""
    ours, theirs = run.series.metrics, reference.series.metrics
    if not _has_loss(ours) or not _has_loss(theirs):
        return None
    firsts, largest = [], []
    for name in CURVES:
        if name in ours and name in theirs:
            steps, values = _difference(ours[name], theirs[name])
            largest += [float(values.max())] if len(values) else []
            firsts += steps[values > tolerance][:1].tolist()
        firsts += _first_without_other(ours.get(name), theirs.get(name))
    return CurveCheck(
        steps=min(int(each[LOSS].steps[-1]) for each in (ours, theirs)),
        largest=max(largest, default=None),
        first_step=int(min(firsts)) if firsts else None,
    )


def _has_loss(metrics: Mapping[str, Series]) -> bool:
    return LOSS in metrics and len(metrics[LOSS]) > 0


def _difference(one: Series, other: Series) -> tuple[Floats, Floats]:
    """Return the steps that both have, and the relative difference of the values there: 0 where neither is finite."""
    steps, at, there = np.intersect1d(one.steps, other.steps, return_indices=True)
    ours, theirs = one.values[at], other.values[there]
    equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.abs(ours - theirs) / np.abs(theirs)
    values[~np.isfinite(values)] = np.inf
    values[equal] = 0.0
    return steps, values


def _first_without_other(one: Series | None, other: Series | None) -> list[float]:
    """Return the first step of which only one of them has a value, in a list; an empty one if there is none."""
    ours, theirs = (each.steps if each is not None else np.empty(0) for each in (one, other))
    alone: list[float] = np.setxor1d(ours, theirs)[:1].tolist()
    return alone
