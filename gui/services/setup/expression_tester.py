"""Try the regular expression that is being typed on the log of the run that is shown, in the background."""

from __future__ import annotations

import time
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.language import tr, tr_noop
from core.metrics.text.expression import describe_result, try_expression
from gui.services.jobs import Jobs, reason

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
