"""A sketch of a long run: some of its events, read in milliseconds, to be shown while the whole run is read."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from core.runs.facts.fold import fold
from core.runs.facts.run_facts import RunFacts
from core.runs.run import Run
from core.schema.events import parse_lines
from core.schema.files import open_to_read
from core.schema.paths import EVENTS, EVENTS_SUFFIX, SUPERVISOR_EVENTS
from core.series.run_series import RunSeries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from core.schema.events import Event

VALIDATION = "val_"
END_BYTES = 16 * 1024
"""Bytes at the beginning and at the end of a file that are read in any case."""
BLOCK_BYTES = 2 * 1024
"""Bytes of a place between them. A longer line is passed over."""
BUDGET_S = 0.01
"""Seconds for the places between the ends, of all files."""
MAX_PLACES = 512
MAX_FILES = 16
"""Event files that are looked into, the largest first."""


def events_size(run_dir: Path) -> int:
    """Return the bytes of all event files of a run; 0 if they cannot be listed."""
    return sum(size for _, size in _files(run_dir))


def present_facts(run_dir: Path) -> RunFacts:
    """Return the facts that the supervisor has recorded: the present state, and nothing that workers have measured."""
    head = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    head.catch_up()
    return head.facts


def sketch(run_dir: Path) -> tuple[RunFacts, RunSeries]:
    """Return the facts, and a part of the values from the whole length of the run.

    The state is the present one; what lies between the places that were read is missing.
    """
    head = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    events = head.catch_up()
    files = sorted(_files(run_dir), key=itemgetter(1), reverse=True)[:MAX_FILES]
    large = [_Places(name, size) for name, size in files if not name.endswith(f"/{SUPERVISOR_EVENTS}")]
    for places in large:
        events += places.ends()
    until = time.monotonic() + BUDGET_S
    pending = [places.between() for places in large]
    while pending and time.monotonic() < until:
        for each in list(pending):
            found = next(each, None)
            if found is None:
                pending.remove(each)
            else:
                events += found
    events.sort(key=itemgetter("t"))
    run_series = RunSeries()
    run_series.fold(events)
    for name in [name for name in run_series.metrics if name.startswith(VALIDATION)]:
        del run_series.metrics[name]  # of so few values, the best of some is not the best
    facts, known = fold(RunFacts(), events), head.facts
    facts = replace(
        facts, state=known.state, history=known.history, error=known.error, traceback=known.traceback,
        plan=facts.plan or facts.earlier_plan,  # the present one is somewhere in the middle of a resumed run
    )  # fmt: skip
    return facts, run_series


class _Places:
    """The places of one file at which events are read."""

    def __init__(self, path: str, size: int) -> None:
        self._path, self._size = path, size

    def ends(self) -> list[Event]:
        """Return the events at the beginning and at the end."""
        if self._size <= 2 * END_BYTES:
            return self._read([(0, self._size)])
        return self._read([(0, END_BYTES), (self._size - END_BYTES, END_BYTES)])

    def between(self) -> Iterator[list[Event]]:
        """Yield the events at places between the ends: first in the middle, then in the middles of the halves, ..."""
        room = self._size - 2 * END_BYTES
        for number in range(1, min(MAX_PLACES, max(room, 0) // BLOCK_BYTES)):
            yield self._read([(END_BYTES + int(room * _halved(number)), BLOCK_BYTES)])

    def _read(self, places: list[tuple[int, int]]) -> list[Event]:
        try:
            with open_to_read(self._path) as file:
                return [event for at, size in places for event in _events_at(file, at, size)]
        except OSError:
            return []


def _events_at(file: BinaryIO, at: int, size: int) -> Iterator[Event]:
    """Yield the events of the whole lines within these bytes."""
    file.seek(max(at - 1, 0))
    data = file.read(size + (at > 0))
    begin = data.find(b"\n") + 1 if at else 0
    for event in parse_lines(data[begin : data.rfind(b"\n") + 1]):
        if event is not None:
            event["t"] = float(event["t"])
            yield event


def _halved(number: int) -> float:
    """Return the fraction whose binary digits are those of `number` in reverse (van der Corput)."""
    return int(f"{number:b}"[::-1], 2) / (1 << number.bit_length())


def _files(run_dir: Path) -> list[tuple[str, int]]:
    """Return the paths and the sizes of the event files."""
    try:
        with os.scandir(run_dir / EVENTS) as entries:
            return [
                (entry.path, entry.stat(follow_symlinks=False).st_size)
                for entry in entries
                if entry.name.endswith(EVENTS_SUFFIX) and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return []
