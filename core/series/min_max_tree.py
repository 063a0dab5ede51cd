"""A growing array of numbers, and fast minima, maxima and sums over any of its ranges."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, TypeAlias

from core.arrays import np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"
Indices: TypeAlias = "NDArray[np.intp]"
HUGE_PAGES_BYTES = 1 << 22
"""Size from which on numpy asks for huge pages. On a virtual machine, the first touch of one can take 5 ms and more, in
which two megabytes are cleared."""
NUMBER_BYTES = 8
FACTOR = 16
"""Blocks of one level in a block of the next."""
FACTOR_BITS = 4
"""The factor is 2 to the power of this."""


class GrowableArray:
    """A float64 array that grows by doubling, so that appending costs O(1) per number on average."""

    def __init__(self, capacity: int = 16) -> None:
        """`capacity`: the numbers that it holds before it first grows.

        Arrays of different capacities that are filled together grow at different moments. Growing copies all numbers,
        which for three arrays of half a million takes 13 ms.
        """
        self._data: Floats = np.empty(capacity)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def array(self) -> Floats:
        """All numbers, shape (n,): a view, valid until the next call that changes the array."""
        return self._data[: self._size]

    def extend(self, values: NDArray[Any]) -> None:
        """Append `values`, shape (k,)."""
        end = self._size + len(values)
        if end > len(self._data) or not self._data.flags.writeable:
            # Not `resize`: existing views must not point into freed memory.
            grown = _room_for(max(end, 2 * len(self._data)))
            grown[: self._size] = self.array
            self._data = grown
        self._data[self._size : end] = values
        self._size = end

    def truncate(self, size: int) -> None:
        """Keep only the first `size` numbers."""
        self._size = min(self._size, size)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the numbers without the room for more. Loaded ones may be read-only."""
        return {"_data": self.array, "_size": self._size}


def _room_for(count: int) -> Floats:
    """Return an array of any numbers, shape (count,), without huge pages."""
    size = count * NUMBER_BYTES
    if size < HUGE_PAGES_BYTES:
        return np.empty(count)
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype=np.float64)


class RangeTree:
    """Reduces ranges of an array with one ufunc, in O(log n) for each range.

    Level k holds the reduction of each complete block of `FACTOR ** k` numbers. Incomplete blocks are read from the
    level below, so appending never changes a block. Sums of ranges are sums of blocks, not differences of prefix sums:
    one loss of 1e30 would erase the digits of all later prefix sums, but here it affects only its own blocks.
    """

    def __init__(self, numbers: GrowableArray, reduce: np.ufunc, leaf: Callable[[Floats], Floats]) -> None:
        """`leaf` prepares the numbers for `reduce`, for example by replacing infinities by NaN."""
        self._numbers = numbers
        self._reduce = reduce
        self._leaf = leaf
        self._neutral = 0.0 if reduce is np.add else np.nan  # fmin and fmax ignore NaN
        self._levels: list[GrowableArray] = []

    def grow(self) -> None:
        """Add blocks for the numbers appended since the last query, which does this, too: together it is faster."""
        level, below, leaf = 0, self._numbers, self._leaf
        while len(below) >= FACTOR:
            if level == len(self._levels):
                self._levels.append(GrowableArray())
            blocks = self._levels[level]
            complete = len(below) // FACTOR
            if complete == len(blocks):
                return
            fresh = leaf(below.array[len(blocks) * FACTOR : complete * FACTOR])
            blocks.extend(self._combine(fresh.reshape(-1, FACTOR)))
            level, below, leaf = level + 1, blocks, as_is

    def truncate(self, size: int) -> None:
        """Drop all blocks that extend beyond the first `size` numbers."""
        for level in self._levels:
            size //= FACTOR
            level.truncate(size)

    def query(self, starts: Indices, stops: Indices) -> Floats:
        """Reduce each range [start, stop) and return shape (m,). An empty range gives 0 for sums, otherwise NaN."""
        self.grow()
        blocks = self._whole_blocks(starts, stops)
        if blocks is not None:
            return blocks
        result = np.full(len(starts), self._neutral)
        level, leaf = self._numbers.array, self._leaf
        for above in [*self._levels, None]:
            inner = np.minimum(-(-starts // FACTOR) * FACTOR, stops)
            outer = np.maximum(stops // FACTOR * FACTOR, inner)
            for first, last in ((starts, inner), (outer, stops)):
                result = self._merge(result, self._edge(level, leaf, first, last))
            starts, stops = inner // FACTOR, outer // FACTOR
            if above is None or not np.any(starts < stops):
                break
            level, leaf = above.array, as_is
        return result

    def _whole_blocks(self, starts: Indices, stops: Indices) -> Floats | None:
        """Reduce adjacent ranges that consist of whole blocks of one level; None for others. It is ten times faster."""
        if not len(starts) or (starts >= stops).any() or (starts[1:] != stops[:-1]).any():
            return None
        ends = int(np.bitwise_or.reduce(starts)) | int(stops[-1])
        level = min(((ends & -ends).bit_length() - 1) // FACTOR_BITS, len(self._levels))
        if level == 0:
            return None
        size = FACTOR**level
        blocks = self._levels[level - 1].array[: int(stops[-1]) // size]
        with np.errstate(over="ignore", invalid="ignore"):
            reduced: Floats = self._reduce.reduceat(blocks, starts // size)
        return reduced

    def _edge(self, level: Floats, leaf: Callable[[Floats], Floats], starts: Indices, stops: Indices) -> Floats:
        """Reduce ranges of fewer than `FACTOR` blocks each, block by block."""
        width = int(np.max(stops - starts, initial=0))
        if width == 0:
            return np.full(len(starts), self._neutral)
        # One row for each position within the ranges: numpy reduces fastest along the first axis.
        index = starts + np.arange(width)[:, None]
        numbers = leaf(level.take(index, mode="clip"))
        numbers[index >= stops] = self._neutral
        return self._combine(numbers, axis=0)

    def _combine(self, numbers: Floats, axis: int = 1) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):  # a sum beyond float64 is infinite: a gap
            reduced: Floats = self._reduce.reduce(numbers, axis=axis)
        return reduced

    def _merge(self, one: Floats, other: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            merged: Floats = self._reduce(one, other)
        return merged


def as_is(numbers: Floats) -> Floats:
    """Return the numbers."""
    return numbers


def finite_or_nan(values: Floats) -> Floats:
    """Return the values with NaN in place of infinities."""
    return np.where(np.isfinite(values), values, np.nan)


def finite_or_zero(values: Floats) -> Floats:
    """Return the values with 0 in place of what is not finite."""
    return np.where(np.isfinite(values), values, 0.0)
