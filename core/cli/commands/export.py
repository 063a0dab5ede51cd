"""The command `export`: the measurements of runs or the model of one, for use elsewhere."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from core.cli.shared.export_options import add_force, add_plot_options, check_files, write_page, write_plots
from core.cli.shared.lookup import RUN, check_owner, find
from core.cli.shared.output import no_measurement, say, say_json, warn
from core.language import tr, tr_plural
from core.launchers import export_model
from core.runs.run import Run
from core.series import report
from core.series.run_series import RunSeries

KINDS = ("csv", "html", "svg", "png", "tensorboard", "model")
"""Options of which one says what to export."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `export`."""
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
    )  # fmt: skip
    add_force(parser.add_argument)
    parser.add_argument(
        "--format", choices=("state_dict", "keras", "saved_model"),
        help=tr("format of the model: state_dict for PyTorch; keras (default) or saved_model for Keras and TensorFlow"),
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help=tr("a checkpoint that `trainyard show` lists, or best; default: the latest"),
    )


def export(options: Namespace) -> int:
    """Write the metrics of runs as a table, a report, plots or for TensorBoard, or the model of one to a folder."""
    given = [name for name in KINDS if getattr(options, name) is not None]
    if not given:
        raise ValueError(
            tr(
                "Say what to export: --csv FILE, --html FILE, --svg FOLDER, --png FOLDER, --tensorboard FOLDER or "
                "--model FOLDER."
            )
        )
    if len(given) > 1:
        raise ValueError(
            tr("Both --{first} and --{second} are given. Give one of them.", first=given[0], second=given[1])
        )
    runs = [find(options, each) for each in options.exported]
    if given != ["model"] and (options.format or options.checkpoint):
        raise ValueError(
            tr("--format and --checkpoint are options of --model. Leave them out, or use --model instead of --{given}.",
               given=given[0])
        )  # fmt: skip
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
    path = Path(options.csv)
    check_files(options)
    run_series = _read(run)
    if options.csv == "-":
        report.write_csv(run_series, sys.stdout)
        return 0
    report.export_csv(run_series, path)
    if options.json:
        rows = sum(len(series) for series in run_series.metrics.values())
        say_json({"run": run.id, "csv": options.csv, "rows": rows})
    return 0


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

    folder = Path(options.tensorboard)
    if twice := next((run for number, run in enumerate(runs) if run.dir in {each.dir for each in runs[:number]}), None):
        raise ValueError(tr("Run {run} is named twice. Name each run once.", run=twice.id))
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
                )  # fmt: skip
    if options.json:
        say_json({"tensorboard": options.tensorboard, "runs": written})
    return 0


def _export_page(options: Namespace, runs: Sequence[Run]) -> int:
    from core.reports import run_report  # loads numpy

    check_files(options)
    reported = run_report.read_reported([run.dir for run in runs])
    written = write_page(options, lambda: run_report.report(reported, made=time.time()))
    if options.json:
        say_json({"html": options.html, "runs": [run.id for run in runs], "bytes": written})
    return 0


def _export_plots(options: Namespace, runs: Sequence[Run]) -> int:
    from core.comparison.measured_run import check_different, read_run  # loads numpy
    from core.reports import run_report

    check_files(options)
    check_different([run.dir for run in runs])
    files = write_plots(options, lambda: run_report.charts_of([read_run(run.dir) for run in runs]))
    if options.json:
        say_json({"runs": [run.id for run in runs], "files": list(map(str, files))})
    return 0


def _export_model(options: Namespace, run: Run) -> int:
    check_owner(options, tr("Run {id}", id=run.id), run.owner, run.spec())
    exported = export_model.export_model(
        run.dir, Path(options.model), format_name=options.format, checkpoint_name=options.checkpoint
    )
    if options.json:
        say_json({
            "run": run.id, "model": str(exported.folder), "format": exported.format,
            "checkpoint": exported.checkpoint, "step": exported.step, "files": list(exported.files),
        })  # fmt: skip
    else:
        say(f"{exported.folder}: {', '.join(exported.files)} ({exported.checkpoint})")
    return 0
