"""A report on one run, or on several with their comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import framework_title
from core.comparison.measured_run import check_different, read_run
from core.comparison.quantities import NothingInCommonError
from core.comparison.table import compare, sentences, text_table
from core.diagnosis.timeline import Timeline
from core.language import tr, tr_plural
from core.reports import sections
from core.reports.markup import Markup, element, fold, joined, table
from core.reports.page import page, section
from core.reports.sections import ReportedRun
from core.system.installation import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from core.runs.run import Run
    from core.schema.events import Event

MAX_SETTINGS = 6
"""Settings that differ and get a column in the comparison."""


def read_reported(run_dirs: Sequence[Path]) -> list[ReportedRun]:
    """Read different runs, in their order. Raises `RunError` or `ValueError` with a sentence."""
    check_different(run_dirs)
    return [_read(each) for each in run_dirs]


def _read(run_dir: Path) -> ReportedRun:
    found: list[Timeline] = []

    def listen(run: Run, events: list[Event]) -> None:
        spec = run.spec()
        timeline = Timeline(spec, framework_title(spec.framework))
        timeline.fold(events)
        timeline.follow(run.facts)
        found.append(timeline)

    measured = read_run(run_dir, listen)
    return ReportedRun(run=measured, entries=tuple(found[0].entries))


def report(
    runs: Sequence[ReportedRun], *, made: float, metric: str | None = None, baseline: str | None = None,
    target: float | None = None, lower: bool | None = None, grouped: bool = True,
) -> bytes:  # fmt: skip
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
        ))  # fmt: skip
    return page(title, [header(title, made), *parts(runs, compared, grouped=grouped)])


def header(title: str, made: float) -> Markup:
    """Return the head of a report. `made`: unix seconds at which it is made."""
    by = tr("Made by Trainyard {version} on {time}.", version=version(), time=sections.clock(made))
    return element("header", element("h1", title), element("p", by, class_="muted"))


def parts(runs: Sequence[ReportedRun], compared: Markup | None = None, *, grouped: bool = True) -> list[Markup]:
    """Return the parts of a report on runs. `compared`: their comparison, if there is one."""
    return [
        section(tr("Summary"), *sections.summary(runs)),
        section(tr("Comparison"), compared or Markup("")),
        section(tr("Curves"), *sections.curves(runs, grouped=grouped)),
        section(tr("Metrics"), _metrics(runs)),
        section(tr("Settings"), *sections.settings(runs)),
        section(tr("Environment"), *sections.environment(runs)),
        section(tr("Memory after training"), sections.memory(runs)),
        section(tr("Events"), *sections.events(runs)),
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


def _metrics(runs: Sequence[ReportedRun]) -> Markup:
    found = sections.measurements(runs)
    return found if len(runs) == 1 else fold(tr("First and last values of all runs"), found)
