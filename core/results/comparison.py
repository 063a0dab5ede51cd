"""Runs as the rows of a table. Runs that differ only in the seed form one row; one row is the baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from core.arrays import np
from core.diagnosis.evidence import DISTURBED
from core.history.differences import differing
from core.history.summary import SEED, setting_words
from core.language import Message, tr, tr_plural
from core.results.measured_run import (
    QUANTITIES,
    MeasuredRun,
    Quantity,
    RunResult,
    Statistic,
    choose_metric,
    columns,
    highest,
    lower_is_better,
    result_of,
)
from core.schema.settings import SettingValue
from core.table import Column, Table
from core.text import one_line

Json = dict[str, Any]
MAX_COLUMN = 40
"""Characters of a setting in a cell for people."""
PATHS = frozenset({"imported", "recipe", "script", "python", "working_dir", "rules_file"})
"""Settings of which a cell shows the last part, where that tells them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far a row is from the baseline."""

    value: float
    percent: float | None
    """The value in percent of the baseline's absolute value; None if that is 0."""
    better: bool | None
    """None if neither is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A run, or runs that differ only in the seed."""

    runs: tuple[MeasuredRun, ...]
    results: tuple[RunResult, ...]
    statistics: Mapping[str, Statistic]
    """By name of the quantity (`core.results.measured_run`). Missing: no run has it."""
    differs: Mapping[str, SettingValue]
    """The settings that are not the same in all rows, and None for one that this row lacks."""
    differences: Mapping[str, Difference] | None
    """By name of the quantity; None for the baseline."""

    @property
    def seeds(self) -> tuple[SettingValue, ...]:
        """The seed of each run; None for a script that was given none."""
        return tuple(run.settings.values.get(SEED) for run in self.runs)

    @property
    def peaks(self) -> dict[str, float]:
        """The peak memory by device id, over all runs of the row."""
        return highest(each.peaks for each in self.results)

    @property
    def step_unit(self) -> str:
        """What the steps of the metric count."""
        return "epoch" if any(each.by_epoch for each in self.results) else "step"

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The different verdicts of the memory watch on its runs."""
        return tuple(dict.fromkeys(each.verdict for each in self.results if each.verdict is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A table of runs."""

    metric: str
    lower_is_better: bool
    target: float | None
    rows: tuple[Row, ...]
    baseline: int
    """The number of a row."""
    same: Mapping[str, SettingValue]
    """The settings that all runs have in common."""
    is_direction_assumed: bool = False
    """Whether neither the user nor the name of the metric says if lower values are better."""

    @property
    def notices(self) -> list[str]:
        """Sentences on what a reader of the numbers should know; they name runs by their folders."""
        return self.notices_with(lambda row: row.runs[0].id)

    def notices_with(self, name: Callable[[Row], str]) -> list[str]:
        """Return the sentences with the names that a window gives to the rows."""
        return list(_notices(self, name))

    @property
    def quantities(self) -> list[Quantity]:
        """The quantities that have a column."""
        return columns([row.statistics.keys() for row in self.rows])

    def best_row(self, quantity: Quantity) -> int | None:
        """Return the number of the row with the best value; None where no value is better than all others."""
        if not quantity.has_difference:
            return None
        found = [
            (row.statistics[quantity.name].mean, at)
            for at, row in enumerate(self.rows)
            if quantity.name in row.statistics and math.isfinite(row.statistics[quantity.name].mean)
        ]
        found.sort(reverse=not _lower_wins(quantity, lower=self.lower_is_better))
        return found[0][1] if len(found) > 1 and found[0][0] != found[1][0] else None


def compare(
    runs: Sequence[MeasuredRun], *, metric: str | None = None, baseline: str | None = None,
    target: float | None = None, lower: bool | None = None, grouped: bool = True,
) -> Comparison:
    """Compare runs.

    `metric`: None for one that most runs have. `baseline`: the id of one of the runs; None for the first. `lower`:
    whether lower values are better; None to judge by the name of the metric. `grouped`: whether runs that differ only
    in the seed form one row. Raises `RunError` with a sentence when there is no such metric, or none in common.
    """
    metric = choose_metric(runs, metric)
    by_name = lower_is_better(metric)
    lower_wins = next((each for each in (lower, by_name) if each is not None), True)
    groups = groups_of(runs) if grouped else [(run,) for run in runs]
    results = [tuple(result_of(run, metric, lower=lower_wins, target=target) for run in group) for group in groups]
    statistics = [_statistics(each) for each in results]
    chosen = next((at for at, group in enumerate(groups) if baseline in {run.id for run in group}), 0)
    names = _differing(groups)
    rows = tuple(
        Row(
            runs=group, results=results[at], statistics=statistics[at],
            differs={name: group[0].settings.shown(name) for name in names},
            differences=None if at == chosen else _differences(statistics[at], statistics[chosen], lower=lower_wins),
        )
        for at, group in enumerate(groups)
    )
    first, others = runs[0].settings, differing([run.settings.values for run in runs])
    return Comparison(
        metric=metric, lower_is_better=lower_wins, target=target, rows=rows, baseline=chosen,
        same={name: first.shown(name) for name in first.values if name not in others},
        is_direction_assumed=lower is None and by_name is None,
    )


