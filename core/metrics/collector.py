"""What all ranks of a script measure, recorded as it comes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.catalog import strategies
from core.metrics.event_writer import MetricEventWriter
from core.metrics.file_owners import FileOwners
from core.metrics.files.found import MetricFileFinder
from core.metrics.rank_reader import RankReader
from core.schema.events import RecordError, Writer
from core.schema.paths import COLLECTOR_EVENTS, CONTROL, EVENTS, metrics_file

if TYPE_CHECKING:
    from core.schema.spec import RunSpec


PROGRESS_S = 0.5
"""How far it is, is recorded so often at most."""


class MetricsCollector:
    """All ranks of one run."""

    def __init__(self, run_dir: Path, spec: RunSpec, finder: MetricFileFinder) -> None:
        """`finder`: finds the files that the script writes; they are taken for rank 0's."""
        assert spec.script is not None
        self._events = Writer(run_dir / EVENTS / COLLECTOR_EVENTS)
        ranks = len(spec.devices) if strategies.strategy_of(spec).processes == "per_device" else 1
        self._ranks = [RankReader(run_dir, spec, rank, None if rank else finder) for rank in range(ranks)]
        self._batches = [MetricEventWriter(rank, self._events) for rank in range(ranks)]
        self._looked = time.time()
        self._told: set[str] = set()
        self._progress: tuple[float, float, str] | None = None
        self._progress_due = 0.0

    def look(self, *, last: bool = False) -> None:
        """Read what is new, and record it. `last`: nothing more will come. Raises `RecordError`."""
        now = time.time()
        for reader, batches in zip(self._ranks, self._batches, strict=True):
            batches.write(reader.read(last=last), since=self._looked, until=now)
            for text in reader.troubles():
                if text not in self._told:
                    self._told.add(text)
                    self._events.write("notice", text=text)
        self._looked = now
        self._tell_progress(last=last)

    def close(self) -> None:
        """Close the file."""
        self._events.close()

    def _tell_progress(self, *, last: bool) -> None:
        """As rank 0 tells it."""
        progress = self._ranks[0].progress
        if progress is None or progress == self._progress or (time.monotonic() < self._progress_due and not last):
            return
        self._progress, self._progress_due = progress, time.monotonic() + PROGRESS_S
        done, total, unit = progress
        self._events.write("progress", done=done, total=total, unit=unit)


LOOK_S = 0.25
NICENESS = 5
"""The training comes first."""


def collect(run_dir: Path, spec: RunSpec, *, until_closed: int, tells: int) -> int:
    """Collect until one pipe is closed; into the other goes a byte when the script may be started."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # a shutdown: the supervisor ends in good order
        signal.signal(number, signal.SIG_IGN)
    finder = _finder(run_dir, spec)
    os.write(tells, b".")
    os.close(tells)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    # now: until it is loaded, the script need not wait

    collector = MetricsCollector(run_dir, spec, finder)
    try:
        while not select.select([until_closed], [], [], LOOK_S)[0]:
            collector.look()
        collector.look(last=True)
    except RecordError:
        return 1  # the supervisor, whose own records are on the same disk, tells of it
    finally:
        collector.close()
    return 0


def _finder(run_dir: Path, spec: RunSpec) -> MetricFileFinder:
    """What is in the files by now is not of this run."""
    ours = [run_dir / EVENTS, run_dir / CONTROL, metrics_file(run_dir, 0)]
    writers = FileOwners(run_dir.name, Path(spec.working_dir))
    finder = MetricFileFinder(
        [run_dir, Path(spec.working_dir)], since=time.time(), without=ours, is_ours=writers.is_ours
    )
    finder.remember()
    return finder
