"""The commands `compare` and `report`: several runs as a table, and why they differ; runs as one file of HTML."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.shared import export_options
from core.cli.shared.export_options import check_file
from core.cli.shared.lookup import RUN
from core.cli.shared.output import say, say_json, say_table, warn
from core.history import index
from core.history.summary import setting_words
from core.language import tr
from core.series.report import export_bytes
from core.text import one_line

if TYPE_CHECKING:
    from core.comparison.comparison_table import Comparison
    from core.comparison.measured_run import MeasuredRun, Reasons


MAX_SETTINGS = 6
"""Settings that differ and get a column in the table; `--why` and `--json` list all of them."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `compare`."""
    add = parser.add_argument
    add("compared", metavar="RUN", nargs="+", help=tr("two runs or more, named as for `trainyard show`"))
    add_table_options(parser)
    export_options.add_table_options(add)
    add("--html", metavar="FILE", help=tr("write the report on these runs to this file (.html), as `report` does"))
    export_options.add_plot_options(add)
    export_options.add_force(add)
    add("--why", action="store_true", help=tr("show what differs: settings, text, package versions, devices"))


def add_table_options(parser: ArgumentParser) -> None:
    """Add the options that say what is compared."""
    add = parser.add_argument
    add("--metric", metavar="NAME", help=tr("the metric to compare; default: a loss that most of the runs have"))
    add("--baseline", metavar="RUN", help=tr("the run from which differences are shown; default: the first"))
    add("--target", type=float, metavar="VALUE", help=tr("show how long each run trained until it reached this value"))
    add("--no-groups", dest="grouped", action="store_const", const=False,
        help=tr("a row for each run, also for runs that differ only in the seed"))  # fmt: skip
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument(
        "--minimize", dest="lower", action="store_const", const=True,
        help=tr("lower values are better; default: judged by the name of the metric"),
    )  # fmt: skip
    direction.add_argument(
        "--maximize", dest="lower", action="store_const", const=False, help=tr("higher values are better")
    )


def find_compared(options: Namespace) -> tuple[list[Path], str | None]:
    """Return the folders of the runs to compare, and the id of the baseline. Raises `ValueError` with a sentence."""
    if options.target is not None and not math.isfinite(options.target):
        raise ValueError(tr("--target {target} is not a finite number. Give a value of the metric.",
                            target=options.target))  # fmt: skip
    folders = [index.find(options.runs, text) for text in options.compared]
    baseline = None if options.baseline is None else index.find(options.runs, options.baseline)
    if baseline is not None and baseline not in folders:
        raise ValueError(
            tr("The baseline {run} is not one of the compared runs. Name it among them, too.", run=baseline.name)
        )
    return folders, baseline.name if baseline else None


def compare_runs(options: Namespace) -> int:
    """Compare runs in a table; runs that differ only in the seed form one row."""
    from core.comparison import (
        comparison_table,
        measured_run,  # loads numpy
    )

    _check_files(options)
    folders, baseline = find_compared(options)
    runs = measured_run.read_runs(folders)
    comparison = comparison_table.compare(
        runs, metric=options.metric, baseline=baseline, target=options.target, lower=options.lower,
        grouped=options.grouped is not False,
    )  # fmt: skip
    first = comparison.rows[comparison.baseline].runs[0]
    others = [row.runs[0] for row in comparison.rows if row.runs[0] is not first]
    why = [(run, measured_run.reasons(first, run)) for run in others] if options.why else []
    _write_files(options, comparison, runs, baseline)
    if options.json:
        document = comparison_table.to_json(comparison)
        say_json({**document, "why": [_why_json(first, run, each) for run, each in why]} if options.why else document)
        return 0
    if export_options.given_files(options):
        for notice in comparison.notices:
            warn(notice)
        return 0
    _say_table(comparison)
    for run, each in why:
        _say_why(first, run, each)
    return 0


# -- the table -----------------------------------------------------------------------------------


