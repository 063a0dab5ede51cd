"""The commands `compare`, `report` and `export`: results of runs as a table, as a page, or for use elsewhere."""

from __future__ import annotations

import math
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.output import (
    add_force,
    add_plot_options,
    add_table_options,
    answer,
    check_file,
    check_files,
    given_files,
    loss_of,
    no_measurement,
    say,
    say_json,
    say_table,
    warn,
    write_page,
    write_plots,
    write_tables,
)
from core.cli.runs import RUN, check_owner, find
from core.history import index
from core.history.summary import setting_words
from core.language import tr, tr_plural
from core.launchers import export_model
from core.runs.outputs import BEST
from core.runs.run import Run
from core.series import report
from core.series.report import export_bytes
from core.series.run_series import RunSeries
from core.text import one_line

if TYPE_CHECKING:
    from core.results.measured_run import MeasuredRun, Reasons


MAX_SETTINGS = 6
"""Settings that differ and get a column in the table; `--why` and `--json` list all of them."""


def add_compare_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("compared", metavar="RUN", nargs="+", help=tr("two runs or more, named as for `trainyard show`"))
    add_comparison_options(parser)
    add_table_options(add)
    add("--html", metavar="FILE", help=tr("write the report on these runs to this file (.html), as `report` does"))
    add_plot_options(add)
    add_force(add)
    add("--why", action="store_true", help=tr("show what differs: settings, text, package versions, devices"))


def add_comparison_options(parser: ArgumentParser) -> None:
    """Add the options that say what is compared."""
    add = parser.add_argument
    add("--metric", metavar="NAME", help=tr("the metric to compare; default: a loss that most of the runs have"))
    add("--baseline", metavar="RUN", help=tr("the run from which differences are shown; default: the first"))
    add("--target", type=float, metavar="VALUE", help=tr("show how long each run trained until it reached this value"))
    add("--no-groups", dest="grouped", action="store_const", const=False,
        help=tr("a row for each run, also for runs that differ only in the seed"))
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument(
        "--minimize", dest="lower", action="store_const", const=True,
        help=tr("lower values are better; default: judged by the name of the metric"),
    )
    direction.add_argument(
        "--maximize", dest="lower", action="store_const", const=False, help=tr("higher values are better")
    )


def find_compared(options: Namespace) -> tuple[list[Path], dict[str, Any]]:
    """Return the folders of the runs to compare, and how: the arguments of `compare`. Raises `ValueError`."""
    if options.target is not None and not math.isfinite(options.target):
        raise ValueError(tr("--target {target} is not a finite number. Give a value of the metric.",
                            target=options.target))
    folders = [index.find(options.runs, text) for text in options.compared]
    baseline = None if options.baseline is None else index.find(options.runs, options.baseline)
    if baseline is not None and baseline not in folders:
        raise ValueError(
            tr("The baseline {run} is not one of the compared runs. Name it among them, too.", run=baseline.name)
        )
    return folders, {
        "metric": options.metric, "baseline": baseline.name if baseline else None, "target": options.target,
        "lower": options.lower, "grouped": options.grouped is not False,
    }


def compare_runs(options: Namespace) -> int:
    """Compare runs in a table; runs that differ only in the seed form one row."""
    from core.results import comparison, measured_run  # loads numpy
    from core.results import report as reports

    given = given_files(options)
    if given and options.why and not options.json:
        raise ValueError(
            tr("--{name} writes a file, and --why prints. Leave out one of them, or add --json.", name=given[0])
        )
    check_files(options)
    folders, how = find_compared(options)
    runs = measured_run.read_runs(folders)
    found = comparison.compare(runs, **how)
    first = found.rows[found.baseline].runs[0]
    others = [row.runs[0] for row in found.rows if row.runs[0] is not first]
    why = [(run, measured_run.reasons(first, run)) for run in others] if options.why else []
    write_tables(options, lambda: comparison.text_table(found))
    write_page(options, lambda: reports.report(reports.read_reported(folders), made=time.time(), **how))
    write_plots(options, lambda: reports.charts_of(runs, grouped=how["grouped"]))
    if options.json:
        document = comparison.to_json(found)
        say_json({**document, "why": [_why_json(first, run, each) for run, each in why]} if options.why else document)
        return 0
    if not given:
        say_table(comparison.text_table(found, MAX_SETTINGS).cells())
        for sentence in (*comparison.sentences(found), *comparison.left_out(found, MAX_SETTINGS)):
            say(sentence)
    for notice in found.notices:
        warn(notice)
    for run, each in why:
        _say_why(first, run, each)
    return 0


