"""A run with all that it measured, read to its end: its settings, its numbers, and why two such runs may differ.

A row of `QUANTITIES` is a column of every table: in the window, in a terminal, as Markdown, CSV and JSON. It says how
the number is found, called, written and compared.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.arrays import np
from core.config.presets import secret_names
from core.errors import RunError
from core.history.differences import differing
from core.history.index import is_run
from core.history.summary import ENVIRONMENT, LOSS, SEED, VALIDATION_LOSS, setting_values
from core.language import tr, tr_noop
from core.runs.directory import workload_text
from core.runs.facts import RunFacts, worst
from core.runs.run import Run
from core.schema.event_kinds import Plan
from core.schema.events import Event
from core.schema.settings import SettingValue
from core.schema.spec import RunSpec
from core.series.report import read_series
from core.series.run_series import RunSeries
from core.series.series import Series
from core.text import BYTES_PER_GB, duration, first_names, join_names, short

HIDDEN = "(hidden)"
"""In the place of a value that looks like a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSettings:
    """All settings of a run but its name."""

    values: Mapping[str, SettingValue]
    """See `setting_values`."""
    secrets: frozenset[str] = frozenset()
    """The names whose values look like secrets."""

    @classmethod
    def of(cls, spec: RunSpec, devices: Mapping[str, Mapping[str, Any]]) -> NamedSettings:
        """Return the settings of a run. `devices`: what the run recorded of each device, by id; may be empty."""
        secrets = frozenset(f"{ENVIRONMENT}{name}" for name in secret_names(spec))
        return cls(values=setting_values(spec, devices), secrets=secrets)

    @property
    def group(self) -> str:
        """The same text for runs that differ only in the seed, the name and the identity of their devices."""
        return json.dumps({name: value for name, value in self.values.items() if name != SEED}, sort_keys=True)

    def shown(self, name: str) -> SettingValue:
        """Return a value as it may be shown; None if there is no such setting."""
        return HIDDEN if name in self.secrets else self.values.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run as it was when it was read."""

    dir: Path
    owner: str | None
    """The user to whom it belongs if that is another one."""
    spec: RunSpec
    facts: RunFacts
    series: RunSeries
    settings: NamedSettings

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self.dir.name

    @property
    def plan(self) -> Plan | None:
        """The amount of training; None for scripts, and before the data were loaded."""
        return self.facts.plan or self.facts.earlier_plan


def read_run(run_dir: Path, take: Callable[[list[Event]], object] = len) -> MeasuredRun:
    """Read a run. Raises `RunError` or `ValueError` with a sentence, also if its folder vanishes meanwhile.

    `take` gets all events, some at a time.
    """
    with unless_removed(run_dir):
        run = Run.attach(run_dir)
        run.spec()
        return measured_run(run, read_series(run, take))


def measured_run(run: Run, series: RunSeries) -> MeasuredRun:
    """Return a run as it was read. Raises `ValueError` with a sentence if its spec cannot be used."""
    spec = run.spec()
    settings = NamedSettings.of(spec, run.facts.devices)
    return MeasuredRun(dir=run.dir, owner=run.owner, spec=spec, facts=run.facts, series=series, settings=settings)


@contextmanager
def unless_removed(run_dir: Path) -> Iterator[None]:
    """Read a run inside of this. Raises `RunError` with a sentence if its folder vanishes meanwhile."""
    try:
        yield
    except ValueError as error:
        if not is_run(run_dir):
            raise RunError(removed_sentence(run_dir)) from error
        raise
    if not is_run(run_dir):  # it may have been removed while it was read, so that a part is missing
        raise RunError(removed_sentence(run_dir))


def read_runs(run_dirs: Iterable[Path]) -> list[MeasuredRun]:
    """Read at least two different runs, in their order. Raises like `read_run`."""
    found = list(run_dirs)
    check_different(found)
    if len(found) < 2:
        raise ValueError(tr("A comparison needs at least two runs. `trainyard runs` lists them."))
    return [read_run(each) for each in found]


def check_different(run_dirs: Sequence[Path]) -> None:
    """Raise `ValueError` with a sentence if a run is among them twice."""
    twice = next((each for number, each in enumerate(run_dirs) if each in run_dirs[:number]), None)
    if twice is not None:
        raise ValueError(tr("Run {run} is named twice. Name each run once.", run=twice.name))


def removed_sentence(run_dir: Path) -> str:
    """Return the sentence on a run that is not there any more."""
    return tr("Run {run} was removed while it was compared. Compare the others again without it.", run=run_dir.name)


Pair = tuple[str | None, str | None]
"""The value of the first run and that of the second; None where it is missing or was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """What differs between two runs."""

    settings: Mapping[str, tuple[SettingValue, SettingValue]]
    packages: Mapping[str, Pair]
    """Versions by name: those of Python and Trainyard, then those of the installed packages."""
    devices: Mapping[str, Pair]
    """What differs of their devices: number and kind, ids, memory."""
    commits: Pair | None
    """The commits of the workload's folder, with `+` after one whose files were changed; None if they are the same."""
    text: tuple[str, ...]
    """The lines of a unified difference of the recipe or script; none if the texts are the same."""
    text_notice: str
    """Why there is no difference of texts, in a sentence; the empty string if they could be compared."""


