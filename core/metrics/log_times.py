"""Know when each part of a log was written, from the notes that the metrics process leaves in a run.

A log has no times of its own. While a script runs, the metrics process records from time to time how many bytes of each
log it has read, and which metric files it reads. With these notes the curves can be read again later.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from core.metrics.files.growing_file import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.metrics.common.reading import Reading
    from core.schema.events import Event

LOG_READ = "log_read"
"""The kind of an event `{"rank", "bytes"}`: at its time, the log of the rank had at least so many bytes."""
METRIC_FILE = "metric_file"
"""The kind of an event `{"path", "begin"}`: the run reads this file from this byte on."""


class LogTimes:
    """When the bytes of one log were written. Between two notes, they count as written evenly."""

    def __init__(self, notes: Iterable[tuple[int, float]], began: float) -> None:
        """`notes`: bytes of the log and unix seconds. `began`: when the script was started, in unix seconds."""
        self._notes = [(0, began)]
        for size, time in notes:
            last_size, last_time = self._notes[-1]
            if size > last_size and time >= last_time:
                self._notes.append((size, time))

    @property
    def bytes_known(self) -> int:
        """How many bytes of the log the notes cover."""
        return self._notes[-1][0]

    def bytes_from(self, begin: int) -> int:
        """Return how many bytes to read at once from here on: up to the next note, so that each part has its time."""
        after = bisect_right(self._notes, begin, key=itemgetter(0))
        return min(BLOCK_BYTES, self._notes[after][0] - begin) if after < len(self._notes) else BLOCK_BYTES

    def timed(self, readings: list[Reading], begin: int, end: int) -> list[Reading]:
        """Return the readings of these bytes with their times, as far as the notes cover the bytes."""
        since, until = self._at(begin), self._at(end)
        if since is None or until is None:
            return readings
        count = len(readings)
        return [
            replace(reading, time=since + (until - since) * number / count)
            for number, reading in enumerate(readings, start=1)
        ]

    def _at(self, position: int) -> float | None:
        """Return when the log had this many bytes; None if no note says so."""
        after = bisect_right(self._notes, position, key=itemgetter(0))
        if position == self._notes[-1][0]:
            return self._notes[-1][1]
        if after == len(self._notes):
            return None
        (size, since), (next_size, until) = self._notes[after - 1], self._notes[after]
        return since + (until - since) * (position - size) / (next_size - size)


def log_notes(events: Iterable[Event], rank: int) -> list[tuple[int, float]]:
    """Return what the events say about the log of a rank: bytes and unix seconds."""
    return [
        (event["bytes"], event["t"])
        for event in events
        if event["kind"] == LOG_READ and event.get("rank") == rank and type(event.get("bytes")) is int
    ]


def metric_files(events: Iterable[Event]) -> list[tuple[str, int]]:
    """Return the files that a run has read, and how many bytes of each were there before the run."""
    return [
        (event["path"], event["begin"])
        for event in events
        if event["kind"] == METRIC_FILE and isinstance(event.get("path"), str) and type(event.get("begin")) is int
    ]
