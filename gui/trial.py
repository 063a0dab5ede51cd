"""Trial: tries the regular expression that is being typed on the log of the run that is shown, aside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core import trial

from .aside import Aside, reason

if TYPE_CHECKING:
    from pathlib import Path

    from .panels.script_form import ScriptForm

AGAIN_S = 2.0
"""A log grows: it is tried again so long after."""
NO_RUN = "Show a run, and it is tried on its log."


class Trial:
    """`poll`, called at every beat, never waits."""

    def __init__(self, form: ScriptForm) -> None:
        self._form = form
        self._aside: Aside[str] = Aside("trial")
        self._tried: tuple[str, Path | None] = ("", None)
        self._due = 0.0

    def poll(self, run_dir: Path | None) -> None:
        """Show what was found, and try what is typed by now. `run_dir`: of the run that is shown."""
        expression = self._form.expression
        found = self._aside.poll()
        if found is not None and self._tried == (expression, run_dir):
            self._form.show_trial(found)
        wanted = (expression, run_dir)
        if not expression or run_dir is None:
            self._tried = wanted
            self._form.show_trial(NO_RUN if expression else "")
        elif wanted != self._tried or time.monotonic() >= self._due:
            self._try(expression, run_dir)

    def _try(self, expression: str, run_dir: Path) -> None:
        if self._aside.start(lambda: _tried(expression, run_dir), _failed):
            self._tried, self._due = (expression, run_dir), time.monotonic() + AGAIN_S


def _tried(expression: str, run_dir: Path) -> str:
    try:
        return trial.told(trial.tried(expression, run_dir))
    except ValueError as error:
        return str(error)


def _failed(error: Exception) -> str:
    return f"It could not be tried: {reason(error)}."
