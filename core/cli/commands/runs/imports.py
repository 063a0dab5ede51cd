"""The command `import`: curves of other programs as runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.output import say_json, say_table, warn
from core.language import tr

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_options(parser: ArgumentParser) -> None:
    """Add the argument of `import`."""
    parser.add_argument(
        "paths", metavar="PATH", nargs="+",
        help=tr("a folder with TensorBoard event files or tables, or one such file (.csv, .tsv, .jsonl)"),
    )  # fmt: skip


def import_paths(options: Namespace) -> int:
    """Import curves of other programs as runs to compare: TensorBoard event files, CSV tables, JSON lines."""
    from core.metrics import import_curves  # loads numpy

    rows: list[dict[str, Any]] = []
    for path in options.paths:
        found = import_curves.find_runs(Path(path))
        is_alone = len(found) == 1 and not found[0].beside
        while found:
            each = found.pop(0)
            try:
                made = import_curves.import_run(each, options.runs)
            except ValueError as error:
                if is_alone:
                    raise
                warn(str(error))
                found[:0] = each.beside
                continue
            for sentence in (*(other.left_out for other in each.beside), *made.notices):
                warn(sentence)
            rows.append({"run": made.run_dir.name, "source": str(made.source), "metrics": made.values})
    if not rows:
        raise ValueError(tr("Nothing was imported."))
    if options.json:
        say_json(rows)
    else:
        headings = [tr("RUN"), tr("METRICS"), tr("VALUES"), tr("SOURCE")]
        lines = [[each["run"], str(len(each["metrics"])), str(sum(each["metrics"].values())), each["source"]]
                 for each in rows]  # fmt: skip
        say_table([headings, *lines])
    return 0
