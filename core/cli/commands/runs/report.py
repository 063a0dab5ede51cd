"""The command `report`: runs as one file of HTML."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.commands.common import RUN
from core.cli.commands.runs.compare import add_table_options, find_compared
from core.cli.export_options import check_file
from core.cli.output import say_json
from core.language import tr
from core.series.report import export_bytes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

TABLE_OPTIONS = ("metric", "baseline", "target", "lower", "grouped")


def add_options(parser: ArgumentParser) -> None:
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
