"""The event files of a run: JSON lines, append-only, one writer per file, any number of readers.

`event_kinds` lists the kinds of events. An incomplete last line is normal; it is read once its end has been written.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from ..language import tr
from .files import FULL, MAX_DEPTH, not_written, open_to_append, open_to_read, parse_json
from .paths import RESERVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO, TypeGuard

    from .event_kinds import Record

Event = dict[str, Any]
"""An event as its JSON object; `event_kinds.read` makes it a record."""
SAMPLE = "sample"
"""The kind of a reading of a device."""
PACKED = "samples"
"""The kind of many readings in one event, which no file may have: see `event_log`."""
READINGS = ("utilisation_percent", "memory_used_bytes", "temperature_celsius", "power_watts", "sm_clock_mhz")
"""The numbers of a reading; each may be missing."""
SLOWDOWNS = "slowdowns"
"""The words of a reading for why its device is slowed down."""
EPOCH = "epoch"
"""The field `unit` of measurements whose steps are numbers of epochs."""
RESERVE_BYTES = 256 * 1024
"""Size of the reserve file: enough for the last events of a run."""
ROOM_BYTES = 1024 * 1024
"""Free space with which a disk does not count as full for events that a run can do without."""
BLOCK_BYTES = 64 * 1024
"""Bytes to read at once while searching the last newline; most lines are shorter."""
TOGETHER = 4096
"""Characters after which no more lines are parsed at once: few enough that brackets are no sign of a deep line."""
NEWLINE = "\n"
MAX_LINE_BYTES = 16 * 1024 * 1024
"""A file is not read beyond a longer line. A batch of measurements has some ten kilobytes."""


class RecordError(OSError):
    """An event file could not be written. `str()` gives sentences for the user."""


class Writer:
    """Appends events to one file, each with one `write`.

    On a full disk, it deletes the folder's reserve file, completes the line in the room that this frees, and raises
    `RecordError` once: the run ends with everything recorded. An incomplete last line in an existing file, left by a
    writer that was killed, is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reserve = path.parent / RESERVE
        self._pending = b""
        self._fd = open_to_append(path)
        os.ftruncate(self._fd, whole_bytes(path))

    def write(self, record: Record) -> None:
        """Append an event. Its time is now, unless it has one. Raises `RecordError` when the disk is full or gone."""
        self.write_json(json.dumps(record.event()))

    def write_if_room(self, record: Record) -> None:
        """Append an event that a run can do without: leave it out if the disk is full, and spare the reserve."""
        try:
            found = os.statvfs(self.path.parent)
        except OSError:
            return
        if found.f_blocks == 0 or found.f_bavail * found.f_frsize >= ROOM_BYTES:  # some file systems count no blocks
            self.write(record)

    def write_json(self, line: str) -> None:
        """Append one ready JSON object. Raises `RecordError` when the disk is full or gone."""
        self._pending += line.encode() + b"\n"
        try:
            self._drain()
        except OSError as error:
            if error.errno in FULL:
                with contextlib.suppress(OSError):  # it has been given up before
                    self._reserve.unlink()
                    self._drain()
            raise RecordError(
                not_written(
                    self.path, error, if_full=tr("Free some space, then resume the run."),
                    otherwise=tr("Make the folder writable, then resume the run."),
                )
            ) from error

    def close(self) -> None:
        """Close the file, after a last attempt to write lines that a full disk refused, which was reported."""
        with contextlib.suppress(OSError):
            self._drain()
        os.close(self._fd)

    def _drain(self) -> None:
        # After a short write the rest stays pending, and the next call completes the line.
        while self._pending:
            self._pending = self._pending[os.write(self._fd, self._pending) :]


def whole_bytes(path: Path) -> int:
    """Return the size of a file in bytes, without an incomplete last line; 0 if there is no file."""
    try:
        with open_to_read(path) as file:
            end = file.seek(0, os.SEEK_END)
            while end:
                begin = max(0, end - BLOCK_BYTES)
                file.seek(begin)
                newline = file.read(end - begin).rfind(b"\n")
                if newline >= 0:
                    return begin + newline + 1
                end = begin
    except FileNotFoundError:
        pass
    return 0


def make_reserve(folder: Path) -> None:
    """Create the reserve file in an events folder. Raises `OSError` when there is no room for it."""
    fd = open_to_append(folder / RESERVE)
    try:
        os.posix_fallocate(fd, 0, RESERVE_BYTES)
    finally:
        os.close(fd)


