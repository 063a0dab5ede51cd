"""Long runs: keep those that were read in the user's cache folder, so that another window or command need not read them
again. Of a run that is still to be read, a sketch is shown meanwhile: some of its events, read in milliseconds.

A file has what was made of a run's events: an index, the pickled objects without their arrays, and the arrays. They are
mapped into memory, so that loading a run of a million steps takes milliseconds. A file is used only if the program, the
language and the event files are those of which it was made, except for what the event files have got since. Deleting
the folder loses nothing.

The folder is the user's own, as that of Python's compiled files is. Still, only objects of this program are unpickled.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import itertools
import json
import mmap
import os
import pickle
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from core import language
from core.runs.facts import RunFacts
from core.runs.fold import fold
from core.runs.run import Run
from core.schema.event_log import most_files
from core.schema.events import Event, parse_lines
from core.schema.files import TEMPORARY, open_to_read, write_parts
from core.schema.paths import EVENTS, EVENTS_SUFFIX, SPEC_FILE, SUPERVISOR_EVENTS
from core.series.run_series import RunSeries
from core.system.folders import cache_folder, cache_of_run, make_cache_folder

FORMAT = b"trainyard run 1\n"
MAX_BYTES = 4 * 1024 * 1024 * 1024
"""Bytes of all files together, a comparison of a hundred runs of a million steps; those that were used longest ago are
deleted first."""
ROOM_SHARE = 10
"""All files together take at most this part of the room that the disk would have without them: one tenth."""
FREE_SHARE = 20
"""A file is written only if the free space of the disk is that many times its size."""
WRITTEN_S = 3600.0
"""Seconds after which the temporary file of a writer counts as left over."""
ALIGNMENT = 64
"""Bytes at whose multiples arrays begin."""
MADE_OF = (
    "core", "core/diagnosis", "core/runs", "core/runs/facts", "core/schema", "core/series", "core/system", "gui/runs",
)
"""Folders of the program whose code decides what is in a file."""
PROGRAM = ("core.", "gui.")
FOREIGN = {
    "collections": {"deque"},
    "numpy": {"add", "dtype", "fmax", "fmin", "ndarray"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.numeric": {"_frombuffer"},
    "pathlib": {"PosixPath"},
    "pathlib._local": {"PosixPath"},
}
"""Objects of other packages that may be loaded, by module."""

Seen = dict[str, tuple[int, int, int]]
"""Inode, size and modification time in nanoseconds of each event file, and of the spec, by name."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A run that is ready to be written, also by another thread."""

    path: Path
    parts: Sequence[bytes | memoryview]

    def write(self) -> None:
        """Write the file and delete old ones. Raises `OSError`."""
        make_cache_folder(self.path.parent)
        size = sum(len(part) for part in self.parts)
        if size > MAX_BYTES or size * FREE_SHARE > shutil.disk_usage(self.path.parent).free:
            return
        write_parts(self.path, self.parts)
        _delete_old()


def pack(run: Run, objects: object) -> Packed | None:
    """Return what is to be written of a run; None if it cannot be kept.

    `objects`: all that was made of its events, and the run itself. Arrays are not copied: call this where no other
    thread changes the objects. Later they may only grow.
    """
    seen = _seen(run.dir)
    if run.owner is not None or not seen:
        return None
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(objects, protocol=5, buffer_callback=arrays.append)
    buffers = [array.raw() for array in arrays]
    index = json.dumps(
        {
            "code": _code(), "language": language.current(), "run": str(run.dir), "seen": seen, "pickled": len(pickled),
            "arrays": [buffer.nbytes for buffer in buffers],
        }
    ).encode()
    parts: list[bytes | memoryview] = [FORMAT + len(index).to_bytes(8, "little") + index, pickled]
    at = sum(map(len, parts))
    for buffer in buffers:
        gap = -at % ALIGNMENT
        parts += [bytes(gap), buffer]
        at += gap + buffer.nbytes
    return Packed(_path(run.dir), parts)


def load(run_dir: Path) -> Any | None:  # noqa: ANN401 (as they were packed)
    """Return the objects that were packed of this run; None if there are none that can be used.

    Event files may have grown since: `Run.poll` reads the rest. Arrays are read-only.
    """
    path = _path(run_dir)
    # A file that is damaged in whatever way counts as none: then the run is read.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, ImportError,
                             IndexError, pickle.UnpicklingError):
        with open_to_read(path) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:  # others may write it
                return None
            data = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        objects = _unpacked(data, run_dir)
        if objects is not None:
            os.utime(path)  # it was used now
        return objects
    return None


def _unpacked(data: memoryview, run_dir: Path) -> Any | None:  # noqa: ANN401 (as they were packed)
    """Return the objects in a file's bytes; None if they are not those of this run as it is now."""
    begin = len(FORMAT) + 8
    if bytes(data[: len(FORMAT)]) != FORMAT:
        return None
    at = begin + int.from_bytes(data[len(FORMAT) : begin], "little")
    index = json.loads(bytes(data[begin:at]))
    if (index["code"], index["run"]) != (_code(), str(run_dir)):
        return None
    if not _has_grown(index["seen"], _seen(run_dir)):
        return None
    pickled, at = data[at : at + index["pickled"]], at + index["pickled"]
    arrays = []
    for size in index["arrays"]:
        at += -at % ALIGNMENT
        arrays.append(data[at : at + size])
        at += size
    if at != len(data):
        return None
    return _Unpickler(io.BytesIO(pickled), buffers=arrays).load()


