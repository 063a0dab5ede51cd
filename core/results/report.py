"""A report as one file of HTML: on one run, on several with their comparison, or on a scaling table.

It has results, curves, settings, environment, memory and events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.arrays import np
from core.catalog.frameworks import framework_title
from core.devices.names import shown_name
from core.diagnosis.timeline import Timeline, TimelineEntry
from core.history.summary import LOSS, VALIDATION_LOSS, setting_words
from core.language import tr, tr_noop, tr_plural
from core.results import scaling_table
from core.results.chart import COLOURS, INNER_WIDTH, Chart, Line, chart
from core.results.comparison import compare, groups_of, sentences, text_table
from core.results.measured_run import (
    SETTINGS,
    MeasuredRun,
    NothingInCommonError,
    check_different,
    differing_packages,
    read_run,
    result_of,
    unless_removed,
)
from core.results.page import Markup, element, fold, joined, page, section, table
from core.results.scaling_table import ScalingTable
from core.runs.facts import state_info
from core.schema.spec import read_spec
from core.series.run_series import loss_of
from core.series.series import Axis, Series
from core.system.installation import version
from core.text import BYTES_PER_GB, duration, join_names, short, size

MAX_SETTINGS = 6
"""Settings that differ and get a column in the comparison."""
MAX_CHARTS = 40
MAX_ROWS = 1000
"""Rows of the tables of metrics, packages and events, over all runs."""
MAX_COLUMNS = 100_000
"""Pixel columns of all curves together: they take about 15 bytes each."""
MIN_COLUMNS = 30
BAND_LINES = 3
"""As how many curves the mean of a group and its band count, beside those of its runs."""
FIRST = (LOSS, VALIDATION_LOSS)
"""Metrics whose curves come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """A run with what happened in it."""

    run: MeasuredRun
    entries: tuple[TimelineEntry, ...]

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self.run.id


def read_reported(run_dirs: Sequence[Path]) -> list[ReportedRun]:
    """Read different runs, in their order. Raises `RunError` or `ValueError` with a sentence."""
    check_different(run_dirs)
    found = []
    for each in run_dirs:
        with unless_removed(each):
            spec = read_spec(each)
        timeline = Timeline(spec, framework_title(spec.framework))
        measured = read_run(each, timeline.fold)
        timeline.follow(measured.facts)
        found.append(ReportedRun(run=measured, entries=tuple(timeline.entries)))
    return found


def report(
    runs: Sequence[ReportedRun], *, made: float, metric: str | None = None, baseline: str | None = None,
    target: float | None = None, lower: bool | None = None, grouped: bool = True,
) -> bytes:
    """Return a report as a file of HTML.

    `made`: unix seconds at which it is made. The others are those of `compare`, which are of use for several runs.
    Raises `RunError` with a sentence when no run has the metric.
    """
    if len(runs) == 1:
        title = tr("Report on {run}", run=runs[0].id)
    else:
        title = tr_plural("Report on {count} run", "Report on {count} runs", len(runs))
    compared = Markup("")
    if len(runs) > 1:
        compared = joined(_comparison(
            runs, metric=metric, baseline=baseline, target=target, lower=lower, grouped=grouped
        ))
    return page(title, [header(title, made), *parts(runs, compared, grouped=grouped)])


def header(title: str, made: float) -> Markup:
    """Return the head of a report. `made`: unix seconds at which it is made."""
    by = tr("Made by Trainyard {version} on {time}.", version=version(), time=clock(made))
    return element("header", element("h1", title), element("p", by, class_="muted"))


