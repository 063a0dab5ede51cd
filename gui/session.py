"""Session: the run that the window looks at, and all that was measured in it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.book import SeriesBook
from core.run import Run
from core.state import Facts, row

from .progress import Progress, progress

if TYPE_CHECKING:
    from pathlib import Path

    from core.spec import RunSpec


class Session(QObject):
    """At most one attached run; `poll`, called at every tick, brings it up to date."""

    attached = Signal()
    """Another run, or none, is looked at from now on."""
    changed = Signal()
    """There are new facts."""

    def __init__(self) -> None:
        super().__init__()
        self.run: Run | None = None
        self.book: SeriesBook | None = None
        self.spec: RunSpec | None = None
        self.spec_problem: str | None = None
        """A sentence, when the run's spec cannot be read: by a newer version, say."""
        self.stop_asked: float | None = None
        """When this window asked the run to stop, by `time.monotonic()`."""

    @property
    def facts(self) -> Facts:
        """What is known of the run; of no run, nothing."""
        return self.run.facts if self.run else Facts()

    @property
    def live(self) -> bool:
        """Whether there is a run and it is not over."""
        return self.run is not None and not row(self.facts.state).over

    def attach(self, run: Run) -> None:
        """Look at this run from now on; what it has recorded is read at once."""
        self.run, self.book = run, SeriesBook()
        self.spec, self.spec_problem, self.stop_asked = None, None, None
        self._read_spec(run)
        self.book.fold(run.catch_up())
        self.attached.emit()
        self.changed.emit()

    def attach_to(self, run_dir: Path) -> None:
        """Look at the run in this directory. Raises `ValueError` with a sentence when there is none."""
        if self.run is None or self.run.dir != run_dir:
            self.attach(Run.attach(run_dir))

    def poll(self) -> None:
        """Read what is new."""
        if self.run is None or self.book is None:
            return
        before = self.run.facts
        self.book.fold(self.run.poll())
        if self.run.facts is not before:
            self.changed.emit()

    def stop(self) -> None:
        """Ask the run to stop. Raises `RunError` with a sentence."""
        if self.run is not None:
            self.run.request("stop")
            self.stop_asked = time.monotonic()
            self.changed.emit()

    def force(self) -> None:
        """Have a stop that is under way forced. Raises `RunError` with a sentence."""
        if self.run is not None:
            self.run.request("force")

    def progress(self) -> Progress | None:
        """How far the run is by now; None until it is known how much there is to do."""
        losses = self.book.metrics.get("loss") if self.book else None
        return progress(self.facts, losses, time.time())

    def memory_now(self) -> dict[str, float]:
        """By device id, bytes in use as the live run itself last read them; nothing of a run that is over."""
        if self.book is None or not self.live:
            return {}
        latest = {device: series.last for device, series in self.book.memory.items()}
        return {device: value for device, value in latest.items() if value is not None and math.isfinite(value)}

    def _read_spec(self, run: Run) -> None:
        try:
            self.spec = run.spec()
        except ValueError as error:
            self.spec_problem = str(error)