def metrics_line(
    *, since: float, until: float, first_step: int, values: Mapping[str, Sequence[float]], unit: str = "",
    every: int = 1,
) -> str:
    """Return the line of a batch of measurements: per metric the values of the steps from `first_step` on.

    `every`: the number of steps from one value to the next. `since`, `until`: unix seconds at which the first and the
    last of these steps ended; the steps between count as evenly spaced. `unit`: `EPOCH` if the numbers of epochs stand
    for steps that are not known; else the empty string. Values have nine digits, which restore every float32 and are
    read three times as fast as seventeen.
    """
    arrays = ",".join(f"{json.dumps(name)}:[{_numbers(array)}]" for name, array in values.items())
    counted = f',"unit":{json.dumps(unit)}' if unit else ""
    counted += f',"every":{every}' if every > 1 else ""
    return f'{{"t":{until!r},"kind":"metrics","since":{since!r},"first":{first_step}{counted},"values":{{{arrays}}}}}'


def last_step(event: Event) -> int:
    return int(event["first"]) + (max(map(len, event["values"].values()), default=0) - 1) * int(event.get("every", 1))


def _numbers(array: Sequence[float]) -> str:
    text = ",".join([f"{value:.9g}" for value in array])
    if "n" in text:  # nan or inf, in the spelling of Python's JSON
        text = text.replace("nan", "NaN").replace("inf", "Infinity")
    return text


def parse(line: bytes) -> Event | None:
    """Return a line as an event; None if it is none, or if its measurements have impossible types or sizes."""
    try:
        event = parse_json(line)
    except ValueError:
        return None
    return event if _is_event(event) else None


def parse_lines(lines: bytes) -> list[Event | None]:
    """Return each line that is not blank as `parse` does. One call for many lines takes half the time."""
    try:
        text = lines.decode("utf-8")
    except UnicodeDecodeError:
        text = "\\"
    if "\\" in text or "\r" in text:  # characters to check; and other ends of lines than newlines
        return _parse_each(lines.splitlines())
    text = text.removesuffix("\n") + "\n"
    found: list[Event | None] = []
    at = 0
    while at < len(text):
        end = text.find("\n", min(at + TOGETHER, len(text) - 1)) + 1
        found += _parse_together(text[at:end])
        at = end
    return found


def _parse_together(lines: str) -> list[Event | None]:
    """Parse some lines as one JSON array: its parser makes the names of the fields once, not once a line.

    If their number is not that of the values, or one could be nested too deeply, they are parsed one by one. So are
    torn lines; but not a line with two values beside two lines with one, which no writer makes.
    """
    count = lines.count("\n")
    if lines.count("[") + lines.count("{") < MAX_DEPTH + count:  # each has one at least
        events = _values(f"[{lines[:-1].replace(NEWLINE, ',')}]")
        if len(events) == count:
            return [event if _is_event(event) else None for event in events]
    return _parse_each(lines.encode().splitlines())


def _values(array: str) -> list[object]:
    """Return the values of a JSON array; none if it is no JSON."""
    try:
        return quick_loads()(array)  # type: ignore[no-any-return]  # an array, by its brackets
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(array) if "NaN" in array or "Infinity" in array else []  # which orjson does not take
    except (ValueError, RecursionError):
        return []


@functools.cache
def quick_loads() -> Callable[[str | bytes], Any]:
    """Return orjson's `loads`, which takes a third of the time of `json.loads`; that one where orjson is missing.

    It is missing in the Python of a user's own training. It takes neither NaN nor Infinity.
    """
    try:
        from orjson import loads
    except ImportError:
        return json.loads
    return loads


def _parse_each(lines: Iterable[bytes]) -> list[Event | None]:
    return [parse(line) for line in lines if line.strip()]


def _is_event(event: object) -> TypeGuard[Event]:
    if type(event) is not dict:
        return False
    kind = event.get("kind")
    if type(kind) is not str or not _is_time(event.get("t")):
        return False
    has_shape = _SHAPES.get(kind)
    return has_shape is None or has_shape(event)


def _is_time(value: object) -> bool:
    return (type(value) is float or type(value) is int) and -MAX_NUMBER < value < MAX_NUMBER


def _is_metrics(event: Event) -> bool:
    values = event.get("values")
    return (
        type(event.get("first")) is int
        and abs(event["first"]) < MAX_NUMBER
        and type(event.get("every", 1)) is int
        and 0 < event.get("every", 1) < MAX_EVERY
        and _is_time(event.get("since", 0))
        and isinstance(values, dict)
        and all(isinstance(array, list) and array and are_readings(array) for array in values.values())
    )


