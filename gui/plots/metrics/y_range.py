"""Choose the range of the y axis, with or without outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.series.min_max_tree import Floats
    from gui.plots.card import Span

OUTSIDE_SHARE = 0.01
"""Share of a line's values at either end that may lie outside."""
MIN_VALUES = 20
"""A line with fewer values is shown whole."""
NEAR_SHARE = 0.5
"""Values beyond the range by at most this share of its height are shown all the same."""
ROOM_SHARE = 0.05
"""Free room above and below the lines."""


def fitting_range(lines: Sequence[Floats], *, ignore_outliers: bool) -> Span | None:
    """Return the range that suits these lines, with some room; None if they have no finite value.

    With `ignore_outliers`, it reaches from the 1st to the 99th percentile of each line, and to the values beyond that
    are near. Each line counts by itself: a validation has a hundredth of the values of the training.
    """
    finite = [line[np.isfinite(line)] for line in lines]
    finite = [line for line in finite if len(line)]
    if not finite:
        return None
    lo, hi = min(float(line.min()) for line in finite), max(float(line.max()) for line in finite)
    if ignore_outliers:
        inner = [_percentiles(line) for line in finite]
        lo, hi = min(ends[0] for ends in inner), max(ends[1] for ends in inner)
        near = NEAR_SHARE * (hi - lo)
        inside = [line[(line >= lo - near) & (line <= hi + near)] for line in finite]
        lo, hi = min(float(line.min()) for line in inside), max(float(line.max()) for line in inside)
    room = ROOM_SHARE * (hi - lo) or 0.5 * abs(hi) or 0.5
    return lo - room, hi + room


def _percentiles(line: Floats) -> Span:
    """Return values of the line itself, rounded towards its middle: one of twenty values may be an outlier too."""
    if len(line) < MIN_VALUES:
        return float(line.min()), float(line.max())
    outside = max(int(OUTSIDE_SHARE * len(line)), 1)
    ordered = np.partition(line, (outside, len(line) - 1 - outside))
    return float(ordered[outside]), float(ordered[-1 - outside])
