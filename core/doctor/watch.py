"""Examine a run when it stalls, and before its stop is forced, in a process of its own that may hang or fail."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from core.devices.device import Survey
from core.language import tr
from core.runs.facts import RunFacts
from core.supervisor.companion import Companion
from core.system.helper_process import HelperProcess
from core.system.own_processes import own_command

FORCE_S = 6.0
"""Seconds that a stop waits at most before it is forced."""


class DoctorWatch(Companion):
    """Starts the examinations of a run (`core.doctor.__main__`), one at a time."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._stalls, self._is_stalled, self._trouble = run_dir, 0, False, ""
        self._process: HelperProcess | None = None
        self._until: float | None = None

    def watch(self, survey: Survey, facts: RunFacts) -> None:  # noqa: ARG002 (of a companion)
        if facts.stalled and not self._is_stalled and self._stalls < 3:  # a run that trains slowly may have many
            self._stalls += 1
            with contextlib.suppress(OSError):
                self._begin("stall")
        self._is_stalled = bool(facts.stalled)

    def delays_force(self) -> bool:
        if self._until is None:
            self._until = time.monotonic() + FORCE_S
            try:
                self._begin("force")
            except OSError as error:
                self._trouble = str(error)
        ending = self._process.ending() if self._process is not None else ""
        if ending is None and time.monotonic() < self._until:
            return True
        if ending != "":
            self._trouble = ending or tr("it took too long")
        self.close()
        return False

    def trouble(self) -> str:
        why, self._trouble = self._trouble, ""
        return tr("The run could not be examined before its stop was forced: {why}.", why=why) if why else ""

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process = None

    def _begin(self, why: str) -> None:
        self.close()
        self._process = HelperProcess(own_command("core.doctor", str(self._run_dir.resolve()), why))
