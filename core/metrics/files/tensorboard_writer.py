"""Write curves as a TensorBoard event file in a folder: the format that `tensorboard` reads, without TensorFlow.

All records of a curve whose steps have equally many bytes have one length, so numpy makes thousands of them at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.language import tr
from core.metrics.files.encoding import crc32c, crc32c_of_rows, masked, masked_all, written_varint
from core.series.min_max_tree import Floats
from core.series.report import export_file
from core.series.run_series import RunSeries
from core.system.folders import writing

SUFFIX = ".trainyard"
"""How the names of event files end that Trainyard has written."""


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise `ValueError` with a sentence if the folder has event files, unless they may be replaced and are ours.

    TensorBoard shows all event files of one folder as one run, and would mix their curves.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(tr("{path} is a file. Name a folder for the event files.", path=folder))
    found = event_files(folder)
    if foreign := next((each for each in found if each.suffix != SUFFIX), None):
        raise ValueError(
            tr("{folder} has the event file {name} of another program, and TensorBoard would mix their curves. "
               "Name another folder.", folder=folder, name=foreign.name)
        )
    if found and not force:
        raise ValueError(
            tr("{folder} has event files of an earlier export. Name another folder, or add --force to replace them.",
               folder=folder)
        )


def event_files(folder: Path) -> list[Path]:
    """Return the event files in a folder; none if it is missing or cannot be read."""
    try:
        return sorted(each for each in folder.iterdir() if "tfevents" in each.name)
    except OSError:
        return []


def write_folder(run_series: RunSeries, folder: Path) -> list[ScalarCurve]:
    """Write all metrics as scalars, and return them. Earlier event files of Trainyard in the folder are deleted.

    Raises `RunError` with a sentence, and then leaves the folder as it was.
    """
    curves = [
        ScalarCurve(tag=name, steps=series.steps, times=series.times, values=series.values)
        for name, series in sorted(run_series.metrics.items())
        if len(series)
    ]
    began = run_series.started or 0.0
    path = folder / f"events.out.tfevents.{int(began):010d}{SUFFIX}"
    with writing(folder, tr("Name another folder.")):
        folder.mkdir(parents=True, exist_ok=True)
    with export_file(path) as file:
        file.writelines(event_file(curves, began))
    for old in event_files(folder):
        if old.suffix == SUFFIX and old != path:
            old.unlink(missing_ok=True)
    return curves


VERSION = b"brain.Event:2"
"""The version in which a reader does not take an earlier step for a restart, which would void the later ones."""
ROWS = 8192
"""Records that are made at once."""
LARGEST = float(np.finfo(np.float32).max)
"""Scalars of TensorBoard have 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarCurve:
    """A metric under the tag that TensorBoard shows. The three columns have shape (n,); times are unix seconds."""

    tag: str
    steps: Floats
    times: Floats
    values: Floats

    @property
    def too_large(self) -> int:
        """The number of finite values that are infinite in 32 bits."""
        return int(np.count_nonzero(np.isfinite(self.values) & (np.abs(self.values) > LARGEST)))


def event_file(curves: list[ScalarCurve], began: float) -> Iterator[bytes]:
    """Yield the content of an event file in pieces. `began`: the time of the file, in unix seconds."""
    first = b"\x09" + struct.pack("<d", began) + b"\x1a" + written_varint(len(VERSION)) + VERSION
    length = struct.pack("<Q", len(first))
    yield length + _checksum(length) + first + _checksum(first)
    for curve in curves:
        for start, stop, size in _pieces(curve.steps):
            yield _records(curve, start, stop, size)


def _pieces(steps: Floats) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of at most `ROWS` neighbours whose steps have equally many bytes as varints: start, stop, bytes."""
    sizes = np.ones(len(steps), dtype=np.int8)
    for bits in range(7, 63, 7):
        sizes += steps >= 2.0**bits
    sizes[steps < 0] = 10  # a negative number has 64 bits
    borders = np.concatenate([[0], np.flatnonzero(np.diff(sizes)) + 1, [len(steps)]]).tolist()
    for begin, end in pairwise(borders):
        for start in range(begin, end, ROWS):
            yield start, min(start + ROWS, end), int(sizes[start])


def _records(curve: ScalarCurve, start: int, stop: int, size: int) -> bytes:
    """Return the records of a range of a curve, whose steps have `size` bytes each."""
    count = stop - start
    tag = curve.tag.encode("utf-8", "replace")
    value = b"\x0a" + written_varint(len(tag)) + tag + b"\x15"  # `simple_value` follows
    inner = b"\x0a" + written_varint(len(value) + 4) + value
    head = b"\x2a" + written_varint(len(inner) + 4) + inner
    length = struct.pack("<Q", 9 + 1 + size + len(head) + 4)
    with np.errstate(over="ignore"):  # told before: see `too_large`
        values = curve.values[start:stop].astype("<f4")
    record = np.hstack([
        _column(b"\x09", count), _bytes(curve.times[start:stop].astype("<f8")),
        _column(b"\x10", count), _varints(curve.steps[start:stop].astype(np.int64), size),
        _column(head, count), _bytes(values),
    ])
    checksums = _bytes(masked_all(crc32c_of_rows(record)).astype("<u4"))
    return np.hstack([_column(length + _checksum(length), count), record, checksums]).tobytes()


def _column(data: bytes, count: int) -> NDArray[np.uint8]:
    """Return the same bytes in each row, shape (count, n)."""
    return np.broadcast_to(np.frombuffer(data, np.uint8), (count, len(data)))


def _bytes(numbers: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Return the bytes of each number, shape (n,) -> (n, size)."""
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1)


def _varints(numbers: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Return numbers of `size` bytes each as varints, shape (n,) -> (n, size)."""
    groups = numbers.view(np.uint64)[:, None] >> (np.uint64(7) * np.arange(size, dtype=np.uint64))
    groups &= np.uint64(0x7F)
    groups[:, :-1] |= np.uint64(0x80)
    return groups.astype(np.uint8)


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", masked(crc32c(data)))
