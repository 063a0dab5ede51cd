"""A row of the Python box: the Python and its packages, or why it cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.language import tr, tr_noop

from .strategy_rows import StrategyRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.pythons.discovery import FoundPython
    from core.pythons.python_info import Package, PythonInfo

ASKED = tr_noop("Reading its version and packages …")
AUTOMATIC = tr_noop("The Python of the active environment or next to the script; otherwise Trainyard's own")


def python_rows(entries: Sequence[FoundPython], chosen: str, usual: str) -> list[StrategyRow]:
    """Return all rows, those that can be used first. `chosen`: gets a row even if it is unknown.

    `usual`: the Python that is used if none is chosen; the empty string while it is unknown.
    """
    rows = [
        StrategyRow(
            strategy=entry.found.path,
            title=_title(entry.found.path, entry.info, own=entry.found.place == "own"),
            summary=_summary(entry),
            obstacle=entry.problem,
        )
        for entry in entries
    ]
    if chosen and chosen not in {row.strategy for row in rows}:
        rows.append(StrategyRow(strategy=chosen, title=_title(chosen, None), summary=short(chosen), obstacle=""))
    rows.sort(key=lambda row: bool(row.obstacle))
    return [usual_row(entries, usual), *rows]


def usual_row(entries: Sequence[FoundPython], usual: str) -> StrategyRow:
    """Return the row for no choice, with the Python that is then used, once it is known."""
    if not usual:
        return StrategyRow(strategy="", title=tr("Automatic"), summary=tr(AUTOMATIC), obstacle="")
    entry = next((each for each in entries if each.found.path == usual), None)
    own = entry is not None and entry.found.place == "own"
    now = tr("Now: {python}", python=_summary(entry) if entry else short(usual))
    has = f"{tr(AUTOMATIC)}.\n{now}"
    return StrategyRow(
        strategy="", title=tr("Automatic: {python}", python=_title(usual, None, own=own)), summary=has, obstacle=""
    )


def short(path: str) -> str:
    """Return a path with the home folder as `~`."""
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path


def _title(path: str, facts: PythonInfo | None, *, own: bool = False) -> str:
    """Return `.venv · Python 3.11.7`; this application's own Python is called Trainyard's."""
    folder = Path(path).parent.parent
    name = tr("Trainyard's") if own else folder.name if folder.name not in {"", "usr", "local"} else short(path)
    return f"{name} · {facts.title}" if facts else name


def _summary(entry: FoundPython) -> str:
    """Return the path, and the frameworks with their builds."""
    if entry.info is None:
        return f"{short(entry.found.path)}\n{tr(ASKED)}"
    found = (("torch", entry.info.torch), ("TensorFlow", entry.info.tensorflow), ("Keras", entry.info.keras))
    has = " · ".join(_package(name, package) for name, package in found if package is not None)
    return f"{short(entry.found.path)} ({entry.found.title})\n{has or tr('no torch, TensorFlow or Keras')}"


def _package(name: str, package: Package) -> str:
    cuda = "" if package.cuda is None else " (CUDA)" if package.cuda else f" {tr('(CPU only)')}"
    return f"{name} {package.version or '?'}{cuda}"
