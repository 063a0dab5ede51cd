"""The runs of a comparison and how they are drawn: single runs, and groups that differ only in the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from core.errors import RunError
from core.history.summary import LOSS, SEED, VALIDATION_LOSS
from core.language import tr
from core.results.curves import Guide, ReadingCurve, guide_of
from core.results.measured_run import MeasuredRun, choose_metric, measured_run
from core.runs.run import Run
from core.series.run_series import RunSeries
from core.text import BYTES_PER_GB
from gui.base.formatting import DASH, moment

HIDDEN_METRICS = "@"
"""In the names of metrics of other ranks than 0, which are not offered."""


@dataclass(slots=True, kw_only=True)
class ComparedRun:
    """A run that was read, with what is drawn of it. `refresh` brings it up to date."""

    measured: MeasuredRun
    guide: Guide = field(init=False)
    finite: frozenset[str] = field(init=False)
    """The metrics that have a finite value."""
    utilisation: ReadingCurve = field(init=False)
    """Percent: the mean of its devices."""
    memory: ReadingCurve = field(init=False)
    """Gigabytes: of the fullest of its devices."""

    @classmethod
    def of(cls, run: Run, series: RunSeries) -> ComparedRun:
        """Return a run that was read just now. Raises `ValueError` with a sentence if its spec cannot be used."""
        return cls(measured=measured_run(run, series))

    def __post_init__(self) -> None:
        self.refresh()

    @property
    def dir(self) -> Path:
        """Its folder."""
        return self.measured.dir

    def refresh(self) -> None:
        """Take in what was measured since."""
        series = self.measured.series
        series.prepare()
        self.guide = guide_of(self.measured)
        self.finite = frozenset(name for name, each in series.metrics.items() if each.min is not None)
        self.utilisation = ReadingCurve.of(series.utilisation, np.nanmean)
        self.memory = ReadingCurve.of(series.memory, np.nanmax, scale=float(BYTES_PER_GB))

    def title(self, now: float) -> str:
        """Return `18:03 resnet_cats`; `now` in unix seconds."""
        started, name = self.measured.facts.started, self.measured.spec.name
        return f"{moment(started, now)} {name}" if started else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the plot and one row of the table: a run, or runs that differ only in the seed."""

    number: int
    """From 1."""
    title: str
    colour: str
    """`#rrggbb`."""
    runs: tuple[ComparedRun, ...]

    label: str
    """What stands at the end of its line: `2`, or `2, n = 3` for a group."""

    @property
    def name(self) -> str:
        """Its number and title: `2  18:03 resnet_cats`, of a group with the number of runs."""
        name = f"{self.number}  {self.title}"
        return name if len(self.runs) == 1 else tr("{name}, n = {count}", name=name, count=len(self.runs))

    @property
    def tip(self) -> str:
        """The folders of its runs; of a group with their seeds."""
        if len(self.runs) == 1:
            return self.runs[0].dir.name
        seeds = [(run.dir.name, run.measured.settings.values.get(SEED)) for run in self.runs]
        lines = [tr("{run}, seed {seed}", run=run, seed=DASH if seed is None else seed) for run, seed in seeds]
        return "\n".join([tr("Runs that differ only in the seed: mean ± standard deviation"), *lines])


def entries_of(
    runs: Sequence[ComparedRun], colours: Mapping[Path, str], now: float, *, grouped: bool
) -> tuple[Entry, ...]:
    """Return the entries in the order of the runs; a group stands at its first run and has that run's colour."""
    groups: dict[str, list[ComparedRun]] = {}
    for run in runs:
        groups.setdefault(run.measured.settings.group if grouped else str(run.dir), []).append(run)
    return tuple(
        Entry(
            number=number, title=group[0].title(now), colour=colours[group[0].dir], runs=tuple(group),
            label=str(number) if len(group) == 1 else tr("{number}, n = {count}", number=number, count=len(group)),
        )
        for number, group in enumerate(groups.values(), 1)
    )


def metrics_of(runs: Sequence[ComparedRun]) -> list[str]:
    """Return the metrics that a run has, those of most runs first, and losses before others."""
    counts: dict[str, int] = {}
    for run in runs:
        for name in run.measured.series.metrics:
            counts[name] = counts.get(name, 0) + 1
    own = [name for name in counts if name.partition(HIDDEN_METRICS)[0] not in counts or HIDDEN_METRICS not in name]
    return sorted(own, key=lambda name: (-counts[name], name == "learning_rate", "loss" not in name, name))


def usual_metric(runs: Sequence[ComparedRun], metrics: Sequence[str]) -> str:
    """Return the metric to draw at first: that which the command would compare, also before it has two runs."""
    try:
        return choose_metric([run.measured for run in runs])
    except RunError:
        return next((name for name in (VALIDATION_LOSS, LOSS) if name in metrics), metrics[0])


class ColourNumbers:
    """Gives each run the number of a colour that it keeps while the window is open: the first that is free."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._numbers: dict[Path, int] = {}

    def of(self, run_dirs: Sequence[Path]) -> dict[Path, int]:
        """Return the numbers of these runs. They repeat only where there are more runs than colours."""
        used = [self._numbers[each] % self._count for each in run_dirs if each in self._numbers]
        has_enough, taken = len(run_dirs) <= self._count, set[int]()
        for each in run_dirs:
            number = self._numbers.get(each)
            if number is None or (has_enough and number in taken):  # another run before this one has its colour
                number = min(range(self._count), key=lambda one: (used.count(one), one))
                self._numbers[each] = number
                used.append(number)
            taken.add(number)
        return {each: self._numbers[each] for each in run_dirs}