def parts(runs: Sequence[ReportedRun], compared: Markup | None = None, *, grouped: bool = True) -> list[Markup]:
    """Return the parts of a report on runs. `compared`: their comparison, if there is one."""
    metrics = measurements(runs)
    return [
        section(tr("Summary"), *summary(runs)),
        section(tr("Comparison"), compared or Markup("")),
        section(tr("Curves"), *curves(runs, grouped=grouped)),
        section(tr("Metrics"), metrics if len(runs) == 1 else fold(tr("First and last values of all runs"), metrics)),
        section(tr("Settings"), *settings(runs)),
        section(tr("Environment"), *environment(runs)),
        section(tr("Memory after training"), memory(runs)),
        section(tr("Events"), *events(runs)),
    ]


def _comparison(runs: Sequence[ReportedRun], **choices: Any) -> Iterator[Markup]:  # noqa: ANN401 (those of `compare`)
    """Yield the table of the runs; a sentence if they have no metric in common."""
    try:
        found = compare([each.run for each in runs], **choices)
    except NothingInCommonError as error:
        yield element("p", str(error), class_="warn")
        return
    headings, *rows = text_table(found, MAX_SETTINGS).cells()
    yield table(tr("Comparison of the runs"), headings, rows)
    for sentence in sentences(found):
        yield element("p", sentence)
    if len(found.rows[0].differs) > MAX_SETTINGS:
        yield element("p", tr("More settings differ; they are listed below."))
    for notice in found.notices:
        yield element("p", notice, class_="warn")


def clock(at: float | None) -> str:
    """Return a time of unix seconds as people here write it; `-` for none, and for one that no calendar has."""
    try:
        return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return "-"


def facts_table(caption: str, runs: Sequence[ReportedRun], facts: Sequence[Mapping[str, str]]) -> Markup:
    """Return named facts as a table: a single run has a row for each fact, several runs have a row each."""
    if len(runs) == 1:
        return table(caption, [tr("What"), tr("Value")], list(facts[0].items()))
    names = list(dict.fromkeys(name for each in facts for name in each))
    rows = [[run.id, *(each.get(name, "-") for name in names)] for run, each in zip(runs, facts, strict=True)]
    return table(caption, [tr("Run"), *names], rows)


# -- what they came to ---------------------------------------------------------------------------


def summary(runs: Sequence[ReportedRun]) -> Iterator[Markup]:
    """Yield a table of the runs, and what went wrong."""
    yield facts_table(tr("The runs"), runs, [_summary(each.run) for each in runs])
    for each in runs:
        facts = each.run.facts
        notes = [("bad", facts.error)] if facts.error else []
        notes += [("warn", text) for text in facts.warnings]
        for tone, text in notes:
            yield element("p", element("strong", each.id), ": ", tr(text), class_=tone)


def _summary(run: MeasuredRun) -> dict[str, str]:
    facts, numbers = run.facts, result_of(run, LOSS, lower=True, target=None).numbers
    found = {
        tr("Name"): run.spec.name,
        tr("State"): tr(state_info(facts.state).label),
        tr("Started"): clock(facts.started),
        tr("Ended"): clock(facts.ended),
        tr("Trained"): duration(numbers["training_s"]) if "training_s" in numbers else "-",
        tr("Steps"): str(facts.step),
        tr("Loss"): loss.words() if (loss := loss_of(run.series, facts)) else "-",
        tr("Steps per second"): short(numbers.get("steps_per_s")),
        tr("Samples per second"): short(numbers.get("samples_per_s")),
    }
    if run.spec.imported:
        found[tr("Imported from")] = run.spec.imported
    else:
        found |= {
            tr("Recipe or script"): str(run.settings.values.get("script") or run.settings.values.get("recipe")),
            tr("Framework"): framework_title(run.spec.framework) or tr("script"),
            tr("Strategy"): run.spec.strategy,
        }
    return found | ({tr("Owner"): run.owner} if run.owner else {})


