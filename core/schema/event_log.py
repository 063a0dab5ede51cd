"""Read all event files of a run together, whole or in slices.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING

from ..language import tr
from . import packed_samples
from .event_kinds import Metrics, RunProgress
from .events import MAX_LINE_BYTES, PACKED, Tail
from .paths import EVENTS, EVENTS_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from .events import Event

MAX_FILES = 4096
"""Event files of a run that are read: more than one run has ranks."""
FOREIGN_BYTES = 16 * 1024 * 1024
"""Bytes of the events of another user's run that are read, so that a planted run does not block its reader."""
FOREIGN_PART_BYTES = 8 * 1024 * 1024
"""Bytes that are read if only some of its event files are: those have a few lines each."""
FOREIGN_REST_BYTES = 1024 * 1024
"""If fewer bytes than this may still be read, no more are: the next line may be longer."""
SLICE_BYTES = 64 * 1024
"""Bytes of a file that are read for one slice, unless a line is longer."""
UNORDERED = frozenset({Metrics.kind, RunProgress.kind})
"""Kinds of measurements: whether they come before or after readings of devices of the same minute means nothing."""
SLICE_EVENTS = 500
"""Events in a slice of another user's run."""


class Log:
    """Reads the event files of a run, all or those in `only`, as they grow."""

    def __init__(self, run_dir: Path, only: Collection[str] | None = None) -> None:
        self._only = only
        self._folder = run_dir / EVENTS
        self._folder_trouble = ""
        self._tails: dict[str, Tail] = {}
        self._most = FOREIGN_BYTES if only is None else FOREIGN_PART_BYTES

    def read(self) -> list[Event]:
        """Return the events since the last call, ordered by time."""
        is_own = self._is_own()
        events = [event for tail in self._find_tails() for event in tail.read(sys.maxsize if is_own else self._left())]
        return sorted(events, key=itemgetter("t"))

    def slices(self) -> Iterator[list[Event]]:
        """Yield the events since the last call in slices: put together, they are what `read` returns.

        A slice takes some milliseconds, and may be empty. Events are yielded in order: those of a file wait until the
        other files have been read up to the same time. Readings of devices are packed (`packed_samples`), and in order
        to all events but those in `UNORDERED`.
        """
        if not self._is_own():
            events = self.read()
            yield from (events[first : first + SLICE_EVENTS] for first in range(0, len(events), SLICE_EVENTS))
            return
        sources = [_Source(tail) for tail in self._find_tails()]
        while pending := [source for source in sources if not source.exhausted]:
            min(pending, key=lambda source: source.latest).read_on()
            horizon = min((source.latest for source in sources if not source.exhausted), default=math.inf)
            events = [event for source in sources for event in source.take_before(horizon)]
            yield _in_order(events)

    @property
    def bytes_read(self) -> int:
        """Bytes of all files that were read."""
        return sum(tail.offset for tail in self._tails.values())

    def _find_tails(self) -> list[Tail]:
        for name in self._names():
            if name not in self._tails:
                self._tails[name] = Tail(self._folder / name)
        return list(self._tails.values())

    def _is_own(self) -> bool:
        try:
            return self._folder.stat().st_uid == os.geteuid()
        except OSError:
            return False

    def _left(self) -> int:
        """Return how many bytes of a run of another user may still be read."""
        left = self._most - sum(tail.offset for tail in self._tails.values())
        if left < FOREIGN_REST_BYTES:
            left = 0
            self._folder_trouble = tr(
                "it belongs to another user, and only {size} MiB of such a run are read", size=self._most >> 20
            )
        return left

    @property
    def garbage_lines(self) -> int:
        """Number of lines so far that were no event."""
        return sum(tail.garbage_lines for tail in self._tails.values())

    @property
    def troubles(self) -> list[str]:
        """A sentence on each file or folder that could not be read last time."""
        found = {self._folder: self._folder_trouble, **{tail.path: tail.trouble for tail in self._tails.values()}}
        return [
            tr("{path} cannot be read: {why}. Its events are missing here.", path=path, why=why)
            for path, why in found.items()
            if why
        ]

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._folder) as entries:
                first = [entry.name for entry in itertools.islice(entries, MAX_FILES)]
        except FileNotFoundError:
            return []
        except OSError as error:
            self._folder_trouble = error.strerror or str(error)
            return []
        self._folder_trouble = ""
        names = sorted(name for name in first if name.endswith(EVENTS_SUFFIX))
        return names if self._only is None else [name for name in names if name in self._only]


class _Source:
    """One file of which the present content is read in slices."""

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self.exhausted = False
        self._end = _size(tail.path)
        self._waiting: list[Event] = []

    @property
    def latest(self) -> float:
        """The time up to which all its events were read."""
        return self.tail.latest if self.tail.offset else -math.inf

    def read_on(self) -> None:
        """Read the next slice; a longer one if a line does not fit."""
        size, before = SLICE_BYTES, self.tail.offset
        while self.tail.offset == before and self.tail.offset < self._end and size < 2 * MAX_LINE_BYTES:
            self._waiting += self.tail.read(min(size, self._end - before), packed_samples.pack)
            size *= 2
        self.exhausted = self.tail.offset in {before, self._end}

    def take_before(self, horizon: float) -> list[Event]:
        """Return the events that were read and are older than `horizon`, and forget them."""
        if not self._waiting or self._waiting[-1]["t"] < horizon:
            taken, self._waiting = self._waiting, []
            return taken
        count = bisect_left(self._waiting, horizon, key=itemgetter("t"))
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        if self._waiting[0]["kind"] == PACKED:  # it ends after the horizon, and may begin before
            before, after = packed_samples.divide(self._waiting[0], horizon)
            taken += before
            self._waiting[:1] = after
        return taken


def _in_order(events: list[Event]) -> list[Event]:
    """Return events of several files in order. Packed readings are divided where an event is between them."""
    if any(event["kind"] == PACKED for event in events):
        times = sorted(event["t"] for event in events if event["kind"] not in UNORDERED)
        events = [part for event in events for part in _parts(event, times)]
    return sorted(events, key=itemgetter("t"))


def _parts(event: Event, times: list[float]) -> list[Event]:
    return packed_samples.divide_after(event, times) if event["kind"] == PACKED else [event]


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
