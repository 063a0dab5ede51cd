"""A scaling table as text: cells for people, Markdown, and CSV with all numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from core.language import tr, tr_noop
from core.runs.facts.states import RunState, state_info
from core.scaling.table import MISSING
from core.series.report import csv_table
from core.text import markdown_table
from core.units import BYTES_PER_GB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.comparison.table import Statistic
    from core.scaling.table import ScalingRow, ScalingTable

HEADINGS = (
    tr_noop("DEVICES"), tr_noop("STRATEGY"), tr_noop("BATCH"), tr_noop("SAMPLES/S"), tr_noop("SPEED-UP"),
    tr_noop("EFFICIENCY"), tr_noop("PEAK GB"), tr_noop("CURVE"), tr_noop("STATE"),
)  # fmt: skip
COLUMNS = (
    "devices", "device_ids", "strategy", "batch_size", "runs", "states", "samples_per_s", "samples_per_s_deviation",
    "speed_up", "speed_up_deviation", "efficiency", "same_curve", "first_different_step", "peak_memory_bytes",
    "peak_memory_bytes_by_device",
)  # fmt: skip
"""The columns of the CSV file."""

DIGITS = 3
"""Digits of samples per second that are shown, but all of a whole number."""


# -- for people ----------------------------------------------------------------------------------


def cells(table: ScalingTable) -> list[list[str]]:
    """Return the rows of the table, the first of them its headings."""
    return [[tr(each) for each in HEADINGS], *map(_cells, table.rows)]


def _cells(row: ScalingRow) -> list[str]:
    return [
        str(row.devices), row.spec.strategy, str(row.spec.training.batch_size), _rate(row.samples_per_s),
        _spread(row.speed_up, ".2f"), "-" if row.efficiency is None else f"{100 * row.efficiency:.0f} %", _peaks(row),
        _curve(row), _state(row),
    ]  # fmt: skip


def _rate(statistic: Statistic | None) -> str:
    if statistic is None or not statistic.mean > 0:
        return _spread(statistic, ".3g")
    places = max(0, DIGITS - 1 - math.floor(math.log10(statistic.mean)))
    return _spread(statistic, f".{places}f")  # the deviation has as many places as the mean


def _spread(statistic: Statistic | None, form: str) -> str:
    """Return `1.94`, of several runs `1.94 ± 0.02`."""
    if statistic is None:
        return "-"
    text = format(statistic.mean, form)
    return text if statistic.deviation is None else f"{text} ± {statistic.deviation:{form}}"


def _peaks(row: ScalingRow) -> str:
    """Return the peak memory per device: `1.25`, or `1.10 to 1.25` where the devices differ."""
    found = [f"{each / BYTES_PER_GB:.2f}" for each in sorted(row.peaks.values())]
    if not found:
        return "-"
    return found[0] if found[0] == found[-1] else tr("{first} to {last}", first=found[0], last=found[-1])


def _curve(row: ScalingRow) -> str:
    """Return `same`, `another`, or `same to step 812` where they part after it; `-` if the curves were not compared."""
    if row.check is None:
        return "-"
    first = row.check.first_step
    if first is None:
        return tr("same")
    return tr("same to step {step}", step=first - 1) if first > 1 else tr("another")


def _state(row: ScalingRow) -> str:
    """Return the state of the runs: `finished`, or `finished (2 of 3), failed (1 of 3)`."""
    states = [each.state for each in row.trained]
    parts = []
    for state in dict.fromkeys(states):
        label = tr("not trained") if state == MISSING else tr(state_info(RunState(state)).label).lower()
        count = states.count(state)
        whole = count == len(states)
        parts.append(label if whole else tr("{state} ({count} of {all})", state=label, count=count, all=len(states)))
    return ", ".join(parts)


# -- Markdown ------------------------------------------------------------------------------------


def markdown(table: ScalingTable) -> str:
    """Return the table in Markdown, with the sentences on what a reader should know."""
    return markdown_table(cells(table), table.notices)


# -- CSV -----------------------------------------------------------------------------------------


def csv_text(table: ScalingTable) -> str:
    """Return the table as CSV: a line for each number of devices, with all numbers unrounded and sizes in bytes.

    `..._deviation` is the standard deviation over the repeats, and `peak_memory_bytes` that of the fullest device.
    """
    return csv_table([COLUMNS, *map(_csv_row, table.rows)])


def _csv_row(row: ScalingRow) -> Iterator[object]:
    yield from (row.devices, " ".join(row.spec.devices), row.spec.strategy, row.spec.training.batch_size)
    yield " ".join(each.run_id or "-" for each in row.trained)
    yield " ".join(each.state for each in row.trained)
    for statistic in (row.samples_per_s, row.speed_up):
        yield statistic.mean if statistic else None
        yield statistic.deviation if statistic else None
    yield row.efficiency
    yield None if row.check is None else str(row.check.same).lower()
    yield None if row.check is None else row.check.first_step
    yield max(row.peaks.values(), default=None)
    yield " ".join(f"{name}={peak:.0f}" for name, peak in row.peaks.items())
