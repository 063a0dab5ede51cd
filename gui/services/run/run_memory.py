"""The runs that were looked at last, as far as they were read, so that going back to one reads only what is new."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from core.catalog.frameworks import framework_title
from core.diagnosis.timeline import Timeline
from core.runs.run import Run
from core.schema.event_kinds import RunProgress, SupervisorStart, read_all
from core.schema.events import Event
from core.schema.paths import SPEC_FILE
from core.schema.spec import RunSpec
from core.series.run_series import RunSeries
from gui.viewmodels.run.progress import ScriptProgress

MAX_RUNS = 12
MAX_BYTES = 256 * 1024 * 1024
"""Memory of all that are kept."""

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


def timeline_of(spec: RunSpec | None) -> Timeline:
    """Return a timeline without events; None: the spec of its run cannot be read."""
    return Timeline(spec, framework_title(spec.framework) if spec else "")


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
