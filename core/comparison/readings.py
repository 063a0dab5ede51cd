"""The readings of all devices of a run as one curve, which can be averaged over any interval of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.arrays import np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.series.min_max_tree import Floats
    from core.series.series import Series

HELD_PERIODS = 3.0
"""A reading holds on for this many of the usual times between two readings; after that there is none."""


class ReadingCurve:
    """Readings by time, with their sums so far: the mean of an interval is a difference of two of them.

    That is exact enough for percent and gigabytes; sums of losses, of which one may be 1e30, need `RangeTree`.
    """

    def __init__(self, times: Floats, values: Floats) -> None:
        """`times` in unix seconds, rising; `values` may be NaN; shape (n,) each."""
        self.times, self.values = times, values
        finite = np.isfinite(values)
        self._sums = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
        self._counts = np.concatenate([[0], np.cumsum(finite)])
        self._held_s = HELD_PERIODS * float(np.median(np.diff(times))) if len(times) > 1 else 0.0

    @classmethod
    def of(cls, devices: Mapping[str, Series], combine: Callable[..., Floats], scale: float = 1.0) -> ReadingCurve:
        """Return the curve of several devices. `combine`: a reduction such as `np.nanmean`; `scale`: a divisor."""
        columns = [series for series in devices.values() if len(series) and series.min is not None]
        if not columns:
            return cls(np.empty(0), np.empty(0))
        guide = max(columns, key=len)
        values = [each.values if len(each) == len(guide) else _like(each, guide) for each in columns]
        together = _reduced(values, combine) if len(values) > 1 else values[0]
        return cls(guide.times, together / scale)

    def __len__(self) -> int:
        return len(self.times)

    def means(self, borders: Floats) -> Floats:
        """Return the mean of each interval between unix times, shape (n + 1,) -> (n,); NaN without a reading.

        It is NaN, too, if a border is: the interval reaches beyond what the axis knows.

        In an interval between two readings, the earlier one holds on for a while.
        """
        edges = np.searchsorted(self.times, borders)
        starts, stops = edges[:-1], edges[1:]
        counts = self._counts[stops] - self._counts[starts]
        sums = self._sums[stops] - self._sums[starts]
        means: Floats = np.divide(sums, counts, out=np.full(len(starts), np.nan), where=counts > 0)
        means[~np.isfinite(borders[:-1] + borders[1:])] = np.nan  # beyond the training: readings of before or after it
        if len(self.times) and not counts.all():
            last = np.maximum(starts - 1, 0)
            with np.errstate(invalid="ignore"):
                held = (starts == stops) & (starts > 0) & (borders[:-1] - self.times[last] <= self._held_s)
            means[held] = self.values[last[held]]
        return means

    def nearest(self, time: float) -> float | None:
        """Return the reading nearest to a unix time; None if there is none, or if it was not readable."""
        if not len(self.times):
            return None
        right = min(int(np.searchsorted(self.times, time)), len(self.times) - 1)
        left = max(right - 1, 0)
        found = float(self.values[left if time - self.times[left] < self.times[right] - time else right])
        return found if np.isfinite(found) else None


def _like(series: Series, guide: Series) -> Floats:
    """Return the readings of a device at the times of another one."""
    place = np.minimum(np.searchsorted(series.times, guide.times), len(series) - 1)
    found: Floats = np.where(guide.times <= series.times[-1], series.values[place], np.nan)
    return found


def _reduced(values: Sequence[Floats], combine: Callable[..., Floats]) -> Floats:
    """Reduce the readings of each moment; NaN where no device has one."""
    table = np.array(values)
    found = np.full(table.shape[1], np.nan)
    known = np.isfinite(table).any(axis=0)
    found[known] = combine(table[:, known], axis=0)
    return found