def groups_of(runs: Sequence[MeasuredRun]) -> list[tuple[MeasuredRun, ...]]:
    """Return the runs in groups that differ only in the seed, each in the place of its first run."""
    groups: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(run.settings.group, []).append(run)
    return [tuple(group) for group in groups.values()]


def _differing(groups: Sequence[Sequence[MeasuredRun]]) -> list[str]:
    """Return the settings that are not the same in all groups, in order; the seed only if every row is a single run."""
    single = all(len(group) == 1 for group in groups)
    return [name for name in differing([group[0].settings.values for group in groups]) if single or name != SEED]


def _statistics(results: Sequence[RunResult]) -> dict[str, Statistic]:
    names = [each.name for each in QUANTITIES]
    found = {name: statistic_of([each.numbers[name] for each in results if name in each.numbers]) for name in names}
    return {name: statistic for name, statistic in found.items() if statistic is not None}


def statistic_of(values: Sequence[float]) -> Statistic | None:
    """Return mean and spread of values; None for no values."""
    if not values:
        return None
    column = np.array(values, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # of infinite values neither is defined
        mean, deviation = float(np.mean(column)), float(np.std(column, ddof=1)) if len(values) > 1 else None
    return Statistic(mean=mean, deviation=deviation, count=len(values))


def _differences(
    statistics: Mapping[str, Statistic], baseline: Mapping[str, Statistic], *, lower: bool
) -> dict[str, Difference]:
    found = {}
    for quantity in QUANTITIES:
        name = quantity.name
        if not quantity.has_difference or name not in statistics or name not in baseline:
            continue
        value, usual = statistics[name].mean, baseline[name].mean
        gap = value - usual
        lower_wins = _lower_wins(quantity, lower=lower)
        found[name] = Difference(
            value=gap,
            percent=100 * gap / abs(usual) if usual and math.isfinite(usual) else None,
            better=None if gap == 0 or math.isnan(gap) else (gap < 0) == lower_wins,
        )
    return found


def _lower_wins(quantity: Quantity, *, lower: bool) -> bool:
    """Return whether lower values of a quantity are better. `lower`: whether those of the metric are."""
    return lower if quantity.lower_is_better is None else quantity.lower_is_better


def _notices(comparison: Comparison, name: Callable[[Row], str]) -> Iterator[str]:
    metric, rows = comparison.metric, comparison.rows
    if comparison.is_direction_assumed:
        yield tr(
            "The name {metric} does not say whether lower or higher is better; lower was assumed. "
            "If higher is better, give the command compare or report the option --maximize.", metric=metric,
        )
    for row in rows:
        for run in row.runs:
            for text in (each for each in run.facts.notices if Message.read(each).say == (DISTURBED,)):
                yield tr("{run}: {sentence}", run=name(row) if len(row.runs) == 1 else run.id, sentence=text)
        lengths = {each.last_step for each in row.results}
        if len(lengths) > 1:
            steps = ", ".join("-" if each.last_step is None else str(each.last_step) for each in row.results)
            yield tr("The runs of the group of {run} have different lengths; their last values are those of steps "
                     "{steps}.", run=name(row), steps=steps)
    if len({each.by_epoch for row in rows for each in row.results if each.last_step is not None}) > 1:
        yield tr("Some runs count {metric} by epochs and others by steps: their steps of the best differ in unit.",
                 metric=metric)


# -- as text -------------------------------------------------------------------------------------


def text_table(comparison: Comparison, max_settings: int | None = None) -> Table[Row]:
    """Return the comparison as a table. `max_settings`: how many of the settings that differ people read.

    In CSV, `..._deviation` is the standard deviation of a group, `..._percent` the difference from the baseline.
    """
    grouped = any(len(row.runs) > 1 for row in comparison.rows)
    differing = list(comparison.rows[0].differs)
    columns: list[Column[Row]] = [
        Column("run", lambda row: row.runs[0].id, tr("Run")),
        Column("runs", lambda row: [run.id for run in row.runs], None),
        Column("count", lambda row: len(row.runs), tr("RUNS") if grouped else None),
        Column("name", lambda row: row.runs[0].spec.name, None),
        Column("state", lambda row: [run.facts.state.value for run in row.runs], None),
        Column("seed", lambda row: ["none" if seed is None else seed for seed in row.seeds], None),
        Column("is_baseline", lambda row: row is comparison.rows[comparison.baseline], None),
        Column("metric", lambda _: comparison.metric, None),
        Column("step_unit", lambda row: row.step_unit, None),
        Column("verdict", lambda row: row.verdicts, None),
        *(_setting_column(comparison, name, is_shown=name in differing[:max_settings]) for name in differing),
        *(column for each in QUANTITIES for column in _quantity_columns(comparison, each)),
        Column("memory", title=tr("Memory"), text=lambda row: ", ".join(map(tr, row.verdicts)) or None),
    ]
    return Table(columns, comparison.rows, [*sentences(comparison), *comparison.notices])


def _setting_column(comparison: Comparison, name: str, *, is_shown: bool) -> Column[Row]:
    return Column(
        f"setting {name}", lambda row: row.differs[name], name if is_shown else None,
        lambda row: setting_text(comparison, name, row),
    )


def _quantity_columns(comparison: Comparison, quantity: Quantity) -> list[Column[Row]]:
    name = quantity.name
    if not any(name in row.statistics for row in comparison.rows):
        return []
    title = tr(quantity.heading) if quantity in comparison.quantities else None
    return [
        Column(name, lambda row: (found := row.statistics.get(name)) and found.mean, title,
               lambda row: _value(row, quantity)),
        Column(f"{name}_deviation", lambda row: (found := row.statistics.get(name)) and found.deviation, None),
        Column(f"{name}_percent", lambda row: (found := (row.differences or {}).get(name)) and found.percent, None),
    ]


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield what the numbers mean."""
    better = tr("lower is better") if comparison.lower_is_better else tr("higher is better")
    baseline = comparison.rows[comparison.baseline].runs[0].id
    if len(comparison.rows) > 1:
        yield tr("Last and best of {metric}; {better}. Percentages are differences from {baseline}.",
                 metric=comparison.metric, better=better, baseline=baseline)
    else:
        yield tr("Last and best of {metric}; {better}.", metric=comparison.metric, better=better)
    for row in comparison.rows:
        if len(row.runs) > 1:
            yield tr("{run} stands for {runs}, which differ in nothing but the seed: mean ± standard deviation.",
                     run=row.runs[0].id, runs=", ".join(run.id for run in row.runs))


def left_out(comparison: Comparison, max_settings: int) -> Iterator[str]:
    """Yield a sentence on the settings that the table leaves out, if there are any."""
    more = len(comparison.rows[0].differs) - max_settings
    if more > 0:
        yield tr_plural(
            "{count} more setting differs; --why lists it.", "{count} more settings differ; --why lists them.", more
        )


def setting_text(comparison: Comparison, name: str, row: Row) -> str:
    """Return the value of a setting; of a path the last part, if that tells the rows apart."""
    value = row.differs[name]
    every = {str(each.differs[name]) for each in comparison.rows}
    if name in PATHS and isinstance(value, str) and len({PurePath(each).name for each in every}) == len(every):
        value = PurePath(value).name
    return one_line(setting_words(name, value), MAX_COLUMN)


def _value(row: Row, quantity: Quantity) -> str | None:
    """Return a quantity: `0.31`, of a group `0.31 ± 0.02`, and how far it is from the baseline: `0.31 (-4.2 %)`."""
    statistic = row.statistics.get(quantity.name)
    if statistic is None:
        return None
    text = quantity.text(statistic.mean) + quantity.spread_text(statistic)
    if statistic.count < len(row.runs):
        text = tr("{value} ({count} of {all})", value=text, count=statistic.count, all=len(row.runs))
    if quantity.name == "best_step":
        return tr("epoch {epoch}", epoch=text) if row.results[0].by_epoch else text
    difference = row.differences.get(quantity.name) if row.differences is not None else None
    if not quantity.is_compared or difference is None or difference.percent is None:
        return text
    return f"{text} ({round(difference.percent, 1) + 0.0:+.1f} %)"  # not -0.0


# -- as JSON -------------------------------------------------------------------------------------


def to_json(comparison: Comparison) -> Json:
    """Return the document that `compare --json` prints. Numbers that are not finite stay as they are."""
    return {
        "metric": comparison.metric, "lower_is_better": comparison.lower_is_better, "target": comparison.target,
        "baseline": comparison.baseline, "rows": [_row_to_json(row) for row in comparison.rows],
        "same": dict(comparison.same), "notices": comparison.notices,
    }


def _row_to_json(row: Row) -> Json:
    means: Json = {each.name: (found := row.statistics.get(each.name)) and found.mean for each in QUANTITIES}
    if len(row.runs) == 1:
        means["best_step"] = row.results[0].numbers.get("best_step")  # a whole number
    return {
        "runs": [run.id for run in row.runs], "n": len(row.runs),
        "names": [run.spec.name for run in row.runs], "states": [run.facts.state.value for run in row.runs],
        "seeds": list(row.seeds), "differs": dict(row.differs), **means, "step_unit": row.step_unit,
        "peak_memory_bytes": row.peaks, "verdicts": list(row.verdicts),
        "spread": {name: each.deviation for name, each in row.statistics.items()},
        "counts": {name: each.count for name, each in row.statistics.items()},
        "difference": None if row.differences is None else {
            name: {"value": each.value, "percent": each.percent, "better": each.better}
            for name, each in sorted(row.differences.items())
        },
    }
