"""The numbers of one run that a comparison shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.arrays import np
from core.runs.facts.verdicts import worst

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.comparison.measured_run import MeasuredRun
    from core.series.series import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to. None: it has no such number."""

    last: float | None
    """The last value of the metric; NaN if that was not finite or missing."""
    best: float | None
    """The best finite value."""
    best_step: int | None
    """The step of the best value, or its epoch if `by_epoch`."""
    by_epoch: bool
    """Whether the steps of the metric are numbers of epochs."""
    values: int
    """How many values of the metric there are."""
    last_step: int | None
    """The step of the last value of the metric."""
    time_to_target_s: float | None
    """Seconds of training until the metric reached the target; None also without a target."""
    samples_per_s: float | None
    """Samples per second of training; None for scripts, which do not say how many samples a step has."""
    steps_per_s: float | None
    training_s: float | None
    """Seconds of training, from the first measurement to the last, without pauses and other interruptions."""
    peak_memory_bytes: Mapping[str, float]
    """By device id; a device without a reading is left out."""
    verdict: str | None
    """The worst verdict of the memory watch on a device; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """How fast a run trained in a part of it."""

    steps: int
    seconds: float
    """Seconds of training, without pauses."""
    samples_per_s: float | None
    """None for scripts."""

    @property
    def steps_per_s(self) -> float:
        """Optimizer steps per second of training."""
        return self.steps / self.seconds


def result_of(run: MeasuredRun, metric: str, *, lower: bool, target: float | None) -> RunResult:
    """Return the numbers of a run. `lower`: whether lower values of the metric are better."""
    series = run.series.metrics.get(metric)
    place = run.series.axes["training"].place
    best = series.extreme_index(lowest=lower) if series is not None else None
    reached = series.first_reaching(target, below=lower) if series is not None and target is not None else None
    ends = [float(each.times[-1]) for each in run.series.metrics.values() if len(each)]
    rate = throughput(run)
    release = worst(run.facts.releases.values())
    return RunResult(
        last=series.last if series is not None else None,
        best=None if series is None or best is None else float(series.values[best]),
        best_step=None if series is None or best is None else int(series.steps[best]),
        by_epoch=metric in run.series.by_epoch,
        values=len(series) if series is not None else 0,
        last_step=int(series.steps[-1]) if series is not None and len(series) else None,
        time_to_target_s=None if series is None or reached is None else float(place(series.times[[reached]])[0]),
        samples_per_s=rate.samples_per_s if rate else None,
        steps_per_s=rate.steps_per_s if rate else None,
        training_s=float(place(np.array([max(ends)]))[0]) if ends else None,
        peak_memory_bytes=peak_memory(run.series.memory),
        verdict=release.verdict.value if release else None,
    )


def throughput(run: MeasuredRun, *, after: int = 0) -> Throughput | None:
    """Return how fast a run trained from one measurement of its densest metric to the last one; None without two.

    `after`: the step of that measurement, such as the last one of the first epoch, which loads and compiles.
    """
    dense = [series for name, series in run.series.metrics.items() if name not in run.series.by_epoch]
    series = max(dense, key=len, default=None)
    if series is None:
        return None
    begin = int(np.searchsorted(series.steps, after))
    if len(series) - begin < 2:
        return None
    first, last = run.series.axes["training"].place(series.times[[begin, -1]]).tolist()
    steps, plan = int(series.steps[-1] - series.steps[begin]), run.plan
    if last <= first or not steps:
        return None
    return Throughput(
        steps=steps, seconds=last - first,
        samples_per_s=steps / (last - first) * plan.samples_per_epoch / plan.steps_per_epoch if plan else None,
    )  # fmt: skip


def peak_memory(memory: Mapping[str, Series]) -> dict[str, float]:
    """Return the most memory in bytes by device id; a device without a reading is left out."""
    found = {device: (series, series.extreme_index(lowest=False)) for device, series in memory.items()}
    return {device: float(series.values[at]) for device, (series, at) in found.items() if at is not None}
