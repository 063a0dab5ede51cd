"""The command `pythons`: the Pythons of this machine and what each can train with."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.output import say, say_rows
from core.language import tr, tr_noop
from core.pythons.python_info import REMEDY
from core.pythons.search import FoundPython, PythonSearch
from core.table import Column

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from core.pythons.python_info import Package, PythonInfo

POLL_S = 0.01
CUDA = {True: tr_noop(", CUDA"), False: tr_noop(", no CUDA"), None: ""}


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `pythons`."""
    parser.add_argument(
        "--near", type=Path, metavar="DIR",
        help=tr("also search for environments in this folder, or next to this script; default: the current folder"),
    )  # fmt: skip


def pythons(options: Namespace) -> int:
    """List the Pythons of this machine, and the frameworks that each has."""
    entries = _search(options.near)
    say_rows(options, COLUMNS, entries)
    for each in () if options.json else entries:
        if each.problem:
            say(each.problem.removesuffix(tr(REMEDY)).rstrip())  # it names this command
    return 0


def _search(near: Path | None) -> list[FoundPython]:
    """Return all Pythons. Raises `ValueError` with a sentence if there is no file or folder `near`."""
    if near is not None and not near.exists():
        raise ValueError(tr("There is no file or folder {near}. Name a folder or a script.", near=near))
    search = PythonSearch()
    try:
        search.start(near or Path())
        while not (found := search.poll(), search.done)[1]:
            time.sleep(POLL_S)
    finally:
        search.close()
    return found


def _of_info(name: str, value: Callable[[PythonInfo], object], title: str | None = None) -> Column[FoundPython]:
    return Column(name, lambda each: value(each.info) if each.info else None, title)


def _framework(name: str) -> Column[FoundPython]:
    """Return a column that says for people `2.6.0, CUDA` for version `2.6.0+cu124`."""

    def package(entry: FoundPython) -> Package | None:
        return getattr(entry.info, name, None)

    def text(entry: FoundPython) -> str | None:
        found = package(entry)
        return None if found is None else (found.version or tr("yes")).partition("+")[0] + tr(CUDA[found.cuda])

    return Column(name, lambda each: (found := package(each)) and asdict(found), text=text)


COLUMNS: tuple[Column[FoundPython], ...] = (
    _of_info("version", lambda info: ".".join(map(str, info.version)), "python"),
    *map(_framework, ("torch", "tensorflow", "keras")),
    Column("place", lambda each: each.found.place, text=lambda each: tr(each.found.title)),
    Column("path", lambda each: each.found.path),
    _of_info("implementation", lambda info: info.implementation or None),
    _of_info("prefix", lambda info: info.prefix or None),
    Column("problem", lambda each: each.problem or None, None),
)
