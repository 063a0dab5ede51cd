"""A scaling table as one file of HTML: the table, its plot, and the report on its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.arrays import np
from core.language import tr, tr_plural
from core.reports.chart import COLOURS, Chart, Line, chart
from core.reports.page import Markup, element, page, section, table
from core.reports.run_report import header, parts, read_reported
from core.scaling.scaling_table import ScalingTable, text_table
from core.series.series import Series

PIXELS = 100
"""More columns than there are points: each of them is drawn."""


def scaling_report(found: ScalingTable, *, made: float) -> bytes:
    """Return a report on a scaling table as a file of HTML. `made`: unix seconds at which it is made.

    Raises `RunError` or `ValueError` with a sentence when a run cannot be read.
    """
    record = found.record
    folders = [record.root / run.id for row in found.rows for run in row.finished]
    runs = read_reported(folders) if folders else []
    return page(tr("Scaling table {name}", name=record.name), [
        header(tr("Scaling table {name}", name=record.name), made),
        section(tr("Result"), *_result(found)),
        *(parts(runs) if runs else []),
    ])  # fmt: skip


def _result(found: ScalingTable) -> Iterator[Markup]:
    headings, *rows = text_table(found).cells()
    record, recipe = found.record, found.record.specs[0].own_recipe
    yield element("p", tr_plural(
        "The training of {recipe} on 1, 2, ... devices; {count} training on each number.",
        "The training of {recipe} on 1, 2, ... devices; {count} trainings on each number.",
        record.repeats, recipe=recipe.name,
    ))  # fmt: skip
    yield table(tr("What each further device gains"), headings, rows)
    for notice in found.notices:
        yield element("p", notice, class_="warn")
    drawn = [chart(each.title, each.lines, PIXELS, name=each.name, along=each.along) for each in charts_of(found)]
    yield element("div", *drawn, class_="charts")


def charts_of(found: ScalingTable) -> list[Chart]:
    """Return the charts of a scaling table."""
    charts = []
    for name, title, values in curves(found):
        lines = [Line(label=title, colour=0, series=_series(values))]
        if name == SPEED_UP:
            ideal = [(row.devices, float(row.devices)) for row in found.rows]
            lines.append(Line(label=tr("Without any loss"), colour=COLOURS, series=_series(ideal)))
        charts.append(Chart(name=f"scaling-{name}", title=title, lines=lines, along=tr("devices")))
    return charts


SPEED_UP, RATE = "speed-up", "rate"


def curves(found: ScalingTable) -> list[tuple[str, str, list[tuple[int, float]]]]:
    """Return name, title and points (devices, value) of the curves of a scaling table."""
    return [
        (SPEED_UP, tr("Speed-up over one device"),
         [(row.devices, row.speed_up.mean) for row in found.rows if row.speed_up]),
        (RATE, tr("Samples per second"),
         [(row.devices, row.samples_per_s.mean) for row in found.rows if row.samples_per_s]),
    ]  # fmt: skip


def _series(points: Sequence[tuple[int, float]]) -> Series:
    series = Series()
    if points:
        steps, values = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
        series.append(steps, steps, values)
    return series
