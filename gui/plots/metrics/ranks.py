"""Combine what several ranks measured of one metric: mean, minimum and maximum."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.series.series import STEP, Axis, Point, Series
from gui.plots.card import Span

if TYPE_CHECKING:
    from core.series.min_max_tree import Floats

RANKED = re.compile(r"(.+)@[1-9]\d{0,5}\Z")
"""Name of a metric of a rank other than 0. `recall@10` matches too; `own_name` tells them apart by the other names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Positions with mean, minimum and maximum, shape (n,) each; NaN where no rank has a number."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def own_name(name: str, known: Iterable[str]) -> str:
    """Return the name that rank 0 uses for this metric, or the name itself if rank 0 lacks it."""
    found = RANKED.match(name)
    return found[1] if found and found[1] in known else name


def of_ranks(metrics: Mapping[str, Series], name: str) -> list[Series]:
    """Return a metric of every rank that has measured it, rank 0 first."""
    found = {other: series for other, series in metrics.items() if len(series) and own_name(other, metrics) == name}
    return [found[other] for other in sorted(found, key=lambda other: (len(other), other))]


def combine(
    ranks: Sequence[Series], axis: Axis, span: Span, pixels: int, weight: float, *, positive: bool = False
) -> Spread:
    """Return at most two points per pixel to draw over `span`, however many steps there are.

    The mean averages the ranks' exponential means of this weight (`Series.smooth`); minimum and maximum are of single
    values. Ranks are compared by step, because they reach a step at different times. With `positive` (a logarithmic
    scale), values at or below zero are gaps.
    """
    guide = max(ranks, key=lambda series: float(series.steps[-1]))
    lo, hi = _step_span(guide, axis, span)
    means = [series.smooth(STEP, lo, hi, pixels, weight) for series in ranks]
    ends = [series.view(STEP, lo, hi, pixels, positive=positive) for series in ranks]
    if max(len(x) for x, _ in (*means, *ends)) <= pixels:
        steps = np.unique(np.concatenate([x for x, _ in (*means, *ends)]))
    else:
        steps = _columns(means, lo, hi, pixels)
    mean = _mean(np.array([_at(steps, *each, np.fmax) for each in means]))
    return Spread(
        x=axis.place(steps if axis.column == "step" else np.interp(steps, guide.steps, guide.times)),
        mean=np.where(mean > 0, mean, np.nan) if positive else mean,
        low=np.fmin.reduce([_at(steps, *each, np.fmin) for each in ends]),
        high=np.fmax.reduce([_at(steps, *each, np.fmax) for each in ends]),
    )


def at_step(ranks: Sequence[Series], step: int) -> list[Point]:
    """Return what each rank measured at this step; ranks without a value are left out."""
    points = [series.nearest(STEP, step) for series in ranks]
    return [point for point in points if point is not None and point.step == step]


def mean_of(values: Iterable[float]) -> float:
    """Return the mean of the finite values; NaN if there are none."""
    return float(_mean(np.array(list(values), dtype=np.float64)))


def _step_span(guide: Series, axis: Axis, span: Span) -> Span:
    lo, hi = axis.locate(span[0]), axis.locate(span[1])
    if axis.column == "step":
        return lo, hi
    first = int(np.searchsorted(guide.times, lo, side="left"))
    last = int(np.searchsorted(guide.times, hi, side="right")) - 1
    count = len(guide)
    return float(guide.steps[min(max(first, 0), count - 1)]), float(guide.steps[min(max(last, 0), count - 1)])


def _columns(means: Sequence[tuple[Floats, Floats]], lo: float, hi: float, pixels: int) -> Floats:
    """Return the last step of each pixel column, shape (m,), and one step beyond either end if there is one."""
    steps = np.unique(np.concatenate([x for x, _ in means]))
    column = np.floor((steps - lo) / max(hi - lo, 1.0) * pixels)
    last = np.append(np.diff(column) > 0, True)
    ends: Floats = steps[last]
    return ends


def _at(steps: Floats, x: Floats, y: Floats, reduce: np.ufunc) -> Floats:
    """Reduce the values of each interval of steps that ends at one of `steps`; NaN for an empty interval."""
    found = np.full(len(steps), np.nan)
    place = np.searchsorted(steps, x)
    inside = place < len(steps)
    reduce.at(found, place[inside], y[inside])
    return found


def _mean(values: Floats) -> Floats:
    """Return the mean of the finite values along the first axis."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    with np.errstate(over="ignore"):
        total = np.where(finite, values, 0.0).sum(axis=0)
    mean: Floats = np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)
    return mean