def reasons(first: MeasuredRun, second: MeasuredRun) -> Reasons:
    """Return what differs between two runs. A package is compared if both runs recorded their packages."""
    names = differing([first.settings.values, second.settings.values])
    commits = _commit(first), _commit(second)
    text, notice = _text_difference(first, second)
    return Reasons(
        settings={name: (first.settings.shown(name), second.settings.shown(name)) for name in names},
        packages=differing_packages(first, second), devices=_differing(_devices(first), _devices(second)),
        commits=commits if commits[0] != commits[1] else None, text=tuple(text), text_notice=notice,
    )


def differing_packages(first: MeasuredRun, second: MeasuredRun) -> dict[str, Pair]:
    """Return the versions that differ, by name; none unless both runs recorded their packages."""
    return _differing(_packages(first), _packages(second))


def _differing(first: Mapping[str, str] | None, second: Mapping[str, str] | None) -> dict[str, Pair]:
    if first is None or second is None:
        return {}
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


def _packages(run: MeasuredRun) -> dict[str, str] | None:
    """Return the versions by name; None if the run has not recorded them."""
    software = run.facts.software
    if software is None:
        return None
    return {"Python": software.version, "Trainyard": software.trainyard, **dict(sorted(software.packages.items()))}


def _devices(run: MeasuredRun) -> dict[str, str]:
    found = {"devices": str(run.settings.values["devices"]), "ids": ", ".join(run.spec.devices)}
    memory = [run.facts.devices.get(each, {}).get("memory_total_bytes") for each in run.spec.devices]
    if any(memory):
        found["memory_total_bytes"] = ", ".join("-" if each is None else f"{each}" for each in memory)
    return found


def _commit(run: MeasuredRun) -> str | None:
    source = run.facts.source
    return None if source is None else source.commit + "+" * source.changed


def _text_difference(first: MeasuredRun, second: MeasuredRun) -> tuple[list[str], str]:
    texts = []
    for run in (first, second):
        text = workload_text(run.dir, run.spec, run.facts.started, foreign=run.owner is not None)
        if text is None:
            return [], tr("The text that run {run} trained is not known: no copy was kept, and its file has changed.",
                          run=run.id)
        texts.append(text.splitlines())
    before, after = texts
    return list(difflib.unified_diff(before, after, first.id, second.id, lineterm="")), ""


