"""Read all event files of a run together, whole or in slices.

In slices, many readings of devices are packed into one event: a run of ten hours on eight devices has 150 000 of them.
A packed event has the kind `PACKED`, the time of its last reading, and the fields of its readings as columns. No file
has such an event.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
from bisect import bisect_left, bisect_right
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..language import tr, tr_noop
from .event_kinds import Metrics, RunProgress
from .events import MAX_LINE_BYTES, MAX_NUMBER, PACKED, READINGS, SAMPLE, SLOWDOWNS, Tail, are_readings, quick_loads
from .paths import COLLECTOR_EVENTS, DEVICE_EVENTS, EVENTS, EVENTS_SUFFIX, SUPERVISOR_EVENTS, worker_events

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from .events import Event

    Columns = dict[str, list[Any]]


TIMES, DEVICE = "times", "device"
COLUMNS = (TIMES, DEVICE, *READINGS, SLOWDOWNS)
_SAMPLE_MARK = b'"kind": "sample"'
_LIST_MARK = b'"slowdowns": ['
_MARKED_BYTES = 256
"""Bytes at the beginning of a line in which the mark of a reading is searched."""


def pack(lines: bytes, latest: float) -> Event | None:
    """Return whole lines as one packed event; None if they are not all usual readings in the order of their times.

    `latest`: the time of the last event before them. What is refused here can still be read line by line, which takes
    several times as long.
    """
    if _SAMPLE_MARK not in lines[:_MARKED_BYTES] or not _are_flat(lines):
        return None
    try:
        rows = quick_loads()(b"[" + lines[:-1].replace(b"\n", b",") + b"]")
        kinds, times, devices = ([row[name] for row in rows] for name in ("kind", "t", DEVICE))
        readings = {name: [row.get(name) for row in rows] for name in READINGS}
        slowdowns = [row.get(SLOWDOWNS, ()) for row in rows]
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    is_usual = (
        len(rows) == lines.count(b"\n")
        and set(kinds) == {SAMPLE}
        and set(map(type, devices)) == {str}
        and (set(map(type, times)) == {float} and latest <= times[0] and times[-1] < MAX_NUMBER)
        and sorted(times) == times
        and all(map(are_readings, readings.values()))
        and set(map(type, slowdowns)) <= {tuple, list}
    )
    if not is_usual:
        return None
    return {"t": times[-1], "kind": PACKED, TIMES: times, DEVICE: devices, **readings, SLOWDOWNS: slowdowns}


def _are_flat(lines: bytes) -> bool:
    """Return whether nothing is nested in any line but a list of slowdowns, and nothing is to be checked in texts."""
    return (
        lines.count(b"{") == lines.count(b"\n")
        and (b"[" not in lines or lines.count(b"[") == lines.count(_LIST_MARK))
        and b"\\" not in lines
        and b"\r" not in lines
    )


def columns(samples: Iterable[Mapping[str, Any]]) -> Columns:
    """Return readings, single and packed ones in order, in `COLUMNS`. A missing field is None."""
    found: Columns = {name: [] for name in COLUMNS}
    for kind, group in groupby(samples, key=itemgetter("kind")):
        events = list(group)
        for name, column in found.items():
            if kind == PACKED:
                column.extend(chain.from_iterable(event[name] for event in events))
            else:
                column.extend(event.get("t" if name == TIMES else name) for event in events)
    return found


def by_device(samples: Columns) -> Iterator[tuple[str, Columns]]:
    """Yield each device with its readings."""
    devices = samples[DEVICE]
    known = list(dict.fromkeys(devices))
    count = len(known)
    if devices == (known * (len(devices) // count + 1))[: len(devices)]:  # they take turns, as nearly always
        for first, device in enumerate(known):
            yield device, {name: column[first::count] for name, column in samples.items()}
        return
    rows: dict[str, list[int]] = {device: [] for device in known}
    for row, device in enumerate(devices):
        rows[device].append(row)
    for device, places in rows.items():
        yield device, {name: [column[row] for row in places] for name, column in samples.items()}


def divide(event: Event, time: float) -> tuple[list[Event], list[Event]]:
    """Divide a packed event: return its readings before a time, and the others, as one event each; none if empty."""
    return _divide(event, bisect_left(event[TIMES], time))


def divide_after(event: Event, times: Iterable[float]) -> list[Event]:
    """Divide a packed event after each of some times, which are in order: readings at a time come before it."""
    parts, rest = [], [event]
    for time in times:
        if not rest or time >= rest[0]["t"]:
            break
        part, rest = _divide(rest[0], bisect_right(rest[0][TIMES], time))
        parts += part
    return parts + rest


def _divide(event: Event, at: int) -> tuple[list[Event], list[Event]]:
    size = len(event[TIMES])
    return ([_part(event, slice(at))] if at else []), ([_part(event, slice(at, None))] if at < size else [])


def _part(event: Event, rows: slice) -> Event:
    part = {name: event[name][rows] for name in COLUMNS}
    return {"t": part[TIMES][-1], "kind": PACKED, **part}


MAX_FILES = 4096
"""Files of a run among which its event files are read: more than one run has ranks."""
FOREIGN_FILES = 256
"""The limit for the run of another user. Each file is looked at with every click, and several times a second while the
run lives."""
FIRST = (SUPERVISOR_EVENTS, DEVICE_EVENTS, COLLECTOR_EVENTS, worker_events(0))
"""Event files that are read however many there are."""
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


def most_files(folder: Path) -> int:
    """Return among how many files of this folder of events those of events are."""
    with contextlib.suppress(OSError):
        return MAX_FILES if folder.stat().st_uid == os.geteuid() else FOREIGN_FILES
    return FOREIGN_FILES


MAX_NAMES = 2000
"""Metrics of a run that are read, and its devices: a program may make up a name a step, a planted file a million."""
NAMES_CHARACTERS = 1_000_000
"""Characters of the names of all of them."""
TOO_MANY = tr_noop("The run has more than {count} metrics or devices; the others are missing.")


class Log:
    """Reads the event files of a run, all or those in `only`, as they grow."""

    def __init__(self, run_dir: Path, only: Collection[str] | None = None) -> None:
        self._only = only
        self._folder = run_dir / EVENTS
        self._folder_trouble = ""
        self._tails: dict[str, Tail] = {}
        self._most = FOREIGN_BYTES if only is None else FOREIGN_PART_BYTES
        self._names, self._room, self._has_more_names = set[str](), NAMES_CHARACTERS, False
        """The metrics that are read, how many characters others may have, and whether some were left out."""

    def read(self) -> list[Event]:
        """Return the events since the last call, ordered by time."""
        events: list[Event] = []
        tails = self._find_tails()
        left = sys.maxsize if self._is_own else self._most - self.bytes_read
        for tail in tails:
            before = tail.offset
            events += self._bounded(tail.read(left if left >= FOREIGN_REST_BYTES else 0))
            left -= tail.offset - before
        if left < FOREIGN_REST_BYTES:
            self._folder_trouble = tr(
                "it belongs to another user, and only {size} MiB of such a run are read", size=self._most >> 20
            )
        return sorted(events, key=itemgetter("t"))

    def slices(self) -> Iterator[list[Event]]:
        """Yield the events since the last call in slices: put together, they are what `read` returns.

        A slice takes some milliseconds, and may be empty. Events are yielded in order: those of a file wait until the
        other files have been read up to the same time. Readings of devices are packed (`pack`), and in order
        to all events but those in `UNORDERED`.
        """
        if not self._is_own:
            events = self.read()
            yield from (events[first : first + SLICE_EVENTS] for first in range(0, len(events), SLICE_EVENTS))
            return
        sources = [_Source(tail, self._bounded) for tail in self._find_tails()]
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
        for name in self._file_names():
            if name not in self._tails:
                self._tails[name] = Tail(self._folder / name)
        return list(self._tails.values())

    @property
    def _is_own(self) -> bool:
        return most_files(self._folder) == MAX_FILES

    @property
    def garbage_lines(self) -> int:
        """Number of lines so far that were no event."""
        return sum(tail.garbage_lines for tail in self._tails.values())

    @property
    def troubles(self) -> list[str]:
        """A sentence on each file or folder that could not be read last time."""
        found = {self._folder: self._folder_trouble, **{tail.path: tail.trouble for tail in self._tails.values()}}
        sentence = tr_noop("{path} cannot be read: {why}. Its events are missing here.")
        many = [tr(TOO_MANY, count=MAX_NAMES)] if self._has_more_names else []
        return [tr(sentence, path=path, why=why) for path, why in found.items() if why] + many

    def _bounded(self, events: list[Event]) -> list[Event]:
        """Return the events without the metrics beyond `MAX_NAMES`, and those of which something is left."""
        return [event for event in events if event["kind"] != Metrics.kind or self._has_known(event)]

    def _has_known(self, event: Event) -> bool:
        values, names = event["values"], self._names
        if values.keys() <= names:
            return bool(values)
        for name in values:
            if name not in names and len(names) < MAX_NAMES and len(name) <= self._room:
                names.add(name)
                self._room -= len(name)
        event["values"] = {name: each for name, each in values.items() if name in names}
        self._has_more_names |= len(event["values"]) < len(values)
        return bool(event["values"])

    def _file_names(self) -> list[str]:
        most = most_files(self._folder)
        try:
            with os.scandir(self._folder) as entries:
                first = [entry.name for entry in itertools.islice(entries, most)]
                has_more = next(entries, None) is not None
        except FileNotFoundError:
            return []
        except OSError as error:
            self._folder_trouble = error.strerror or str(error)
            return []
        self._folder_trouble = tr("only {count} of its files are read", count=most) if has_more else ""
        names = sorted({*(name for name in first if name.endswith(EVENTS_SUFFIX)), *(FIRST if has_more else ())})
        return names if self._only is None else [name for name in names if name in self._only]


class _Source:
    """One file of which the present content is read in slices."""

    def __init__(self, tail: Tail, bounded: Callable[[list[Event]], list[Event]]) -> None:
        self.tail, self._bounded = tail, bounded
        self._end = 0
        with contextlib.suppress(OSError):
            self._end = tail.path.lstat().st_size
        self.exhausted = tail.offset == self._end
        self._waiting: list[Event] = []

    @property
    def latest(self) -> float:
        """The time up to which all its events were read."""
        return self.tail.latest if self.tail.offset else -math.inf

    def read_on(self) -> None:
        """Read the next slice; a longer one if a line does not fit."""
        size, before = SLICE_BYTES, self.tail.offset
        while self.tail.offset == before and self.tail.offset < self._end and size < 2 * MAX_LINE_BYTES:
            self._waiting += self._bounded(self.tail.read(min(size, self._end - before), pack))
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
            before, after = divide(self._waiting[0], horizon)
            taken += before
            self._waiting[:1] = after
        return taken


def _in_order(events: list[Event]) -> list[Event]:
    """Return events of several files in order. Packed readings are divided where an event is between them."""
    if any(event["kind"] == PACKED for event in events):
        times = sorted(event["t"] for event in events if event["kind"] not in UNORDERED)
        divided = (divide_after(event, times) if event["kind"] == PACKED else [event] for event in events)
        events = [part for parts in divided for part in parts]
    return sorted(events, key=itemgetter("t"))
