"""The table of a comparison as cells, and the text on why two runs differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.comparison.table_text import number_text, setting_text
from core.language import tr, tr_noop, tr_plural
from core.text import one_line, short
from core.units import BYTES_PER_GB
from gui.style.formatting import DASH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.comparison.reasons import Reasons
    from core.comparison.table import Comparison, Difference, Row

HEADINGS = {
    "last": tr_noop("Last"), "best": tr_noop("Best"), "best_step": tr_noop("Best at"),
    "time_to_target_s": tr_noop("To target"), "samples_per_s": tr_noop("Samples/s"), "steps_per_s": tr_noop("Steps/s"),
    "training_s": tr_noop("Trained"), "peak_memory_bytes": tr_noop("Peak GB"),
}  # fmt: skip
MAX_PEAKS = 4
"""Devices whose peak memory stands in a cell; of more, the highest alone."""
MAX_SETTINGS = 8
"""Settings that differ and get a column; the text on why runs differ has all."""


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
    quantities = [name for name in HEADINGS if any(name in row.statistics for row in comparison.rows)]
    if all("samples_per_s" in row.statistics for row in comparison.rows):
        quantities = [name for name in quantities if name != "steps_per_s"]
    best = {name: _best(comparison, name) for name in quantities}
    rows = [
        (
            *(_setting(comparison, name, row) for name in names),
            *(_quantity(row, name, is_best=best[name] == at) for name in quantities),
            Cell(text=", ".join(tr(each) for each in row.verdicts) or DASH, is_number=False),
        )
        for at, row in enumerate(comparison.rows)
    ]  # fmt: skip
    better = tr("lower is better") if comparison.lower_is_better else tr("higher is better")
    tips = {"last": f"{comparison.metric}: {better}", "best": f"{comparison.metric}: {better}"}
    return ComparisonRows(
        headings=(*names, *(tr(HEADINGS[each]) for each in quantities), tr("Memory")),
        tips=(*names, *(tips.get(each, "") for each in quantities), tr("Was the memory of the devices released?")),
        rows=tuple(rows),
        baseline=comparison.baseline,
        summary=_summary(comparison),
    )


def _summary(comparison: Comparison) -> str:
    differ = len(comparison.rows[0].differs)
    first = tr_plural("{count} setting differs", "{count} settings differ", differ)
    return tr("{differing}, {same} are the same", differing=first, same=len(comparison.same))


def _setting(comparison: Comparison, name: str, row: Row) -> Cell:
    value = row.differs[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    text = DASH if value is None else setting_text(comparison, name, row)
    return Cell(text=text, is_number=is_number, tip=one_line(short(value), 400))


def _quantity(row: Row, name: str, *, is_best: bool) -> Cell:
    statistic = row.statistics.get(name)
    if statistic is None:
        return Cell(text=DASH)
    text, tip = number_text(name, round(statistic.mean, 1) if name == "best_step" else statistic.mean), ""
    if name == "peak_memory_bytes" and len(row.peaks) > 1:
        tip = "\n".join(f"{device}: {number_text(name, peak)} GB" for device, peak in row.peaks.items())
        if len(row.peaks) <= MAX_PEAKS:
            text = " · ".join(f"{peak / BYTES_PER_GB:.1f}" for peak in row.peaks.values())
    elif name != "best_step" and statistic.deviation is not None and math.isfinite(statistic.deviation):
        text = f"{text} ± {number_text(name, statistic.deviation)}"
    if statistic.count < len(row.runs):
        text = tr("{value} ({count} of {all})", value=text, count=statistic.count, all=len(row.runs))
    if name == "best_step" and row.results[0].by_epoch:
        text = tr("epoch {epoch}", epoch=text)
    difference = None if row.differences is None else row.differences.get(name)
    return Cell(
        text=text, tip=tip, is_best=is_best, difference="" if difference is None else _difference(name, difference),
        better=None if difference is None else difference.better,
    )  # fmt: skip


def _difference(name: str, difference: Difference) -> str:
    """Return `+0.081 (+24.4 %)`; a difference that is not a number is left out."""
    if not math.isfinite(difference.value):
        return ""
    sign = "−" if difference.value < 0 else "+"
    text = f"{sign}{number_text(name, abs(difference.value))}" if difference.value else "±0"
    if difference.percent is None or not difference.value:
        return text
    percent = abs(difference.percent)
    return f"{text} ({sign}{percent:.3g} %)" if percent >= 1000 else f"{text} ({sign}{percent:.1f} %)"


def _best(comparison: Comparison, name: str) -> int | None:
    """Return the number of the row with the best value; None where no value is better than all others."""
    from core.comparison.table import LOWER_IS_BETTER

    if name == "best_step":
        return None
    lower = LOWER_IS_BETTER.get(name, comparison.lower_is_better)
    found = [
        (row.statistics[name].mean, at)
        for at, row in enumerate(comparison.rows)
        if name in row.statistics and math.isfinite(row.statistics[name].mean)
    ]
    found.sort(reverse=not lower)
    return found[0][1] if len(found) > 1 and found[0][0] != found[1][0] else None


# -- why -----------------------------------------------------------------------------------------


def why_text(first: str, second: str, why: Reasons) -> list[str]:
    """Return the lines on what differs between two runs, which are named. Lines of texts begin with `+`, `-` or `@`."""
    lines = [tr("What differs between {first} and {second}:", first=first, second=second), ""]
    groups: tuple[tuple[str, Mapping[str, Sequence[object]]], ...] = (
        (tr("Settings"), why.settings), (tr("Packages"), why.packages), (tr("Devices"), why.devices),
        (tr("Commit"), {"": why.commits} if why.commits else {}),
    )  # fmt: skip
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
    one, other = (DASH if value is None else one_line(short(value), 100) for value in pair)
    return f"    {name}: {one} → {other}" if name else f"    {one} → {other}"