LOWER = frozenset({
    "cer", "distance", "err", "error", "fid", "kl", "loss", "mae", "mape", "mse", "nll", "perplexity", "ppl", "rmse",
    "wer",
})
"""Words in the name of a metric of which lower values are better. They count before those of `HIGHER`."""
HIGHER = frozenset({
    "acc", "accuracy", "ap", "auc", "auprc", "auroc", "bleu", "chrf", "dice", "f1", "fps", "iou", "jaccard", "kappa",
    "map", "mcc", "meteor", "miou", "mrr", "ndcg", "precision", "psnr", "r2", "recall", "return", "reward", "rouge",
    "score", "sensitivity", "specificity", "ssim", "throughput", "top1", "top5",
})
"""Words in the name of a metric of which higher values are better."""
SETTINGS = frozenset({"learning_rate"})
"""Series that say how the run was trained, not what it came to: never chosen, but compared on request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """One quantity of the runs of a row."""

    mean: float
    """NaN if one of the values is NaN."""
    deviation: float | None
    """The standard deviation of the sample (n - 1); None for a single run."""
    count: int
    """Number of runs that have the quantity."""


class NothingInCommonError(RunError):
    """No two of the runs measured the same."""


def lower_is_better(metric: str) -> bool | None:
    """Return whether lower values of a metric are better, by its name: `val_loss`, `mAP50`; None if it does not say."""
    words = re.findall(r"[a-z]+[0-9]*", metric.lower())
    words += [word.rstrip("0123456789") for word in words]
    if LOWER.intersection(words):
        return True
    return False if HIGHER.intersection(words) else None


def choose_metric(runs: Sequence[MeasuredRun], wanted: str | None = None) -> str:
    """Return the metric to compare: `wanted`, else one that most runs have, a loss of validation rather than another.

    Raises `RunError` with a sentence when no run has the wanted one, or no two runs have one in common.
    """
    # The metrics of which a run has a value that is finite.
    names = {run.id: {name for name, series in run.series.metrics.items() if series.min is not None} for run in runs}
    counts = {name: sum(name in each for each in names.values()) for each in names.values() for name in each}
    if wanted is not None:
        if any(wanted in run.series.metrics for run in runs):
            return wanted
        known = join_names(first_names(sorted(counts), 20)) or tr("nothing")
        raise RunError(tr("None of these runs measured {metric}. They measured {known}.", metric=wanted, known=known))
    shared = {name: count for name, count in counts.items() if count > 1 and name not in SETTINGS}
    if not shared:
        raise NothingInCommonError(_nothing_in_common(names))
    return min(shared, key=lambda name: (-shared[name], name != VALIDATION_LOSS, name != LOSS, name))


def _nothing_in_common(names: Mapping[str, set[str]]) -> str:
    each = [
        tr("{run} measured {metrics}", run=run, metrics=join_names(first_names(sorted(found))) or tr("nothing"))
        for run, found in names.items()
    ]
    return tr("These runs have no metric in common: {runs}. Name one of them with --metric.",
              runs=join_names(first_names(each)))


# -- what the numbers are found in ---------------------------------------------------------------


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
    )


def highest(peaks: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the most memory by device id over several runs."""
    found: dict[str, float] = {}
    for each in peaks:
        found.update({device: max(peak, found.get(device, 0.0)) for device, peak in each.items()})
    return found