def measurements(runs: Sequence[ReportedRun]) -> Markup:
    """Return a table with the first and the last value of each metric, and its range."""
    rows = []
    for each in runs:
        for name in _ordered(each.run.series.metrics):
            series = each.run.series.metrics[name]
            finite = series.values[np.isfinite(series.values)]
            ends = (float(finite.min()), float(finite.max())) if len(finite) else (None, None)
            rows.append([each.id, name, str(len(series)), *map(short, (series.first, series.last, *ends))])
    headings = [tr("Run"), tr("Metric"), tr("Values"), tr("First"), tr("Last"), tr("Smallest"), tr("Largest")]
    return joined([table(tr("All metrics"), headings, rows[:MAX_ROWS]), _left_out(len(rows) - MAX_ROWS)])


def _left_out(count: int) -> Markup:
    if count <= 0:
        return Markup("")
    return element("p", tr_plural("{count} more row is left out.", "{count} more rows are left out.", count),
                   class_="muted")


# -- curves --------------------------------------------------------------------------------------


def curves(runs: Sequence[ReportedRun], *, grouped: bool = True) -> Iterator[Markup]:
    """Yield a chart for each metric; of a single run a chart for each metric and its validation, and its devices.

    `grouped`: whether runs that differ only in the seed are one line, with a band.
    """
    charts = _metric_charts([each.run for each in runs], grouped=grouped)
    shown, more = charts[:MAX_CHARTS], len(charts) - MAX_CHARTS
    if len(runs) == 1:
        shown += _device_charts(runs[0].run)
    count = sum(BAND_LINES + len(line.group) if len(line.group) > 1 else 1 for each in shown for line in each.lines)
    columns = max(MIN_COLUMNS, min(INNER_WIDTH, MAX_COLUMNS // max(count, 1)))
    drawn = [chart(each.title, each.lines, columns, name=f"chart-{at}", along=each.along)
             for at, each in enumerate(shown)]
    if any(drawn):
        yield element("div", *drawn, class_="charts")
    if more > 0:
        yield element("p", tr_plural(
            "{count} more metric has no chart; the table of all metrics has it.",
            "{count} more metrics have no chart; the table of all metrics has them.", more,
        ), class_="muted")


def charts_of(runs: Sequence[MeasuredRun], *, grouped: bool = True) -> list[Chart]:
    """Return all charts of a report, also those for which a page has no room."""
    return [*_metric_charts(runs, grouped=grouped), *(_device_charts(runs[0]) if len(runs) == 1 else ())]


def _metric_charts(runs: Sequence[MeasuredRun], *, grouped: bool) -> list[Chart]:
    """Return a chart for each metric; of a single run, a metric and its validation share one."""
    if len(runs) == 1:
        return _own_charts(runs[0])
    groups = groups_of(runs) if grouped else [(run,) for run in runs]
    charts = []
    for name in _ordered(dict.fromkeys(name for each in runs for name in each.series.metrics)):
        lines = []
        for colour, members in enumerate(groups):
            found = [run for run in members if len(run.series.metrics.get(name, ()))]
            if found:
                series, label = [run.series.metrics[name] for run in found], found[0].id
                if len(found) > 1:
                    label = tr("{run}, mean of {count} runs", run=label, count=len(found))
                lines.append(Line(label=label, colour=colour, series=max(series, key=len), group=series))
        if lines:
            by_epoch = {name in run.series.by_epoch for run in runs if len(run.series.metrics.get(name, ()))}
            along = tr("epochs") if by_epoch == {True} else tr("steps")
            charts.append(Chart(name=name, title=name, lines=lines, along=along))
    return charts


def _own_charts(run: MeasuredRun) -> list[Chart]:
    """Return the charts of a single run."""
    found: dict[tuple[str, bool], list[Line]] = {}
    for name in _ordered(run.series.metrics):
        if len(run.series.metrics[name]):
            # Epochs and steps of one run do not go on one axis.
            shared = name.partition("@")[0].removeprefix("val_"), name in run.series.by_epoch
            lines = found.setdefault(shared, [])
            lines.append(Line(label=name, colour=len(lines), series=run.series.metrics[name]))
    return [
        Chart(name=lines[0].label, title=lines[0].label, lines=lines, along=tr("epochs") if by_epoch else tr("steps"))
        for (_, by_epoch), lines in found.items()
    ]


def _ordered(names: Mapping[str, object]) -> list[str]:
    """Return metrics with the losses first and settings last."""
    return sorted(names, key=lambda name: (name not in FIRST, name in SETTINGS, name))


def _device_charts(run: MeasuredRun) -> list[Chart]:
    along, unit = next((tr(name), seconds) for name, seconds, enough in _UNITS if run.series.duration_s >= enough)
    axis = Axis(column="time", origin=run.series.started or 0.0, unit=unit)
    charts = []
    for name, title, every, divisor in (
        ("utilisation", tr("Utilisation of the devices in %"), run.series.utilisation, 1.0),
        ("memory", tr("Memory of the devices in GB"), run.series.memory, float(BYTES_PER_GB)),
    ):
        lines = [
            Line(label=_label(run, device), colour=at, series=series, axis=axis, unit=divisor)
            for at, (device, series) in enumerate(every.items())
        ]
        charts.append(Chart(name=f"device-{name}", title=title, lines=lines, along=along))
    return charts


_UNITS = (
    (tr_noop("hours since the start"), 3600.0, 7200.0),
    (tr_noop("minutes since the start"), 60.0, 120.0),
    (tr_noop("seconds since the start"), 1.0, 0.0),
)
"""Names, seconds, and from how many seconds of a run on."""


def _label(run: MeasuredRun, device: str) -> str:
    return str(run.facts.devices.get(device, {}).get("label") or device)


# -- settings and environment --------------------------------------------------------------------


def settings(runs: Sequence[ReportedRun]) -> Iterator[Markup]:
    """Yield the settings that differ, a column for each run, and those that all runs have."""
    every = [each.run.settings for each in runs]
    names = list(dict.fromkeys(name for each in every for name in each.values))
    same = [name for name in names if len({repr(each.values.get(name)) for each in every}) == 1]
    headings = [tr("Setting"), *(each.id for each in runs)]
    rows = [[name, *(setting_words(name, each.shown(name)) for each in every)] for name in names if name not in same]
    yield table(tr("Settings that differ"), headings, rows)
    shared = [[name, setting_words(name, every[0].shown(name))] for name in same]
    common = table(tr("Settings"), [tr("Setting"), tr("Value")], shared)
    yield common if len(runs) == 1 else fold(tr("Settings that all runs have"), common)


def environment(runs: Sequence[ReportedRun]) -> Iterator[Markup]:
    """Yield Python, packages, commit and devices of each run."""
    yield facts_table(tr("Software and devices"), runs, [_environment(each.run) for each in runs])
    first = runs[0].run
    if first.facts.software is not None and first.facts.software.packages:
        packages = sorted(first.facts.software.packages.items())
        title = tr_plural("{count} package of {run}", "{count} packages of {run}", len(packages), run=first.id)
        yield fold(title, element("p", ", ".join(f"{name} {version}" for name, version in packages)))
    rows = [
        [each.id, name, *(value or "-" for value in pair)]
        for each in runs[1:]
        for name, pair in differing_packages(first, each.run).items()
    ]
    headings = [tr("Run"), tr("Package"), tr("Version of {run}", run=first.id), tr("Version of this run")]
    yield joined([table(tr("Packages that differ"), headings, rows[:MAX_ROWS]), _left_out(len(rows) - MAX_ROWS)])


def _environment(run: MeasuredRun) -> dict[str, str]:
    software, source = run.facts.software, run.facts.source
    if run.spec.imported:
        return {"Python": tr("not recorded")}
    found = {"Python": software.version if software else tr("not recorded"), tr("Interpreter"): run.spec.python}
    if software is not None and software.trainyard:
        found["Trainyard"] = software.trainyard
    if source is not None:
        state = tr("with uncommitted changes") if source.changed else tr("nothing uncommitted")
        found[tr("Git commit")] = f"{source.commit or tr('no commit yet')} ({state})"
    return found | {tr("Devices"): join_names(_device(run, each) for each in run.spec.devices)}


def _device(run: MeasuredRun, device: str) -> str:
    known = run.facts.devices.get(device, {})
    memory = known.get("memory_total_bytes")
    name = shown_name(str(known.get("name") or device))
    room = f", {size(memory)}" if isinstance(memory, int) and memory > 0 else ""
    return f"{_label(run, device)} ({name}{room})"


# -- memory and events ---------------------------------------------------------------------------


def memory(runs: Sequence[ReportedRun]) -> Markup:
    """Return what became of the memory of each device after the end."""
    rows = []
    for each in runs:
        for device, found in each.run.facts.releases.items():
            amounts = (found.before_bytes, found.peak_bytes, found.after_bytes)
            rows.append([
                each.id, _label(each.run, device), tr(found.verdict.value),
                *("-" if amount is None else size(amount) for amount in amounts), duration(found.seconds),
                tr(found.sentence),
            ])
    headings = [
        tr("Run"), tr("Device"), tr("Verdict"), tr("Before"), tr("Peak"), tr("After"), tr("Time after the end"),
        tr("In words"),
    ]
    return table(tr("Memory of the devices before, during and after the run"), headings, rows)


def events(runs: Sequence[ReportedRun]) -> Iterator[Markup]:
    """Yield what happened in each run; of many runs the newest events of each."""
    limit = max(MAX_ROWS // len(runs), 10)
    for each in runs:
        shown = each.entries[-limit:]
        rows = [[clock(entry.time), element("span", entry.text, class_=entry.tone)] for entry in shown]
        content = table(tr("Events of {run}", run=each.id), [tr("Time"), tr("Event")], rows)
        before = len(each.entries) - len(shown)
        sentence = tr_plural("{count} earlier event is left out.", "{count} earlier events are left out.", before)
        left = element("p", sentence, class_="muted") if before else Markup("")
        yield fold(each.id, content, left, is_open=len(runs) == 1) if rows else Markup("")


# -- a scaling table -----------------------------------------------------------------------------

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
    ])


def _result(found: ScalingTable) -> Iterator[Markup]:
    headings, *rows = scaling_table.text_table(found).cells()
    record, recipe = found.record, found.record.specs[0].own_recipe
    yield element("p", tr_plural(
        "The training of {recipe} on 1, 2, ... devices; {count} training on each number.",
        "The training of {recipe} on 1, 2, ... devices; {count} trainings on each number.",
        record.repeats, recipe=recipe.name,
    ))
    yield table(tr("What each further device gains"), headings, rows)
    for notice in found.notices:
        yield element("p", notice, class_="warn")
    drawn = [chart(each.title, each.lines, PIXELS, name=each.name, along=each.along) for each in scaling_charts(found)]
    yield element("div", *drawn, class_="charts")


def scaling_charts(found: ScalingTable) -> list[Chart]:
    speed_ups = [(row.devices, row.speed_up.mean) for row in found.rows if row.speed_up]
    rates = [(row.devices, row.samples_per_s.mean) for row in found.rows if row.samples_per_s]
    ideal = [(row.devices, float(row.devices)) for row in found.rows]
    speed_up, rate = tr("Speed-up over one device"), tr("Samples per second")
    lines = [
        Line(label=speed_up, colour=0, series=_series(speed_ups)),
        Line(label=tr("Without any loss"), colour=COLOURS, series=_series(ideal)),
    ]
    return [
        Chart(name="scaling-speed-up", title=speed_up, lines=lines, along=tr("devices")),
        Chart(name="scaling-rate", title=rate, lines=[Line(label=rate, colour=0, series=_series(rates))],
              along=tr("devices")),
    ]


def _series(points: Sequence[tuple[int, float]]) -> Series:
    series = Series()
    if points:
        steps, values = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
        series.append(steps, steps, values)
    return series
