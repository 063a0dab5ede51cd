"""The options with which commands write tables, reports and plots to files, and what they do."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.shared.output import say
from core.language import tr
from core.series.report import check_free, export_bytes
from core.table import Table

if TYPE_CHECKING:
    from core.reports.chart import Chart

    Add = Callable[..., object]

TABLES, PLOTS = ("csv", "markdown"), ("svg", "png")
FILES = (*TABLES, "html", *PLOTS)
"""The options of which each names a file, or for plots a folder. A command may lack some of them."""


def add_table_options(add: Add) -> None:
    """Add the options that write a table to a file. `add`: the `add_argument` of a parser or a group."""
    add("--csv", metavar="FILE", help=tr("write the table with all numbers to this file; - for stdout"))
    add("--markdown", metavar="FILE", help=tr("write the table as Markdown to this file; - for stdout"))


def add_plot_options(add: Add) -> None:
    """Add the options that write plots to files."""
    add("--svg", metavar="FOLDER", help=tr("write each plot as a drawing to a file in this folder (.svg)"))
    add("--png", metavar="FOLDER", help=tr("write each plot as a picture to a file in this folder (.png)"))


def add_force(add: Add) -> None:
    """Add the option that lets files be replaced."""
    add("--force", action="store_true", help=tr("replace files that exist"))


def given_files(options: Namespace) -> list[str]:
    """Return the names of the options that name a file."""
    return [name for name in FILES if getattr(options, name, None) is not None]


def check_files(options: Namespace) -> None:
    """Raise `ValueError` with a sentence if a file cannot be written as it was asked for."""
    given = {name: str(getattr(options, name)) for name in given_files(options)}
    streams = [name for name in TABLES if given.get(name) == "-"]
    if len(streams) + (options.json and bool(streams)) > 1:
        raise ValueError(tr("Standard output can take one document. Name a file in the place of a -."))
    for name, text in given.items():
        path = Path(text)
        if not text:
            raise ValueError(tr("--{name} names nothing. Name a file or a folder.", name=name))
        if name in TABLES and text == "-":
            continue
        if name not in PLOTS:
            check_file(path, force=options.force)
        elif path.exists() and not path.is_dir():
            raise ValueError(tr("{path} is not a folder. Name a folder for the plots.", path=path))


def check_file(path: Path, *, force: bool) -> None:
    """Raise `ValueError` with a sentence if there is such a file, unless `force`, or no folder for it.

    Hours of training, or minutes of reading, may be over before that is noticed.
    """
    if str(path) == "-":
        raise ValueError(tr("A page is written to a file, not to standard output. Name a file in the place of the -."))
    check_free(path, force=force)
    if not path.parent.is_dir():
        raise ValueError(
            tr("{path} cannot be written: there is no folder {folder}. Name another file.",
               path=path, folder=path.parent)
        )  # fmt: skip


def write_tables(options: Namespace, table: Callable[[], Table[Any]]) -> None:
    """Write the table to the files that were asked for."""
    for path, form in ((options.csv, Table.csv), (options.markdown, Table.markdown)):
        if path is None:
            continue
        text = form(table())
        if path == "-":
            say(text.removesuffix("\n"), lines=True)
        else:
            export_bytes(text.encode(), Path(path))


def write_page(options: Namespace, page: Callable[[], bytes]) -> int | None:
    """Write the page that --html asks for, and return its bytes; None if none was asked for."""
    if options.html is None:
        return None
    data = page()
    export_bytes(data, Path(options.html))
    return len(data)


def write_plots(options: Namespace, charts: Callable[[], Iterable[Chart]]) -> list[Path]:
    """Write the plots that --svg and --png ask for; return the files. Raises as `write_charts`."""
    forms = [form for form in PLOTS if getattr(options, form) is not None]
    if not forms:
        return []
    from core.reports import pictures  # loads numpy

    every = list(charts())
    return [
        path
        for form in forms
        for path in pictures.write_charts(every, Path(getattr(options, form)), form, force=options.force)
    ]
