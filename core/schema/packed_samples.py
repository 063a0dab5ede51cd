"""Many readings of devices as one event: a run of ten hours on eight devices has 150 000 of them.

A packed event has the kind `PACKED`, the time of its last reading, and the fields of its readings as columns. Only
`event_log` makes such events; no file has one.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .events import MAX_NUMBER, PACKED, READINGS, SAMPLE, SLOWDOWNS, quick_loads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
        and _are_times(times, latest)
        and all(map(_are_readings, readings.values()))
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


def _are_times(times: list[Any], latest: float) -> bool:
    return set(map(type, times)) == {float} and latest <= times[0] and times[-1] < MAX_NUMBER and sorted(times) == times


def _are_readings(values: list[Any]) -> bool:
    kinds = set(map(type, values))
    if not kinds <= {float, int, type(None)}:
        return False
    whole = [value for value in values if type(value) is int] if int in kinds else [0]
    return min(whole) > -MAX_NUMBER and max(whole) < MAX_NUMBER


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
