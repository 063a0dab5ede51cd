"""The command `pythons`: the Pythons of this machine and what each can train with."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.output import say, say_rows
from core.language import tr, tr_noop
from core.pythons.python_info import REMEDY
from core.pythons.search import PythonSearch

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from core.pythons.python_info import Package
    from core.pythons.search import FoundPython

POLL_S = 0.01
COLUMNS = ("python", "torch", "tensorflow", "keras", "place", "path")
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
    say_rows(options, [_row(each) if options.json else _shown(each) for each in entries], COLUMNS)
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


def _row(entry: FoundPython) -> dict[str, object]:
    known = entry.info
    return {
        "path": entry.found.path, "place": entry.found.place,
        "version": ".".join(map(str, known.version)) if known else None,
        "implementation": known.implementation or None if known else None,
        "prefix": known.prefix or None if known else None,
        "torch": _package(known.torch) if known else None,
        "tensorflow": _package(known.tensorflow) if known else None,
        "keras": _package(known.keras) if known else None,
        "problem": entry.problem or None,
    }  # fmt: skip


def _package(package: Package | None) -> dict[str, object] | None:
    return None if package is None else {"version": package.version, "cuda": package.cuda}


def _shown(entry: FoundPython) -> dict[str, object]:
    known = entry.info
    return {
        "python": ".".join(map(str, known.version)) if known else None,
        "torch": _short(known.torch) if known else None,
        "tensorflow": _short(known.tensorflow) if known else None,
        "keras": _short(known.keras) if known else None,
        "place": tr(entry.found.title),
        "path": entry.found.path,
    }


def _short(package: Package | None) -> str | None:
    """Return `2.6.0, CUDA` for version `2.6.0+cu124`."""
    return None if package is None else (package.version or tr("yes")).partition("+")[0] + tr(CUDA[package.cuda])
