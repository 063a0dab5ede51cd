"""The table of a comparison, and why two runs differ, in rows; what stands where there are no curves."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from core.catalog.frameworks import framework_title
from core.catalog.strategies import strategy_of
from core.devices.names import short_kinds
from core.history.summary import setting_words
from core.language import tr, tr_noop, tr_plural
from core.results.comparison import MAX_COLUMN, Comparison, Difference, Row, setting_text
from core.results.measured_run import Quantity, Reasons
from core.schema.setting import settings_of
from core.schema.settings import Training
from core.text import BYTES_PER_GB, one_line
from gui.base.formatting import DASH

MAX_PEAKS = 4
"""Devices whose peak memory stands in a cell; of more, the highest alone."""
IN_PARENTHESES = re.compile(r"[(（](.+)[)）]$")
"""How the title of a strategy ends."""
MAX_SETTINGS = 8
"""Settings that differ and get a column; the text on why runs differ has all."""


OF_THE_RUN = {
    "framework": tr_noop("Framework"), "strategy": tr_noop("Strategy"), "devices": tr_noop("Devices"),
    "recipe": tr_noop("Recipe"), "script": tr_noop("Script"), "working_dir": tr_noop("Working folder"),
}
"""Titles of settings that are not those of the training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell."""

    text: str
    difference: str = ""
    """How far it is from the baseline: `+0.081 (+24.4 %)`."""
    better: bool | None = None
    """Whether that is better than the baseline; None if neither is."""
    is_best: bool = False
    """Whether it is the best of its column."""
    is_number: bool = True
    tip: str = ""

    @property
    def spoken(self) -> str:
        """What a screen reader says."""
        words = {True: tr("better"), False: tr("worse"), None: ""}[self.better] if self.difference else ""
        return ", ".join(part for part in (self.text, self.difference, words) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRows:
    """The table, ready to be shown. The first column, with the titles of the runs, is not in it."""

    headings: tuple[str, ...]
    tips: tuple[str, ...]
    """An explanation of each heading; the empty string for none."""
    rows: tuple[tuple[Cell, ...], ...]
    baseline: int
    summary: str
    """`4 settings differ, 21 are the same`."""


def comparison_rows(comparison: Comparison) -> ComparisonRows:
    """Return the cells of a comparison."""
    names = list(comparison.rows[0].differs)[:MAX_SETTINGS]
    quantities = comparison.quantities
    judged = any(row.verdicts for row in comparison.rows)
    best = {quantity.name: comparison.best_row(quantity) for quantity in quantities}
    rows = [
        (
            *(_quantity(row, each, is_best=best[each.name] == at) for each in quantities),
            *[Cell(text=", ".join(tr(each) for each in row.verdicts) or DASH, is_number=False)] * judged,
            *(_setting(comparison, name, row) for name in names),
        )
        for at, row in enumerate(comparison.rows)
    ]
    better = tr("lower is better") if comparison.lower_is_better else tr("higher is better")
    tips = {"last": f"{comparison.metric}: {better}", "best": f"{comparison.metric}: {better}"}
    return ComparisonRows(
        headings=(*(tr(each.heading) for each in quantities), *[tr("Memory")] * judged, *map(_title, names)),
        tips=(*(tips.get(each.name, "") for each in quantities),
              *[tr("Was the memory of the devices released?")] * judged, *names),
        rows=tuple(rows),
        baseline=comparison.baseline,
        summary=_summary(comparison),
    )


def _title(name: str) -> str:
    """Return the title of a setting as in the tab Settings; settings of a workload have their names."""
    titles = {**OF_THE_RUN, **{each: row.title for each, row in settings_of(Training).items()}}
    return tr(titles[name]) if name in titles else name


def _summary(comparison: Comparison) -> str:
    differ = len(comparison.rows[0].differs)
    first = tr_plural("{count} setting differs", "{count} settings differ", differ)
    return tr("{differing}, {same} are the same", differing=first, same=len(comparison.same))


def _setting(comparison: Comparison, name: str, row: Row) -> Cell:
    value = row.differs[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    brief, title = _titles(row, name)
    if name == "devices" and isinstance(value, str):
        brief = one_line(short_kinds(setting_words(name, value)), MAX_COLUMN)
    text = DASH if value is None else brief or setting_text(comparison, name, row)
    return Cell(text=text, is_number=is_number, tip=title or one_line(setting_words(name, value), 400))


def _titles(row: Row, name: str) -> tuple[str, str]:
    """Return the short and the whole title of a framework or strategy; empty strings for other settings.

    `Data parallel (DDP)` is `DDP`: the results beside it need the room.
    """
    spec = row.runs[0].spec
    if name == "framework":
        return framework_title(spec.framework), framework_title(spec.framework)
    if name != "strategy":
        return "", ""
    try:
        strategy = strategy_of(spec)
    except ValueError:  # of another version
        return spec.strategy, spec.strategy
    title = tr(strategy.title)
    found = IN_PARENTHESES.search(title) if strategy.parallel == "data" else None
    return found[1] if found is not None else title, title


def _quantity(row: Row, quantity: Quantity, *, is_best: bool) -> Cell:
    name = quantity.name
    statistic = row.statistics.get(name)
    if statistic is None:
        return Cell(text=DASH)
    text, tip = quantity.text(round(statistic.mean, 1) if name == "best_step" else statistic.mean), ""
    if name == "peak_memory_bytes" and len(row.peaks) > 1:
        tip = "\n".join(f"{device}: {quantity.text(peak)} GB" for device, peak in row.peaks.items())
        if len(row.peaks) <= MAX_PEAKS:
            text = " · ".join(f"{peak / BYTES_PER_GB:.1f}" for peak in row.peaks.values())
    elif name != "best_step":
        text += quantity.spread_text(statistic)
    if statistic.count < len(row.runs):
        text = tr("{value} ({count} of {all})", value=text, count=statistic.count, all=len(row.runs))
    if name == "best_step" and row.results[0].by_epoch:
        text = tr("epoch {epoch}", epoch=text)
    difference = None if row.differences is None else row.differences.get(name)
    cell = Cell(text=text, tip=tip, is_best=is_best)
    if difference is None:
        return cell
    return replace(cell, difference=_difference(quantity, difference), better=difference.better)


def _difference(quantity: Quantity, difference: Difference) -> str:
    """Return `+0.081 (+24.4 %)`; a difference that is not a number is left out."""
    if not math.isfinite(difference.value):
        return ""
    sign = "−" if difference.value < 0 else "+"
    text = f"{sign}{quantity.text(abs(difference.value))}" if difference.value else "±0"
    if difference.percent is None or not difference.value:
        return text
    percent = abs(difference.percent)
    return f"{text} ({sign}{percent:.3g} %)" if percent >= 1000 else f"{text} ({sign}{percent:.1f} %)"


def why_text(first: str, second: str, why: Reasons) -> list[str]:
    """Return the lines on what differs between two runs, which are named. Lines of texts begin with `+`, `-` or `@`."""
    lines = [tr("What differs between {first} and {second}:", first=first, second=second), ""]
    commits: Mapping[str, Sequence[object]] = {"": why.commits} if why.commits else {}
    recorded = (tr("Settings"), why.settings), (tr("Packages"), why.packages), (tr("Devices"), why.devices)
    groups: tuple[tuple[str, Mapping[str, Sequence[object]]], ...] = (*recorded, (tr("Commit"), commits))
    for title, found in groups:
        if found:
            lines += [title, *(_pair(name, pair) for name, pair in found.items()), ""]
    if why.text:
        lines += [tr("Recipe or script"), *why.text]
    elif why.text_notice:
        lines += [why.text_notice]
    if len(lines) == 2:
        lines.append(tr("Nothing that was recorded differs."))
    return lines


def _pair(name: str, pair: Sequence[object]) -> str:
    one, other = (DASH if value is None else one_line(setting_words(name, value), 100) for value in pair)
    return f"    {name}: {one} → {other}" if name else f"    {one} → {other}"


# -- words -----------------------------------------------------------------------------------------


NO_VALUE = tr_noop("None of these runs has a value of {metric} on this axis. Choose another metric or axis above.")


def progress_words(count: int, waiting: int) -> str:
    """Return how many runs are read; the empty string once all are."""
    return tr("{done} of {total} runs read", done=count - waiting, total=count) if waiting else ""


def empty_words(*, waiting: bool, metric: str, hidden: bool = False) -> str:
    """Return what stands where there are no curves of a metric; the empty string: nothing was measured.

    `hidden`: whether the user has hidden all lines.
    """
    if hidden:
        return tr("All lines are hidden. Click the eye of a row in the table to show its line.")
    if waiting:
        return tr("Reading the runs …")
    if not metric:
        return tr("None of these runs has measured anything.")
    return tr(NO_VALUE, metric=metric.replace("_", " "))


def hidden_notice(hidden: int) -> list[str]:
    """Return a sentence on lines that the user has hidden, if there are any."""
    if not hidden:
        return []
    return [tr_plural("{count} line is hidden: its eye shows it.", "{count} lines are hidden: eyes show them.", hidden)]


def bands_notice(hidden: int, limit: int) -> list[str]:
    """Return a sentence on groups whose bands are not drawn, if there are any. `limit`: of how many they are."""
    if not hidden:
        return []
    return [
        tr_plural(
            "{count} group has no band, since the bands of more than {limit} groups would cover each other. Select a "
            "row to see its band.",
            "{count} groups have no band, since the bands of more than {limit} groups would cover each other. Select "
            "a row to see its band.",
            hidden, limit=limit,
        )
    ]
