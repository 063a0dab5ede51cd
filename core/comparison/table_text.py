"""A comparison as text: cells for people, Markdown, and CSV with all numbers."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from core.comparison.quantities import QUANTITIES
from core.history.setting_values import setting_words
from core.language import tr, tr_plural
from core.series.report import csv_table
from core.text import markdown_table, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.comparison.quantities import Quantity
    from core.comparison.table import Comparison, Row

MAX_COLUMN = 40
"""Characters of a setting in a cell for people."""
PATHS = frozenset({"imported", "recipe", "script", "python", "working_dir", "rules_file"})
"""Settings of which a cell shows the last part, where that tells them apart."""


# -- for people ----------------------------------------------------------------------------------


def cells(comparison: Comparison, max_settings: int | None = None) -> list[list[str]]:
    """Return the rows of the table, the first of them its headings. `max_settings`: how many of those that differ."""
    names = list(comparison.rows[0].differs)[:max_settings]
    quantities = comparison.quantities
    grouped = any(len(row.runs) > 1 for row in comparison.rows)
    headings = [tr("RUN"), *([tr("RUNS")] if grouped else []), *(name.upper() for name in names)]
    lines = [[*headings, *(tr(each.heading).upper() for each in quantities), tr("MEMORY")]]
    for row in comparison.rows:
        settings = [setting_text(comparison, name, row) for name in names]
        count = [str(len(row.runs))] if grouped else []
        values = [_value(row, quantity) for quantity in quantities]
        verdicts = ", ".join(tr(each) for each in row.verdicts) or "-"
        lines.append([row.runs[0].id, *count, *settings, *values, verdicts])
    return lines


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield what the numbers mean."""
    better = tr("lower is better") if comparison.lower_is_better else tr("higher is better")
    baseline = comparison.rows[comparison.baseline].runs[0].id
    if len(comparison.rows) > 1:
        yield tr("Last and best of {metric}; {better}. Percentages are differences from {baseline}.",
                 metric=comparison.metric, better=better, baseline=baseline)  # fmt: skip
    else:
        yield tr("Last and best of {metric}; {better}.", metric=comparison.metric, better=better)
    for row in comparison.rows:
        if len(row.runs) > 1:
            yield tr("{run} stands for {runs}, which differ in nothing but the seed: mean ± standard deviation.",
                     run=row.runs[0].id, runs=", ".join(run.id for run in row.runs))  # fmt: skip


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


def _value(row: Row, quantity: Quantity) -> str:
    """Return a quantity: `0.31`, of a group `0.31 ± 0.02`, and how far it is from the baseline: `0.31 (-4.2 %)`."""
    statistic = row.statistics.get(quantity.name)
    if statistic is None:
        return "-"
    text = quantity.text(statistic.mean) + quantity.spread_text(statistic)
    if statistic.count < len(row.runs):
        text = tr("{value} ({count} of {all})", value=text, count=statistic.count, all=len(row.runs))
    if quantity.name == "best_step":
        return tr("epoch {epoch}", epoch=text) if row.results[0].by_epoch else text
    difference = row.differences.get(quantity.name) if row.differences is not None else None
    if not quantity.is_compared or difference is None or difference.percent is None:
        return text
    return f"{text} ({round(difference.percent, 1) + 0.0:+.1f} %)"  # not -0.0


# -- Markdown ------------------------------------------------------------------------------------


def markdown(comparison: Comparison) -> str:
    """Return the table in Markdown, with the sentences on what it shows."""
    return markdown_table(cells(comparison), [*sentences(comparison), *comparison.notices])


# -- CSV -----------------------------------------------------------------------------------------


def csv_text(comparison: Comparison) -> str:
    """Return the table as CSV: a line for each row, with all settings that differ and all numbers unrounded.

    Sizes are in bytes and times in seconds. `..._deviation` is the standard deviation of a group, `..._percent` the
    difference from the baseline.
    """
    names = list(comparison.rows[0].differs)
    known = [each.name for each in QUANTITIES if any(each.name in row.statistics for row in comparison.rows)]
    fixed = ["run", "runs", "count", "name", "state", "seed", "is_baseline", "metric", "step_unit", "verdict"]
    numbers = [f"{name}{suffix}" for name in known for suffix in ("", "_deviation", "_percent")]
    headings = [*fixed, *(f"setting {name}" for name in names), *numbers]
    return csv_table(
        [headings, *(_csv_row(comparison, at, row, names, known) for at, row in enumerate(comparison.rows))]
    )


def _csv_row(comparison: Comparison, at: int, row: Row, names: Sequence[str], known: Sequence[str]) -> Iterator[object]:
    first = row.runs[0]
    yield from (first.id, " ".join(run.id for run in row.runs), len(row.runs), first.spec.name)
    yield " ".join(run.facts.state.value for run in row.runs)
    yield " ".join("none" if seed is None else str(seed) for seed in row.seeds)
    yield from (at == comparison.baseline, comparison.metric)
    yield "epoch" if any(each.by_epoch for each in row.results) else "step"
    yield " ".join(row.verdicts)
    yield from (row.differs[name] for name in names)
    for name in known:
        statistic = row.statistics.get(name)
        difference = None if row.differences is None else row.differences.get(name)
        yield None if statistic is None else statistic.mean
        yield None if statistic is None else statistic.deviation
        yield None if difference is None else difference.percent
