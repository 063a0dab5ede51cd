"""What several ranks measured of the same thing, put together: their mean, and from the least to the greatest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.series.series import STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from core.series.min_max_tree import Floats
    from core.series.series import Axis, Point, Series

    from .base import Span

RANKED = re.compile(r"(.+)@[1-9]\d{0,5}\Z")
"""The name of a metric of another rank than 0; also `recall@10`, which is only told apart by what else there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Positions, and there the mean, the least and the greatest, shape (n,) each; NaN where no rank has a number."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def own_name(name: str, known: Iterable[str]) -> str:
    """The name under which rank 0 has this metric, where it has; else the name itself."""
    found = RANKED.match(name)
    return found[1] if found and found[1] in known else name


def of_ranks(metrics: Mapping[str, Series], name: str) -> list[Series]:
    """A metric of every rank that has measured it, rank 0 first."""
    found = {other: series for other, series in metrics.items() if len(series) and own_name(other, metrics) == name}
    return [found[other] for other in sorted(found, key=lambda other: (len(other), other))]


def together(
    ranks: Sequence[Series], axis: Axis, span: Span, pixels: int, window: int, *, positive: bool = False
) -> Spread:
    """What a drawing over `span` needs, however many steps there are: at most two points a pixel.

    The mean is that of the ranks' means of the last `window` values; least and greatest are of single values. Ranks
    are compared step by step, since none of them is at a step at the very time of another. With `positive` (a
    logarithmic scale), values at or below zero are gaps.
    """
    guide = max(ranks, key=lambda series: float(series.steps[-1]))
    lo, hi = _step_span(guide, axis, span)
    means = [series.smooth(STEP, lo, hi, pixels, window) for series in ranks]
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
    """What every rank measured at this step; nothing of one that did not."""
    points = [series.nearest(STEP, step) for series in ranks]
    return [point for point in points if point is not None and point.step == step]


def mean_of(values: Iterable[float]) -> float:
    """Of those that are numbers; NaN when none is."""
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
    """The last steps of the pixel columns that hold any, shape (m,), and one beyond either end where there is one."""
    steps = np.unique(np.concatenate([x for x, _ in means]))
    column = np.floor((steps - lo) / max(hi - lo, 1.0) * pixels)
    last = np.append(np.diff(column) > 0, True)
    ends: Floats = steps[last]
    return ends


def _at(steps: Floats, x: Floats, y: Floats, reduce: np.ufunc) -> Floats:
    """Of each stretch of steps that ends at one of `steps`, the least or the greatest value there is; else NaN."""
    found = np.full(len(steps), np.nan)
    place = np.searchsorted(steps, x)
    inside = place < len(steps)
    reduce.at(found, place[inside], y[inside])
    return found


def _mean(values: Floats) -> Floats:
    """Along the first axis, of what is finite."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    with np.errstate(over="ignore"):
        total = np.where(finite, values, 0.0).sum(axis=0)
    mean: Floats = np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)
    return mean
