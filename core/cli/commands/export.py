"""The command `export`: a run's measurements or its model, for use elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.commands.common import check_owner, find
from core.cli.output import no_measurement, say, say_json, warn
from core.language import tr, tr_stored
from core.launchers import export_model
from core.series import report

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from core.runs.run import Run


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `export`."""
    parser.add_argument("--csv", metavar="FILE", help=tr("write all metrics, every step, to this file; - for stdout"))
    parser.add_argument("--model", metavar="FOLDER", help=tr("write the model of a checkpoint to this new folder"))
    parser.add_argument("--force", action="store_true", help=tr("replace a CSV file that exists"))
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
    """Write the metrics of a run to a CSV file, or its model to a folder."""
    if options.csv is None and options.model is None:
        raise ValueError(tr("Say what to export: --csv FILE or --model FOLDER."))
    if options.csv is not None and options.model is not None:
        raise ValueError(tr("Both --csv and --model are given. Give one of them."))
    run = find(options)
    if options.csv is None:
        return _export_model(options, run)
    if options.format or options.checkpoint:
        raise ValueError(
            tr("--format and --checkpoint are options of --model. Leave them out, or use --model instead of --csv.")
        )
    return _export_csv(options, run)


def _export_csv(options: Namespace, run: Run) -> int:
    path = Path(options.csv)
    if not options.force and path.is_file() and not path.is_relative_to("/dev"):  # such as /dev/stdout into a file
        raise ValueError(tr("{path} exists already. Name another file, or add --force to replace it.", path=path))
    run_series = report.read_series(run)
    for text in run.facts.notices:  # what could not be read is missing from the table
        warn(tr_stored(text))
    if not run_series.metrics and (sentence := no_measurement(run)):
        warn(sentence)
    if options.csv == "-":
        report.write_csv(run_series, sys.stdout)
        return 0
    report.export_csv(run_series, path)
    if options.json:
        rows = sum(len(series) for series in run_series.metrics.values())
        say_json({"run": run.id, "csv": options.csv, "rows": rows})
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
