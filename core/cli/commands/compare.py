"""The command `compare`: several runs as a table, and why they differ."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from core.cli.output import say, say_json, say_table, short, warn
from core.language import tr, tr_noop, tr_plural
from core.runs import index
from core.text import one_line
from core.units import BYTES_PER_GB, duration

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from core.comparison.measured_run import MeasuredRun
    from core.comparison.reasons import Reasons
    from core.comparison.table import Comparison, Row

MAX_SETTINGS = 6
"""Settings that differ and get a column in the table; `--why` and `--json` list all of them."""
MAX_COLUMN = 40
"""Characters of a setting in the table."""
PATHS = frozenset({"recipe", "script", "python", "working_dir", "rules_file"})
"""Settings of which the table shows the last part, where that tells them apart."""
HEADINGS = {
    "last": tr_noop("LAST"), "best": tr_noop("BEST"), "best_step": tr_noop("AT"),
    "time_to_target_s": tr_noop("TO TARGET"), "samples_per_s": tr_noop("SAMPLES/S"), "steps_per_s": tr_noop("STEPS/S"),
    "training_s": tr_noop("TRAINED"), "peak_memory_bytes": tr_noop("PEAK GB"),
}  # fmt: skip
COMPARED = ("best", "time_to_target_s", "samples_per_s", "steps_per_s", "peak_memory_bytes")
"""The quantities whose difference from the baseline stands behind them in the table."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `compare`."""
    add = parser.add_argument
    add("compared", metavar="RUN", nargs="+", help=tr("two runs or more, named as for `trainyard show`"))
    add("--metric", metavar="NAME", help=tr("the metric to compare; default: a loss that most of the runs have"))
    add("--baseline", metavar="RUN", help=tr("the run from which differences are shown; default: the first"))
    add("--target", type=float, metavar="VALUE", help=tr("show how long each run trained until it reached this value"))
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument(
        "--minimize", dest="lower", action="store_const", const=True,
        help=tr("lower values are better; default: judged by the name of the metric"),
    )  # fmt: skip
    direction.add_argument(
        "--maximize", dest="lower", action="store_const", const=False, help=tr("higher values are better")
    )
    add("--why", action="store_true", help=tr("show what differs: settings, text, package versions, devices"))


def compare_runs(options: Namespace) -> int:
    """Compare runs in a table; runs that differ only in the seed form one row."""
    from core.comparison import measured_run, reasons, table  # loads numpy

    if options.target is not None and not math.isfinite(options.target):
        raise ValueError(tr("--target {target} is not a finite number. Give a value of the metric.",
                            target=options.target))  # fmt: skip
    folders = [index.find(options.runs, text) for text in options.compared]
    baseline = None if options.baseline is None else index.find(options.runs, options.baseline)
    if baseline is not None and baseline not in folders:
        raise ValueError(
            tr("The baseline {run} is not one of the compared runs. Name it among them, too.", run=baseline.name)
        )
    runs = measured_run.read_runs(folders)
    comparison = table.compare(
        runs, metric=options.metric, baseline=baseline.name if baseline else None, target=options.target,
        lower=options.lower,
    )  # fmt: skip
    first = comparison.rows[comparison.baseline].runs[0]
    others = [row.runs[0] for row in comparison.rows if row.runs[0] is not first]
    why = [(run, reasons.reasons(first, run)) for run in others] if options.why else []
    if options.json:
        document = table.to_json(comparison)
        say_json({**document, "why": [_why_json(first, run, each) for run, each in why]} if options.why else document)
        return 0
    _say_table(comparison)
    for run, each in why:
        _say_why(first, run, each)
    return 0


# -- the table -----------------------------------------------------------------------------------


def _say_table(comparison: Comparison) -> None:
    names = list(comparison.rows[0].differs)
    quantities = [name for name in HEADINGS if any(name in row.statistics for row in comparison.rows)]
    if "samples_per_s" in quantities and all("samples_per_s" in row.statistics for row in comparison.rows):
        quantities.remove("steps_per_s")
    grouped = any(len(row.runs) > 1 for row in comparison.rows)
    headings = [tr("RUN"), *([tr("RUNS")] if grouped else []), *(name.upper() for name in names[:MAX_SETTINGS])]
    lines = [[*headings, *(tr(HEADINGS[name]) for name in quantities), tr("MEMORY")]]
    for row in comparison.rows:
        settings = [_setting(comparison, name, row) for name in names[:MAX_SETTINGS]]
        count = [str(len(row.runs))] if grouped else []
        values = [_value(row, name) for name in quantities]
        verdicts = ", ".join(tr(each) for each in row.verdicts) or "-"
        lines.append([row.runs[0].id, *count, *settings, *values, verdicts])
    say_table(lines)
    for sentence in _sentences(comparison):
        say(sentence)
    for notice in comparison.notices:
        warn(notice)


def _setting(comparison: Comparison, name: str, row: Row) -> str:
    """Return the value of a setting; of a path the last part, if that tells the rows apart."""
    value = row.differs[name]
    every = {str(each.differs[name]) for each in comparison.rows}
    if name in PATHS and isinstance(value, str) and len({PurePath(each).name for each in every}) == len(every):
        value = PurePath(value).name
    return one_line(short(value), MAX_COLUMN)


def _value(row: Row, name: str) -> str:
    """Return a quantity: `0.31`, of a group `0.31 ± 0.02`, and how far it is from the baseline: `0.31 (-4.2 %)`."""
    statistic = row.statistics.get(name)
    if statistic is None:
        return "-"
    text = _number(name, statistic.mean)
    if statistic.deviation is not None:
        text = f"{text} ± {_number(name, statistic.deviation)}"
    if statistic.count < len(row.runs):
        text = tr("{value} ({count} of {all})", value=text, count=statistic.count, all=len(row.runs))
    if name == "best_step":
        return tr("epoch {epoch}", epoch=text) if row.results[0].by_epoch else text
    difference = row.differences.get(name) if row.differences is not None else None
    if name not in COMPARED or difference is None or difference.percent is None:
        return text
    return f"{text} ({round(difference.percent, 1) + 0.0:+.1f} %)"  # not -0.0


def _number(name: str, value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if name.endswith("_s") and not name.endswith("_per_s"):
        return duration(value)
    if name == "peak_memory_bytes":
        return f"{value / BYTES_PER_GB:.2f}"
    return f"{value:.6g}" if name == "best_step" else short(value)


def _sentences(comparison: Comparison) -> Iterator[str]:
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
    more = len(comparison.rows[0].differs) - MAX_SETTINGS
    if more > 0:
        yield tr_plural(
            "{count} more setting differs; --why lists it.", "{count} more settings differ; --why lists them.", more
        )


# -- why -----------------------------------------------------------------------------------------


def _say_why(first: MeasuredRun, second: MeasuredRun, why: Reasons) -> None:
    say("")
    say(tr("What differs between {first} and {second}:", first=first.id, second=second.id))
    groups = (
        (tr("setting"), why.settings), (tr("version"), why.packages), (tr("device"), why.devices),
        (tr("commit"), {"": why.commits} if why.commits else {}),
    )  # fmt: skip
    rows = [
        (f"  {title} {name}".rstrip(), *(one_line(short(value), 100) for value in pair))
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