def _say_why(first: MeasuredRun, second: MeasuredRun, why: Reasons) -> None:
    say("")
    say(tr("What differs between {first} and {second}:", first=first.id, second=second.id))
    groups = (
        (tr("setting"), why.settings), (tr("version"), why.packages), (tr("device"), why.devices),
        (tr("commit"), {"": why.commits} if why.commits else {}),
    )
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
    }


TABLE_OPTIONS = ("metric", "baseline", "target", "lower", "grouped")


def add_report_options(parser: ArgumentParser) -> None:
    parser.add_argument("compared", metavar="RUN", nargs="+", help=tr(RUN))
    parser.add_argument("--output", metavar="FILE", required=True, help=tr("write the report to this file (.html)"))
    parser.add_argument("--force", action="store_true", help=tr("replace a file that exists"))
    add_comparison_options(parser)


def write_report(options: Namespace) -> int:
    """Write a report on runs as one HTML file that needs no network; several runs are compared."""
    from core.results import report as reports  # loads numpy

    path = Path(options.output)
    check_file(path, force=options.force)
    folders, how = find_compared(options)
    if len(folders) == 1 and any(getattr(options, name) is not None for name in TABLE_OPTIONS):
        raise ValueError(tr(
            "--metric, --baseline, --target, --no-groups, --minimize and --maximize are for a comparison. Name a "
            "second run, or leave them out.",
        ))
    runs = reports.read_reported(folders)
    data = reports.report(runs, made=time.time(), **how)
    export_bytes(data, path)
    return answer(options, {"report": options.output, "runs": [each.id for each in runs], "bytes": len(data)})


KINDS = ("csv", "html", "svg", "png", "tensorboard", "model")
"""Options of which one says what to export."""


def add_export_options(parser: ArgumentParser) -> None:
    parser.add_argument("exported", metavar="RUN", nargs="+", help=tr(RUN))
    parser.add_argument("--csv", metavar="FILE", help=tr("write all metrics, every step, to this file; - for stdout"))
    parser.add_argument(
        "--html", metavar="FILE", help=tr("write a report on the runs to this file (.html), as `report` does")
    )
    add_plot_options(parser.add_argument)
    parser.add_argument("--model", metavar="FOLDER", help=tr("write the model of a checkpoint to this new folder"))
    parser.add_argument(
        "--tensorboard", metavar="FOLDER",
        help=tr("write all metrics as TensorBoard event files; of several runs each into a folder of its own in it"),
    )
    add_force(parser.add_argument)
    parser.add_argument(
        "--format", choices=("state_dict", "keras", "saved_model"),
        help=tr("format of the model: state_dict for PyTorch; keras (default) or saved_model for Keras and TensorFlow"),
    )
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help=tr("a checkpoint that `trainyard show` lists, or best; default: the latest"),
    )


def export(options: Namespace) -> int:
    """Write the metrics of runs as a table, a report, plots or for TensorBoard, or the model of one to a folder."""
    given = [name for name in KINDS if getattr(options, name) is not None]
    if not given:
        raise ValueError(tr(
            "Say what to export: --csv FILE, --html FILE, --svg FOLDER, --png FOLDER, --tensorboard FOLDER or "
            "--model FOLDER.",
        ))
    if len(given) > 1:
        raise ValueError(
            tr("Both --{first} and --{second} are given. Give one of them.", first=given[0], second=given[1])
        )
    runs = [find(options, each) for each in options.exported]
    if given != ["model"] and (options.format or options.checkpoint):
        raise ValueError(
            tr("--format and --checkpoint are options of --model. Leave them out, or use --model instead of --{given}.",
               given=given[0])
        )
    match given:
        case ["tensorboard"]:
            return _export_tensorboard(options, runs)
        case ["html"]:
            return _export_page(options, runs)
        case ["svg" | "png"]:
            return _export_plots(options, runs)
    if len(runs) > 1:
        raise ValueError(tr("--{given} takes one run. Export one after the other.", given=given[0]))
    return _export_model(options, runs[0]) if given == ["model"] else _export_csv(options, runs[0])


