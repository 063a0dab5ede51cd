"""Write curves as a TensorBoard event file: the format that `tensorboard` reads, without TensorFlow.

All records of a curve whose steps have equally many bytes have one length, so numpy makes thousands of them at once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from core.metrics.files.crc32c import crc32c, crc32c_of_rows, masked, masked_all
from core.metrics.files.protobuf import written_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from core.series.min_max_tree import Floats
    from core.series.series import Series

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

    @classmethod
    def of(cls, name: str, series: Series) -> ScalarCurve:
        """Return the curve of a series, without copying it."""
        return cls(tag=name, steps=series.steps, times=series.times, values=series.values)

    @property
    def too_large(self) -> int:
        """The number of finite values that are infinite in 32 bits."""
        return int(np.count_nonzero(np.isfinite(self.values) & (np.abs(self.values) > LARGEST)))


def event_file(curves: list[ScalarCurve], began: float) -> Iterator[bytes]:
    """Yield the content of an event file in pieces. `began`: the time of the file, in unix seconds."""
    yield _framed(b"\x09" + struct.pack("<d", began) + b"\x1a" + written_varint(len(VERSION)) + VERSION)
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
    ])  # fmt: skip
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


def _framed(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + _checksum(length) + record + _checksum(record)


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", masked(crc32c(data)))
