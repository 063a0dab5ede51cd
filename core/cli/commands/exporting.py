"""The command `export`: a run's measurements, or its model, for use elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.commands.common import find
from core.cli.output import say, say_json, warn
from core.launchers import export_model
from core.series import report
from core.series import report as exporting

if TYPE_CHECKING:
    from argparse import Namespace

    from core.runs.run import Run


def export(options: Namespace) -> int:
    """Write a run's measurements to a file, or its model to a folder."""
    found = find(options)
    if options.csv is not None:
        if options.format or options.checkpoint:
            raise ValueError("--format and --checkpoint are of a model's export. Give --model FOLDER instead of --csv.")
        return _export_csv(options, found)
    return _export_model(options, found)


def _export_csv(options: Namespace, found: Run) -> int:
    book = report.read_all(found).book
    for text in found.facts.warnings:  # what could not be read is missing in the table
        warn(text)
    if options.csv == "-":
        report.write_csv(book, sys.stdout)
        return 0
    exporting.export_csv(book, Path(options.csv))
    if options.json:
        rows = sum(len(series) for series in book.metrics.values())
        say_json({"run": found.id, "csv": options.csv, "rows": rows})
    return 0


def _export_model(options: Namespace, found: Run) -> int:
    exported = export_model.export_model(
        found.dir, Path(options.model), format_name=options.format, checkpoint_name=options.checkpoint
    )
    if options.json:
        say_json({
            "run": found.id, "model": str(exported.folder), "format": exported.format,
            "checkpoint": exported.checkpoint, "step": exported.step, "files": list(exported.files),
        })  # fmt: skip
    else:
        say(f"{exported.folder}: {', '.join(exported.files)} ({exported.checkpoint})")
    return 0
