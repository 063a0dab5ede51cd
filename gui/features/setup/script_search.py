"""What a script needs: the Pythons found for it, and a trial of its log pattern."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.language import tr, tr_noop
from core.metrics.text.expression import describe_result, try_expression
from core.pythons.discovery import FoundPython, PythonSearch
from core.pythons.python_info import Package, PythonInfo
from gui.base.jobs import Jobs, reason
from gui.features.setup.strategy_box import StrategyRow
from gui.window.feature import Feature

ASKED = tr_noop("Reading its version and packages …")
AUTOMATIC = tr_noop("The Python of the active environment or next to the script; otherwise Trainyard's own")


def python_rows(entries: Sequence[FoundPython], chosen: str, usual: str) -> list[StrategyRow]:
    """Return all rows, those that can be used first. `chosen`: gets a row even if it is unknown.

    `usual`: the Python that is used if none is chosen; the empty string while it is unknown.
    """
    rows = []
    for each in entries:
        title = _title(each.found.path, each.info, own=each.found.place == "own")
        rows.append(StrategyRow(each.found.path, title, _summary(each), each.problem))
    if chosen and chosen not in {row.strategy for row in rows}:
        rows.append(StrategyRow(chosen, _title(chosen, None), short(chosen)))
    rows.sort(key=lambda row: bool(row.obstacle))
    return [usual_row(entries, usual), *rows]


def usual_row(entries: Sequence[FoundPython], usual: str) -> StrategyRow:
    """Return the row for no choice, with the Python that is then used, once it is known."""
    if not usual:
        return StrategyRow("", tr("Automatic"), tr(AUTOMATIC))
    entry = next((each for each in entries if each.found.path == usual), None)
    own = entry is not None and entry.found.place == "own"
    now = tr("Now: {python}", python=_summary(entry) if entry else short(usual))
    title = tr("Automatic: {python}", python=_title(usual, None, own=own))
    return StrategyRow("", title, f"{tr(AUTOMATIC)}.\n{now}")


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


AGAIN_S = 2.0
"""Seconds between two trials: the log grows."""
NO_RUN = tr_noop("Select a run to test the expression on its log.")


class ExpressionTester(QObject):
    """`poll` never blocks."""

    tested = Signal(str)
    """What the expression matched, as a sentence; the empty string if there is nothing to show."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs = Jobs(self, "trial")
        self._tried: tuple[str, Path | None] = ("", None)
        self._wanted: tuple[str, Path | None] = ("", None)
        self._due = 0.0

    def poll(self, expression: str, run_dir: Path | None) -> None:
        """Try what is typed by now. `run_dir`: of the run that is shown."""
        wanted = self._wanted = (expression, run_dir)
        if not expression or run_dir is None:
            self._tried = wanted
            self.tested.emit(tr(NO_RUN) if expression else "")
        elif wanted != self._tried or time.monotonic() >= self._due:
            self._try(expression, run_dir)

    def _try(self, expression: str, run_dir: Path) -> None:
        tried = expression, run_dir
        if self._jobs.start(
            lambda: _tried(expression, run_dir),
            lambda found: self._show(tried, found),
            lambda error: self._show(tried, tr("The expression could not be tested: {reason}.", reason=reason(error))),
        ):
            self._tried, self._due = tried, time.monotonic() + AGAIN_S

    def _show(self, tried: tuple[str, Path], found: str) -> None:
        if tried == self._wanted:  # else something else was typed meanwhile
            self.tested.emit(found)


def _tried(expression: str, run_dir: Path) -> str:
    try:
        return describe_result(try_expression(expression, run_dir))
    except ValueError as error:
        return str(error)


class ScriptSearchController(Feature):
    """Searches while the form of a script is shown. A Python that has answered is not asked again."""

    def set_up(self) -> None:
        self._search: PythonSearch | None = None
        self._near: Path | None = None
        self._entries: list[FoundPython] = []
        self._form = self.panels.setup.script
        self._tester = self.services.adopt(ExpressionTester())
        self._tester.tested.connect(self._form.show_trial)
        self._asked: list[Path | None] = []
        """Near which folder to search, at the next poll: the first frame does not wait for its processes."""
        if self._machine.is_here:  # the Pythons of another machine are not searched here
            self.panels.setup.search_folder_changed.connect(self._asked.append)

    def _search_near(self, near: Path | None) -> None:
        """Search, beginning near this folder. The same folder, or one that does not exist, changes nothing."""
        if self._search is None:
            self._search = PythonSearch()
        elif near == self._near or (near is not None and not near.is_dir()):
            return
        self._near = near
        self._search.start(near)

    def poll(self) -> None:
        """Begin or continue the search, and try what is typed by now."""
        while self._asked:
            self._search_near(self._asked.pop(0))
        if self._search is not None and not self._search.done:
            entries = self._search.poll()
            if entries != self._entries:
                self._entries = entries
                self._form.show_pythons(entries)
        run = self._session.run
        self._tester.poll(self._form.expression, run.dir if run else None)

    def end(self) -> None:
        """End the search and its processes."""
        if self._search is not None:
            self._search.close()
            self._search = None
