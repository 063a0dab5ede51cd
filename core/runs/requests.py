"""The requests of a run: a file each in its control folder, written by any process and answered by the supervisor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from core.language import tr, tr_noop
from core.schema.files import touch
from core.schema.paths import CONTROL, SET, TRACE
from core.schema.spec import RunSpec

REQUESTS = ("stop", "force", "pause", "save", SET, TRACE)
UNANSWERED = {
    "pause": tr_noop("Trainyard cannot pause a script. Stopping it sends SIGINT first."),
    "save": tr_noop("Trainyard cannot save a script. Stopping it sends SIGINT first."),
    SET: tr_noop("Trainyard cannot change the settings of a script: its program has them."),
    TRACE: tr_noop("Trainyard cannot trace a script. Use the profiler of its framework in it."),
}
"""The requests that workers answer, and why a script does not."""


def unanswered(spec: RunSpec, name: str) -> str:
    """Return why a run cannot answer one of these requests; the empty string if it can. Scripts cannot."""
    if spec.script is None:
        return ""
    return tr(UNANSWERED[name])


class Requests:
    """The requests of one run. The supervisor answers `stop` and `force`, the workers `pause` and `save`."""

    def __init__(self, run_dir: Path) -> None:
        self._control = run_dir / CONTROL
        self._recorded = ""
        self._signalled = False
        self._wrote_stop = False
        """Whether the request to stop was written for a signal, and not by a user."""

    def clear(self) -> None:
        """Remove all requests, before a run is resumed."""
        for name in REQUESTS:
            self.take_back(name)

    def has(self, name: str) -> bool:
        """Return whether this was requested."""
        return (self._control / name).exists()

    def take_back(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._control / name).unlink()

    def refuse(self, spec: RunSpec) -> list[str]:
        """Remove the requests that this run cannot answer; return a sentence on each."""
        refused = {name: why for name in UNANSWERED if (why := unanswered(spec, name)) and self.has(name)}
        for name in refused:
            self.take_back(name)
        return list(refused.values())

    def stop_by_signal(self) -> None:
        """Count a stop as requested. Called from a signal handler, so it does nothing else."""
        self._signalled = True

    def ask_stop(self) -> None:
        with contextlib.suppress(OSError):
            touch(self._control / "stop")

    @property
    def stop(self) -> bool:
        """Whether the run is to stop."""
        return self._signalled or self.has("stop")

    @property
    def stopped_by_signal(self) -> bool:
        """Whether the run is to stop only because of a signal, as at a log-out or a shutdown."""
        return self._signalled and (self._wrote_stop or not self.has("stop"))

    def write_stop(self) -> None:
        """Write the file of a stop that came as a signal: the training loop looks for the file."""
        if self._signalled and not self.has("stop"):
            self._wrote_stop = True
            with contextlib.suppress(OSError):  # without the file, the signals of the escalation stop the workers
                touch(self._control / "stop")

    @property
    def hurry(self) -> bool:
        """Whether to end the run without waiting for the memory of its devices."""
        return self._signalled or self.has("force")

    def record(self, write: Callable[[str], None]) -> None:
        """Call `write` with the request that the workers have yet to answer, or the empty string, when it changes."""
        pending = next((name for name in ("pause", "save") if self.has(name)), "")
        if pending != self._recorded:
            self._recorded = pending
            write(pending)