def _say_table(comparison: Comparison) -> None:
    from core.comparison import comparison_table

    say_table(comparison_table.text_table(comparison, MAX_SETTINGS).cells())
    for sentence in (*comparison_table.sentences(comparison), *comparison_table.left_out(comparison, MAX_SETTINGS)):
        say(sentence)
    for notice in comparison.notices:
        warn(notice)


def _check_files(options: Namespace) -> None:
    """Raise `ValueError` with a sentence if a file cannot be written as it was asked for."""
    if (given := export_options.given_files(options)) and options.why and not options.json:
        raise ValueError(
            tr("--{name} writes a file, and --why prints. Leave out one of them, or add --json.", name=given[0])
        )
    export_options.check_files(options)


def _write_files(options: Namespace, comparison: Comparison, runs: Sequence[MeasuredRun], baseline: str | None) -> None:
    """Write the table, the page and the plots to the files that were asked for."""
    from core.comparison import comparison_table
    from core.reports import run_report

    export_options.write_tables(options, lambda: comparison_table.text_table(comparison))

    def page() -> bytes:
        return run_report.report(
            run_report.read_reported([run.dir for run in runs]), made=time.time(), metric=options.metric,
            baseline=baseline, target=options.target, lower=options.lower, grouped=options.grouped is not False,
        )  # fmt: skip

    export_options.write_page(options, page)
    export_options.write_plots(options, lambda: run_report.charts_of(runs, grouped=options.grouped is not False))


# -- why -----------------------------------------------------------------------------------------


def _say_why(first: MeasuredRun, second: MeasuredRun, why: Reasons) -> None:
    say("")
    say(tr("What differs between {first} and {second}:", first=first.id, second=second.id))
    groups = (
        (tr("setting"), why.settings), (tr("version"), why.packages), (tr("device"), why.devices),
        (tr("commit"), {"": why.commits} if why.commits else {}),
    )  # fmt: skip
    rows = [
        (f"  {title} {name}".rstrip(), *(one_line(setting_words(name, value), 100) for value in pair))
        for title, found in groups
        for name, pair in found.items()
    ]
    if rows:
        say_table(rows)
    if first.facts.software is None or second.facts.software is None:
        say(tr("  Package versions are not known of both runs."))
    for line in why.text:
        say(f"  {line}")
    if why.text_notice:
        say(f"  {why.text_notice}")
    if not rows and not why.text and not why.text_notice:
        say(tr("  Nothing that was recorded differs."))


def _why_json(first: MeasuredRun, second: MeasuredRun, why: Reasons) -> dict[str, Any]:
    return {
        "runs": [first.id, second.id], "settings": dict(why.settings), "packages": dict(why.packages),
        "devices": dict(why.devices), "commits": why.commits, "text": list(why.text),
        "text_notice": why.text_notice or None,
    }  # fmt: skip


TABLE_OPTIONS = ("metric", "baseline", "target", "lower", "grouped")


def add_report_options(parser: ArgumentParser) -> None:
    """Add the options of `report`."""
    parser.add_argument("compared", metavar="RUN", nargs="+", help=tr(RUN))
    parser.add_argument("--output", metavar="FILE", required=True, help=tr("write the report to this file (.html)"))
    parser.add_argument("--force", action="store_true", help=tr("replace a file that exists"))
    add_table_options(parser)


def write_report(options: Namespace) -> int:
    """Write a report on runs as one HTML file that needs no network; several runs are compared."""
    from core.reports import run_report  # loads numpy

    path = Path(options.output)
    check_file(path, force=options.force)
    folders, baseline = find_compared(options)
    if len(folders) == 1 and any(getattr(options, name) is not None for name in TABLE_OPTIONS):
        raise ValueError(
            tr(
                "--metric, --baseline, --target, --no-groups, --minimize and --maximize are for a comparison. Name a "
                "second run, or leave them out."
            )
        )
    runs = run_report.read_reported(folders)
    data = run_report.report(
        runs, made=time.time(), metric=options.metric, baseline=baseline, target=options.target, lower=options.lower,
        grouped=options.grouped is not False,
    )  # fmt: skip
    export_bytes(data, path)
    if options.json:
        say_json({"report": options.output, "runs": [each.id for each in runs], "bytes": len(data)})
    return 0