def _export_csv(options: Namespace, run: Run) -> int:
    check_files(options)
    run_series = _read(run)
    if options.csv == "-":
        report.write_csv(run_series, sys.stdout)
        return 0
    report.export_csv(run_series, Path(options.csv))
    rows = sum(len(series) for series in run_series.metrics.values())
    return answer(options, {"run": run.id, "csv": options.csv, "rows": rows})


def _read(run: Run) -> RunSeries:
    """Return the measurements of a run, and say what is missing."""
    run_series = report.read_series(run)
    for text in run.facts.notices:  # what could not be read is missing from the table
        warn(tr(text))
    if not run_series.metrics and (sentence := no_measurement(run)):
        warn(sentence)
    return run_series


def _export_tensorboard(options: Namespace, runs: Sequence[Run]) -> int:
    from core.metrics.files import tensorboard_writer  # loads numpy
    from core.results.measured_run import check_different

    check_different([run.dir for run in runs])
    folder = Path(options.tensorboard)
    folders = [folder] if len(runs) == 1 else [folder / run.id for run in runs]
    for each in folders:
        tensorboard_writer.check_folder(each, force=options.force)
    written = []
    for run, each in zip(runs, folders, strict=True):
        curves = tensorboard_writer.write_folder(_read(run), each)
        values = sum(len(curve.values) for curve in curves)
        written.append({"run": run.id, "folder": str(each), "metrics": len(curves), "values": values})
        for curve in curves:
            if curve.too_large:
                warn(
                    tr_plural(
                        "{count} value of {metric} of run {run} is too large for TensorBoard, and infinite there.",
                        "{count} values of {metric} of run {run} are too large for TensorBoard, and infinite there.",
                        curve.too_large, metric=curve.tag, run=run.id,
                    )
                )
    return answer(options, {"tensorboard": options.tensorboard, "runs": written})


def _export_page(options: Namespace, runs: Sequence[Run]) -> int:
    from core.results import report as reports  # loads numpy

    check_files(options)
    reported = reports.read_reported([run.dir for run in runs])
    written = write_page(options, lambda: reports.report(reported, made=time.time()))
    return answer(options, {"html": options.html, "runs": [run.id for run in runs], "bytes": written})


def _export_plots(options: Namespace, runs: Sequence[Run]) -> int:
    from core.results import report as reports
    from core.results.measured_run import check_different, read_run  # loads numpy

    check_files(options)
    check_different([run.dir for run in runs])
    files = write_plots(options, lambda: reports.charts_of([read_run(run.dir) for run in runs]))
    return answer(options, {"runs": [run.id for run in runs], "files": list(map(str, files))})


def _export_model(options: Namespace, run: Run) -> int:
    check_owner(options, tr("Run {id}", id=run.id), run.owner, run.spec())
    exported = export_model.export_model(
        run.dir, Path(options.model), format_name=options.format, checkpoint_name=options.checkpoint
    )
    if options.checkpoint == BEST and (loss := loss_of(run)) and loss.kept is not None:
        warn(tr("The model with the best loss of the run was not kept: {loss}.", loss=loss.words()))
    document = {
        "run": run.id, "model": str(exported.folder), "format": exported.format, "checkpoint": exported.checkpoint,
        "step": exported.step, "files": list(exported.files),
    }
    return answer(options, document, f"{exported.folder}: {', '.join(exported.files)} ({exported.checkpoint})")
