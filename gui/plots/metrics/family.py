"""One metric of a run: what its ranks measured in training and in validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.series.run_series import RunSeries
from core.series.series import Axis, Series
from gui.plots.card import Span

from .ranks import mean_of, of_ranks, own_name

if TYPE_CHECKING:
    from core.series.min_max_tree import Floats

VALIDATION = "val_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric such as `loss`, and `val_loss` with it. Each list has one series for each rank that measured it."""

    name: str
    train: list[Series]
    validation: list[Series]
    unit: str
    """What its steps count: `step`, or `epoch` for a script that reports no steps."""

    @classmethod
    def of(cls, run_series: RunSeries, name: str) -> Family:
        """Return the metric of a run, empty if nothing of it was measured."""
        metrics, twin = run_series.metrics, VALIDATION + name
        unit = "epoch" if (name if name in metrics else twin) in run_series.by_epoch else "step"
        return cls(name=name, train=of_ranks(metrics, name), validation=of_ranks(metrics, twin), unit=unit)

    @property
    def every(self) -> list[Series]:
        """All its series: training first."""
        return [*self.train, *self.validation]

    @property
    def has_number(self) -> bool:
        """True if a value is finite."""
        return any(series.min is not None for series in self.every)

    @property
    def guide(self) -> Series:
        """The series that has come farthest; raises `ValueError` if there is none."""
        return max(self.every, key=lambda series: float(series.steps[-1]))

    def time_at(self, axis: Axis, x: float) -> float | None:
        """Return the unix time at which the step at a position was measured; None beyond the first and the last."""
        if not self.every:
            return None
        return _between(axis.locate(x), _along(self.guide, axis), self.guide.times)

    def place_time(self, axis: Axis, time: float) -> float | None:
        """Return the position of the step measured at a unix time; None before the first and after the last."""
        column = _between(time, self.guide.times, _along(self.guide, axis)) if self.every else None
        return None if column is None else float(axis.place(np.array([column]))[0])

    def measured_in(self, since: float | None, until: float | None) -> bool:
        """Return whether training was going on between these unix times; None: without an end."""
        if not self.every:
            return False
        first, last = self.guide.times[[0, -1]]
        return bool((since is None or since < last) and (until is None or until > first))

    def span(self, axis: Axis) -> Span:
        """Return the range from the beginning of training to the last measurement."""
        last = max(float(_along(series, axis)[-1]) for series in self.every)
        if axis.column == "time":
            return 0.0, float(axis.place(np.array([last]))[0]) or 1.0
        return 0.0, float(axis.place(np.array([max(last, 1.0)]))[0])

    def newest(self, weight: float) -> tuple[float, bool]:
        """Return the newest value of the training, and whether it is a mean: of steps (`weight` > 0) or of ranks.

        A value that is not finite is returned itself: a mean of the values before would hide it.
        """
        found = [series.mean_at(int(series.steps[-1]), weight) for series in self.train]
        means = [mean for mean in found if mean is not None]
        mean = mean_of(means)
        if np.isfinite(mean) or not self.train:
            return mean, weight > 0 or len(means) > 1
        return float(self.train[0].values[-1]), False

    def breaks(self, axis: Axis, lo: float, hi: float) -> tuple[Floats, Floats]:
        """Return where over [lo, hi] values become NaN or infinite, and the value before each, shape (n,) each."""
        x, before = [np.empty(0)], [np.empty(0)]
        for series in self.every:
            at = series.breaks(axis, lo, hi)
            x.append(axis.place(_along(series, axis)[at]))
            before.append(np.where(at > 0, series.values[at - 1], np.nan))
        return np.concatenate(x), np.concatenate(before)


def families(run_series: RunSeries) -> list[str]:
    """Return the metrics without validation twins and other ranks: the loss first, then other losses."""
    names = {own_name(name, run_series.metrics).removeprefix(VALIDATION): None for name in run_series.metrics}
    if not names.keys() - {"learning_rate"}:
        names = {"loss": None, **names}
    return sorted(names, key=lambda name: (name != "loss", "loss" not in name, name == "learning_rate"))


def _along(series: Series, axis: Axis) -> Floats:
    return series.steps if axis.column == "step" else series.times


def _between(at: float, known: Floats, wanted: Floats) -> float | None:
    """Interpolate `wanted`, shape (n,), at a place among `known`, which does not decrease; None outside it."""
    return float(np.interp(at, known, wanted)) if known[0] <= at <= known[-1] else None