class _Unpickler(pickle.Unpickler):  # noqa: S301 (which it makes safe)
    """Loads objects of this program, and what those are made of."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 (a class, or a function)
        if (module, name) == ("builtins", "getattr"):
            return _member
        if module.startswith(PROGRAM) or name in FOREIGN.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def _member(kind: object, name: str) -> Enum:
    """Return a member of an enumeration: Python 3.11.0 to 3.11.3 pickle one as a call of `getattr`."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[name]
    raise pickle.UnpicklingError(f"{kind}.{name}")


def _path(run_dir: Path) -> Path:
    return cache_of_run(run_dir) / f"{language.current()}.run"


def _seen(run_dir: Path) -> Seen:
    """Return the state of the event files, and of the spec; nothing if they cannot be listed."""
    try:
        with os.scandir(run_dir / EVENTS) as entries:
            found = {entry.name: entry.stat() for entry in entries if entry.name.endswith(EVENTS_SUFFIX)}
        found[SPEC_FILE] = (run_dir / SPEC_FILE).stat()
    except OSError:
        return {}
    return {name: (status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found.items()}


def _has_grown(before: dict[str, list[int]], now: Seen) -> bool:
    """Return whether the files are those that they were, or have only become longer; the spec must be the same."""
    for name, (inode, size, changed) in before.items():
        new_inode, new_size, new_changed = now.get(name, (0, 0, 0))
        is_same = (new_size, new_changed) == (size, changed)
        if new_inode != inode or not (is_same or (new_size > size and name != SPEC_FILE)):
            return False
    return True


@functools.cache
def _code() -> str:
    """Return what identifies the code of this program: the times and sizes of its files."""
    root = Path(__file__).parents[2]
    names = sorted(path for folder in MADE_OF for path in (root / folder).glob("*.py"))
    states = [(path.name, status.st_size, status.st_mtime_ns) for path in names if (status := path.stat())]
    return hashlib.sha256(repr(states).encode()).hexdigest()[:16]


def _delete_old() -> None:
    """Delete the files that were used longest ago, if all together are too large, and what a killed writer left."""
    found = []
    for path in cache_folder().glob("runs/*/*"):
        with contextlib.suppress(OSError):
            found.append((path, path.lstat()))
    room = shutil.disk_usage(cache_folder()).free + sum(status.st_size for _, status in found)
    total, limit = 0, min(MAX_BYTES, room // ROOM_SHARE)
    for path, status in sorted(found, key=lambda each: each[1].st_mtime, reverse=True):
        total += status.st_size
        is_left = path.suffix == TEMPORARY and time.time() - status.st_mtime > WRITTEN_S
        if total > limit or is_left:
            with contextlib.suppress(OSError):
                path.unlink()
                path.parent.rmdir()  # fails if there is another file


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


def sketch(run_dir: Path) -> tuple[RunFacts, RunSeries]:
    """Return the facts, and a part of the values from the whole length of the run.

    The state is the present one; what lies between the places that were read is missing.
    """
    head = Run(run_dir, only=(SUPERVISOR_EVENTS,))
    events = head.catch_up()
    files = sorted(_files(run_dir), key=itemgetter(1), reverse=True)[:MAX_FILES]
    large = [(name, size) for name, size in files if not name.endswith(f"/{SUPERVISOR_EVENTS}")]
    for each in large:
        events += _ends(*each)
    until = time.monotonic() + BUDGET_S
    pending = [_between(*each) for each in large]
    while pending and time.monotonic() < until:
        for places in list(pending):
            found = next(places, None)
            if found is None:
                pending.remove(places)
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
    )
    return facts, run_series


def _ends(path: str, size: int) -> list[Event]:
    """Return the events at the beginning and at the end of a file."""
    if size <= 2 * END_BYTES:
        return _read(path, (0, size))
    return _read(path, (0, END_BYTES), (size - END_BYTES, END_BYTES))


def _between(path: str, size: int) -> Iterator[list[Event]]:
    """Yield the events at places between the ends: first in the middle, then in the middles of the halves, ..."""
    room = size - 2 * END_BYTES
    for number in range(1, min(MAX_PLACES, max(room, 0) // BLOCK_BYTES)):
        # The fraction whose binary digits are those of `number` in reverse (van der Corput).
        halved = int(f"{number:b}"[::-1], 2) / (1 << number.bit_length())
        yield _read(path, (END_BYTES + int(room * halved), BLOCK_BYTES))


def _read(path: str, *places: tuple[int, int]) -> list[Event]:
    try:
        with open_to_read(path) as file:
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


def _files(run_dir: Path) -> list[tuple[str, int]]:
    folder = run_dir / EVENTS
    try:
        with os.scandir(folder) as entries:
            return [
                (entry.path, entry.stat(follow_symlinks=False).st_size)
                for entry in itertools.islice(entries, most_files(folder))
                if entry.name.endswith(EVENTS_SUFFIX) and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return []