def _is_sample(event: Event) -> bool:
    value_of = event.get
    if not isinstance(value_of("device"), str) or not isinstance(value_of(SLOWDOWNS, _NONE), list):
        return False
    for name in READINGS:  # a plain loop without calls: a long run has a million readings
        value = value_of(name)
        if type(value) is float or value is None:
            continue
        if type(value) is not int or not -MAX_NUMBER < value < MAX_NUMBER:
            return False
    return True


_NONE: list[str] = []


def are_readings(values: list[Any]) -> bool:
    """Return whether these are numbers of possible sizes, or None. Floats are not checked: there may be millions."""
    kinds = set(map(type, values))
    if not kinds <= {int, float, type(None)}:
        return False
    whole = [value for value in values if type(value) is int] if int in kinds else [0]
    return min(whole) > -MAX_NUMBER and max(whole) < MAX_NUMBER


MAX_NUMBER = 2**63
"""Times, steps and whole readings must be smaller."""
MAX_EVERY = 2**31
"""The number of steps from one measurement to the next must be smaller."""
_SHAPES: dict[str, Callable[[Event], bool]] = {
    "metric_restart": lambda event: (
        isinstance(event.get("metrics"), list) and all(isinstance(name, str) for name in event["metrics"])
    ),
    "metrics": _is_metrics,
    "plan": lambda event: all(
        type(event.get(name)) is int and 0 < event[name] < MAX_NUMBER
        for name in ("epochs", "steps_per_epoch", "samples_per_epoch")
    ),
    "rewind": lambda event: type(event.get("step")) is int and 0 <= event["step"] < MAX_NUMBER,
    SAMPLE: _is_sample,
    PACKED: lambda _: False,
}
"""Checks by kind, made when a line is read, so that later code can use thousands of events unchecked."""


class Tail:
    """Reads one event file as it grows, up to the last newline."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.garbage_lines = 0
        """Number of lines so far that were no event, and were skipped."""
        self.latest = 0.0
        """Unix seconds of the latest event so far."""
        self.trouble = ""
        """Why an existing file could not be read; the empty string if it could."""
        self.offset = 0
        """Bytes that were read."""
        self._name = os.fspath(path)
        self._given_up = False

    def skip(self) -> None:
        """Skip all present events."""
        self.offset = whole_bytes(self.path)

    def read(
        self, max_bytes: int = sys.maxsize, pack: Callable[[bytes, float], Event | None] | None = None
    ) -> list[Event]:
        """Return the events completed since the last call, in file order; none while there is no file.

        `pack`: makes one event of a block of lines, given the time of the event before them; None if it cannot.
        """
        try:
            # Every poll comes here, and mostly nothing was added: then the file is not even opened.
            found = os.lstat(self._name)
            if self._given_up or (found.st_size == self.offset and stat.S_ISREG(found.st_mode)):
                return []
            with open_to_read(self._name) as file:
                self.trouble = ""
                blocks = list(self._blocks(file, max_bytes))
        except FileNotFoundError:
            return []
        except OSError as error:
            self.trouble = error.strerror or str(error)
            return []
        events: list[Event] = []
        for block in blocks:
            packed = pack(block, self.latest) if pack is not None else None
            if packed is None:
                events += self._events(block)
            else:
                self.latest = packed["t"]
                events.append(packed)
        return events

    def _blocks(self, file: BinaryIO, max_bytes: int) -> Iterator[bytes]:
        """Yield the whole lines that the file has now, in blocks, and move the offset beyond them."""
        left = min(max_bytes, os.fstat(file.fileno()).st_size - self.offset)
        while left > 0:
            file.seek(self.offset)
            data = file.read(min(left, MAX_LINE_BYTES))
            size = data.rfind(b"\n") + 1
            if not size:
                if len(data) == MAX_LINE_BYTES:
                    self._given_up = True
                    self.trouble = tr("it has a line of more than {limit} bytes", limit=MAX_LINE_BYTES)
                return
            self.offset += size
            left -= size
            yield data[:size]

    def _events(self, block: bytes) -> list[Event]:
        parsed = parse_lines(block)
        events = [event for event in parsed if event is not None]
        self.garbage_lines += len(parsed) - len(events)
        latest = self.latest
        for event in events:
            at = event["t"]
            # Events of a file keep their order even when the clock is set back.
            if type(at) is not float or at < latest:
                at = event["t"] = max(latest, float(at))
            latest = at
        self.latest = latest
        return events
