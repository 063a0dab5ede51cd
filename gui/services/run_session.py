"""Session: the run that the window looks at, and all that was measured in it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.runs.facts import RunFacts
from core.runs.requests import unanswered
from core.runs.run import Run
from core.runs.states import state_info
from core.series.run_series import RunSeries
from gui.viewmodels.run.progress import ProgressView, ScriptProgress, progress_view
from gui.viewmodels.run.run_header import RunSnapshot

if TYPE_CHECKING:
    from pathlib import Path

    from core.runs.facts import Checkpoint
    from core.schema.events import Event
    from core.schema.spec import RunSpec


ANSWER_S = 2.0
"""In less, the supervisor has recorded what this window asked for: until then it is taken as asked."""


class RunSession(QObject):
    """At most one attached run; `poll`, called at every tick, brings it up to date."""

    attached = Signal()
    """Another run, or none, is looked at from now on."""
    changed = Signal()
    """There are new facts."""

    def __init__(self) -> None:
        super().__init__()
        self.run: Run | None = None
        self.book: RunSeries | None = None
        self.spec: RunSpec | None = None
        self.spec_problem: str | None = None
        """A sentence, when the run's spec cannot be read: by a newer version, say."""
        self.stop_asked: float | None = None
        """When this window asked the run to stop, by `time.monotonic()`."""
        self._just_asked: tuple[str, float, Checkpoint | None] | None = None
        """What else it asked for, when, and the last checkpoint before."""
        self._strides = ScriptProgress()

    @property
    def facts(self) -> RunFacts:
        """What is known of the run; of no run, nothing."""
        return self.run.facts if self.run else RunFacts()

    @property
    def live(self) -> bool:
        """Whether there is a run and it is not over."""
        return self.run is not None and not state_info(self.facts.state).over

    @property
    def is_script(self) -> bool:
        """Whether it is a program of the user's own."""
        return self.spec is not None and self.spec.script is not None

    def refusal(self, what: str) -> str:
        """Why the run cannot be asked to `pause` or to `save`: a sentence; no text where it can."""
        return unanswered(self.spec, what) if self.spec else ""

    @property
    def asked(self) -> str:
        """`pause` or `save`, while the run has yet to answer it; else no text."""
        if self.facts.asked or self._just_asked is None:
            return self.facts.asked
        what, when, before = self._just_asked
        return what if time.monotonic() - when < ANSWER_S and self.facts.checkpoint == before else ""

    def snapshot(self) -> RunSnapshot | None:
        """Return what is known of the run at this moment; None without a run."""
        if self.run is None:
            return None
        return RunSnapshot(
            id=self.run.id,
            facts=self.facts,
            spec=self.spec,
            spec_problem=self.spec_problem,
            progress=self.progress(),
            asked=self.asked,
            stop_asked=self.stop_asked,
        )

    def attach(self, run: Run) -> None:
        """Look at this run from now on; what it has recorded is read at once."""
        self.run, self.book = run, RunSeries()
        self.spec, self.spec_problem = None, None
        self._strides = ScriptProgress()
        self._forget_what_was_asked()
        self._read_spec(run)
        self._take_in(run.catch_up())
        self.attached.emit()
        self.changed.emit()

    def attach_to(self, run_dir: Path) -> None:
        """Look at the run in this directory. Raises `ValueError` with a sentence when there is none."""
        if self.run is None or self.run.dir != run_dir:
            self.attach(Run.attach(run_dir))

    def leave(self, run_dir: Path) -> None:
        """Look at nothing from now on, if this run is looked at."""
        if self.run is not None and self.run.dir == run_dir:
            self.run = self.book = self.spec = self.spec_problem = None
            self._strides = ScriptProgress()
            self._forget_what_was_asked()
            self.attached.emit()
            self.changed.emit()

    def poll(self) -> None:
        """Read what is new."""
        if self.run is None or self.book is None:
            return
        before = self.run.facts
        self._take_in(self.run.poll())
        if self.run.facts is not before:
            if self.run.facts.starts != before.starts:  # it was resumed: that is another story
                self._forget_what_was_asked()
            self.changed.emit()

    def pause(self) -> None:
        """Ask the run to save, to end, and to free its devices. Raises `RunError` with a sentence."""
        self._ask("pause")

    def save(self) -> None:
        """Ask the run to write a checkpoint. Raises `RunError` with a sentence."""
        self._ask("save")

    def stop(self) -> None:
        """Ask the run to stop. Raises `RunError` with a sentence."""
        if self.run is not None:
            self.run.request("stop")
            self.stop_asked = time.monotonic()
            self.changed.emit()

    def force(self) -> None:
        """Force a stop that is under way, or end the waiting for the memory. Raises `RunError` with a sentence."""
        if self.run is not None:
            self.run.request("force")

    def progress(self) -> ProgressView | None:
        """How far the run is by now; None until it is known how much there is to do."""
        losses = self.book.metrics.get("loss") if self.book else None
        return progress_view(self.facts, losses, time.time(), self._strides)

    def memory_now(self) -> dict[str, float]:
        """By device id, bytes in use as the live run itself last read them; nothing of a run that is over."""
        if self.book is None or not self.live:
            return {}
        latest = {device: series.last for device, series in self.book.memory.items()}
        return {device: value for device, value in latest.items() if value is not None and math.isfinite(value)}

    def _take_in(self, events: list[Event]) -> None:
        assert self.book is not None
        self.book.fold(events)
        for event in events:
            if event["kind"] == "supervisor":  # the run was started, or resumed
                self._strides.clear()
            elif event["kind"] == "progress":
                self._strides.add(event)

    def _ask(self, what: str) -> None:
        if self.run is not None:
            self.run.request(what)
            self._just_asked = (what, time.monotonic(), self.facts.checkpoint)
            self.changed.emit()

    def _forget_what_was_asked(self) -> None:
        self.stop_asked, self._just_asked = None, None

    def _read_spec(self, run: Run) -> None:
        try:
            self.spec = run.spec()
        except ValueError as error:
            self.spec_problem = str(error)
