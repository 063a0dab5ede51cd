"""Read a run in short turns, and keep what was read of the last runs."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from core.catalog.frameworks import framework_title
from core.diagnosis.timeline import Timeline
from core.history.summary import present_facts
from core.runs.facts import RunFacts
from core.runs.run import Run
from core.schema.event_kinds import RunProgress, SupervisorStart, read_all
from core.schema.events import Event
from core.schema.paths import SPEC_FILE
from core.schema.spec import RunSpec
from core.series.long_runs import sketch
from core.series.run_series import RunSeries
from gui.runs.progress import ScriptProgress

MAX_RUNS = 12
MAX_BYTES = 256 * 1024 * 1024
"""Memory of all that are kept."""

AT_ONCE_BYTES = 512 * 1024
"""A run with more bytes of events is read in slices, and kept in the user's cache folder once it is over."""
Identity = tuple[int, int, int]
"""Device, inode and modification time of a run's spec. They identify its folder, also after it was renamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRun:
    """A run that was read to its end, as it was then."""

    run: Run
    run_series: RunSeries
    timeline: Timeline
    strides: ScriptProgress


def take_in(read: ReadRun, events: list[Event]) -> None:
    """Add events to what was made of a run."""
    read.run_series.fold(events)
    read.timeline.fold(events)
    read.timeline.follow(read.run.facts)
    read.run.add_notice(read.run_series.notice)
    for event in events:
        if event["kind"] == SupervisorStart.kind:  # the run was started, or resumed
            read.strides.clear()
        elif event["kind"] == RunProgress.kind:
            for progress in read_all(RunProgress, [event]):
                read.strides.add(progress)


def unread(run: Run, spec: RunSpec | None) -> ReadRun:
    """Return a run of which nothing was read yet. `spec`: None if it cannot be read."""
    timeline = Timeline(spec, framework_title(spec.framework) if spec else "")
    return ReadRun(run=run, run_series=RunSeries(), timeline=timeline, strides=ScriptProgress())


class RunMemory:
    """Keeps the runs that were looked at last, within `MAX_RUNS` and `MAX_BYTES`."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Path, Identity], ReadRun] = OrderedDict()

    def keep(self, identity: Identity, read: ReadRun) -> None:
        """Keep a run; forget those that were looked at longest ago where there are too many."""
        self._kept[read.run.dir, identity] = read
        self._kept.move_to_end((read.run.dir, identity))
        sizes = [each.run_series.size_bytes for each in self._kept.values()]
        while self._kept and (len(self._kept) > MAX_RUNS or sum(sizes) > MAX_BYTES):
            self._kept.popitem(last=False)
            del sizes[0]

    def take(self, run_dir: Path, identity: Identity | None) -> ReadRun | None:
        """Return a run and forget it; None if it is not kept, or if another run is in its folder now."""
        return self._kept.pop((run_dir, identity), None) if identity is not None else None


def identity_of(run_dir: Path) -> Identity | None:
    """Return device, inode and modification time of the spec; None if there is none."""
    try:
        status = (run_dir / SPEC_FILE).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def siblings(run_dir: Path) -> list[Path]:
    """Return the folders beside a run, and the run; none if they cannot be listed."""
    try:
        return list(run_dir.parent.iterdir())
    except OSError:
        return []


OTHERS_S = 0.004
"""A turn of the event loop in which other work has taken longer, such as drawing, is left without reading."""
PATIENCE_S = 0.05
"""Seconds for which reading leaves turns to other work, however much of it there is."""
TURN_S = 0.006
"""Seconds to read in one turn of the event loop; to take in what was read takes half as long."""
ALMOST = 0.99
"""The largest share that is reported before the run is read completely."""
TOLD_S = 0.05
"""Seconds between two reports of how much was read."""


class RunOpening(QObject):
    """Reads one run to its end, whenever the event loop has nothing else to do."""

    read_on = Signal(float)
    """The share that was read: 0.0 once there is a sketch in the columns, 1.0 when the whole run is in them."""

    def __init__(self, read: ReadRun, size: int, parent: QObject) -> None:
        """`read`: of which nothing was read yet; its columns have the sketch first. `size`: bytes of its events."""
        super().__init__(parent)
        self._read, self._size = read, size
        self._whole = replace(read, run_series=RunSeries())
        """What was read so far."""
        self.facts: RunFacts = present_facts(read.run.dir)
        """What is known of the run so far: its present state, and then the facts of the sketch."""
        self._slices = read.run.slices()
        self._is_sketched = self._is_read = False
        self._told = self._read_at = time.monotonic()
        """When it was last reported how much was read, and when something was read."""
        self._worked_s = time.thread_time()
        """Processor time of this thread when the event loop was last here."""
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._go_on)
        self._timer.start()

    def stop(self) -> None:
        """Read no more."""
        self._timer.stop()
        self.deleteLater()

    def _go_on(self) -> None:
        """Do one thing, unless this turn of the event loop is long already. Two together would be too long."""
        if self._yields():
            return
        if not self._is_sketched:
            self._sketch()
        elif self._is_read:
            self._end()
        elif self._read_at > self._told and time.monotonic() - self._told > TOLD_S:  # not twice without reading between
            self._tell()
        else:
            self._read_slices()
        self._worked_s = time.thread_time()

    def _yields(self) -> bool:
        """Return whether this turn is left to other work, which has taken long since the last turn."""
        before, self._worked_s = self._worked_s, time.thread_time()
        return self._worked_s - before > OTHERS_S and time.monotonic() - self._read_at < PATIENCE_S

    def _sketch(self) -> None:
        """Show some of the values. Not in the turn in which the run is shown: both together would be too long."""
        self.facts, found = sketch(self._read.run.dir)
        self._read.run_series.replace_by(found)
        self._is_sketched = True
        self._told = self._read_at = time.monotonic()
        self.read_on.emit(0.0)

    def _read_slices(self) -> None:
        """Read for `TURN_S`."""
        until = time.monotonic() + TURN_S
        events: list[Event] = []  # taken in at once: each time has its costs, however few they are
        slice_: list[Event] | None = []
        while slice_ is not None and time.monotonic() < until:
            slice_ = next(self._slices, None)
            events += slice_ or ()
        take_in(self._whole, events)
        self._read_at = time.monotonic()
        self._is_read = slice_ is None

    def _tell(self) -> None:
        """Report how much was read, and prepare that for being drawn."""
        self._whole.run_series.prepare(self._read.run_series)
        self.read_on.emit(min(self._read.run.bytes_read / self._size, ALMOST))
        self._told = time.monotonic()

    def _end(self) -> None:
        """Show the whole run in place of the sketch."""
        take_in(self._whole, self._read.run.catch_up())
        self._whole.run_series.prepare(self._read.run_series)
        self._read.run_series.replace_by(self._whole.run_series)
        self.stop()
        self.read_on.emit(1.0)
