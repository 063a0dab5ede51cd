"""What all ranks of a script measure, recorded as it comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core import cells
from core.batches import Batches
from core.collecting import LOG
from core.events import EVENTS, Writer
from core.ranks import RankReader

if TYPE_CHECKING:
    from pathlib import Path

    from core.sources.found import Finder
    from core.spec import RunSpec

PROGRESS_S = 0.5
"""How far it is, is recorded so often at most."""


class Collector:
    """All ranks of one run."""

    def __init__(self, run_dir: Path, spec: RunSpec, finder: Finder) -> None:
        """`finder`: finds the files that the script writes; they are taken for rank 0's."""
        assert spec.script is not None
        self._events = Writer(run_dir / EVENTS / LOG)
        ranks = len(spec.devices) if cells.cell_of(spec).processes == "per_device" else 1
        self._ranks = [RankReader(run_dir, spec, rank, None if rank else finder) for rank in range(ranks)]
        self._batches = [Batches(rank, self._events) for rank in range(ranks)]
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