def peak_memory(memory: Mapping[str, Series]) -> dict[str, float]:
    """Return the most memory in bytes by device id; a device without a reading is left out."""
    found = {device: (series, series.extreme_index(lowest=False)) for device, series in memory.items()}
    return {device: float(series.values[at]) for device, (series, at) in found.items() if at is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to."""

    run: MeasuredRun
    series: Series
    """The values of the metric; empty if the run has none."""
    by_epoch: bool
    """Whether the steps of the metric are numbers of epochs."""
    last_step: int | None
    """The step of the last value of the metric; None if there is no value."""
    best: int | None
    """The index of the best finite value."""
    reached: float | None
    """The unix time at which the metric reached the target; None also without a target."""
    rate: Throughput | None
    peaks: Mapping[str, float]
    """The most memory in bytes by device id; a device without a reading is left out."""
    verdict: str | None
    """The worst verdict of the memory watch on a device; None if there is none."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """By name of the quantity; one that the run does not have is missing. A value of the metric may be NaN."""

    @property
    def ended(self) -> float | None:
        """The unix time of the last measurement of any metric."""
        return max((float(each.times[-1]) for each in self.run.series.metrics.values() if len(each)), default=None)

    def trained_until(self, time: float | None) -> float | None:
        """Return the seconds of training until a unix time, without pauses and other interruptions; None for None."""
        return None if time is None else float(self.run.series.axes["training"].place(np.array([time]))[0])


# -- the numbers ---------------------------------------------------------------------------------

ROUNDING = 1e-9
"""A spread that is a smaller part of the mean than this comes from rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number of a run."""

    name: str
    """The key in JSON and the column in CSV."""
    heading: str
    of: Callable[[RunResult], float | None]
    """Return the number of a run; None if it has none."""
    lower_is_better: bool | None = None
    """None: as for values of the metric."""
    has_difference: bool = True
    """Whether its difference from the baseline means anything."""
    is_compared: bool = False
    """Whether the difference stands in the cell of a terminal's table, which has less room than the window."""
    write: Callable[[float], str] = short
    """Return a finite value for people, in the unit of the column."""

    def spread_text(self, statistic: Statistic) -> str:
        """Return ` ± ` and the standard deviation, of which two digits mean something; nothing for a single run."""
        if statistic.deviation is None or not math.isfinite(statistic.deviation):
            return ""
        is_rounding = statistic.deviation < ROUNDING * abs(statistic.mean)
        value = 0.0 if is_rounding else statistic.deviation
        return f" ± {self.text(float(f'{value:.2g}') if self.write in {short, _count} else value)}"

    def text(self, value: float) -> str:
        """Return a value for people, in the unit of the column."""
        return self.write(value) if math.isfinite(value) else str(value)


def _count(value: float) -> str:
    return f"{value:.6g}"


QUANTITIES = (
    Quantity(name="last", heading=tr_noop("Last"), of=lambda found: found.series.last),
    Quantity(name="best", heading=tr_noop("Best"), is_compared=True,
             of=lambda found: None if found.best is None else float(found.series.values[found.best])),
    Quantity(name="best_step", heading=tr_noop("Best at"), has_difference=False, write=_count,
             of=lambda found: None if found.best is None else int(found.series.steps[found.best])),
    Quantity(name="time_to_target_s", heading=tr_noop("To target"), lower_is_better=True, is_compared=True,
             write=duration, of=lambda found: found.trained_until(found.reached)),
    Quantity(name="samples_per_s", heading=tr_noop("Samples/s"), lower_is_better=False, is_compared=True,
             of=lambda found: found.rate.samples_per_s if found.rate else None),
    Quantity(name="steps_per_s", heading=tr_noop("Steps/s"), lower_is_better=False, is_compared=True,
             of=lambda found: found.rate.steps_per_s if found.rate else None),
    Quantity(name="training_s", heading=tr_noop("Trained"), lower_is_better=True, write=duration,
             of=lambda found: found.trained_until(found.ended)),
    Quantity(name="peak_memory_bytes", heading=tr_noop("Peak GB"), lower_is_better=True, is_compared=True,
             write=lambda value: f"{value / BYTES_PER_GB:.2f}",
             of=lambda found: max(found.peaks.values(), default=None)),
)
"""In the order of the columns."""


def result_of(run: MeasuredRun, metric: str, *, lower: bool, target: float | None) -> RunResult:
    """Return the numbers of a run. `lower`: whether lower values of the metric are better."""
    series, release = run.series.metrics.get(metric, Series()), worst(run.facts.releases.values())
    best = series.extreme_index(lowest=lower) if len(series) else None
    reached = series.first_reaching(target, below=lower) if len(series) and target is not None else None
    found = RunResult(
        run=run, series=series, by_epoch=metric in run.series.by_epoch,
        last_step=int(series.steps[-1]) if len(series) else None, best=best,
        reached=None if reached is None else float(series.times[reached]), rate=throughput(run),
        peaks=peak_memory(run.series.memory), verdict=release.verdict.value if release else None,
    )
    numbers = {each.name: each.of(found) for each in QUANTITIES}
    return replace(found, numbers={name: number for name, number in numbers.items() if number is not None})


def columns(runs: Collection[Collection[str]]) -> list[Quantity]:
    """Return the quantities that at least one run has. `runs`: for each run, the names of its quantities.

    Steps per second say nothing beside samples per second, so they are left out where every run has both.
    """
    shown = [quantity for quantity in QUANTITIES if any(quantity.name in names for names in runs)]
    if all("samples_per_s" in names for names in runs):
        shown = [quantity for quantity in shown if quantity.name != "steps_per_s"]
    return shown
