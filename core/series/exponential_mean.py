"""The bias-corrected exponential mean of a growing array."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from core.arrays import np
from core.series.min_max_tree import GrowableArray, RangeTree, finite_or_zero

if TYPE_CHECKING:
    from core.series.min_max_tree import Floats

BLOCK = 64
"""Values in a block of `_recur`."""
FEW = 4 * BLOCK
"""Up to this many values, a plain loop is as fast as blocks."""
PART = 1 << 20
"""Values that are averaged at once, to bound the memory."""


class ExponentialMean:
    """The mean after each value, in which a value counts `weight` times as much as its successor.

    The formula is TensorBoard's (`tf_line_chart_data`, `resmoothDataset`): m = weight * m + (1 - weight) * value,
    beginning at 0, and mean = m / (1 - weight ** n) after n values. The division corrects the bias towards 0, so that
    the mean begins at the first value. As there, a value that is not finite gets no mean and changes none.
    """

    def __init__(self, weight: float) -> None:
        """`weight`: above 0, below 1."""
        self.weight = weight
        self._means = GrowableArray(480)
        self.totals = RangeTree(self._means, np.add, finite_or_zero)
        """Sums of the means over ranges; a value without a mean counts as 0."""
        self._count = 0
        """Finite values so far."""
        self._state = 0.0
        """m after the last finite value."""

    def __len__(self) -> int:
        return len(self._means)

    @property
    def array(self) -> Floats:
        """The mean after each value, shape (n,); NaN after one that is not finite."""
        return self._means.array

    def extend(self, values: Floats) -> None:
        """Append values, shape (k,). Earlier means stay as they are: the cost is O(k)."""
        for begin in range(0, len(values), PART):
            self._extend(values[begin : begin + PART])

    def truncate(self, size: int) -> None:
        """Keep only the means of the first `size` values."""
        self._means.truncate(size)
        self.totals.truncate(size)
        kept = self.array[np.isfinite(self.array)]
        self._count = len(kept)
        self._state = float(kept[-1] * self._correction(self._count)) if len(kept) else 0.0

    def _extend(self, values: Floats) -> None:
        finite = np.isfinite(values)
        numbers = values[finite]
        means = np.full(len(values), np.nan)
        if len(numbers):
            states = _recur((1 - self.weight) * numbers, self.weight, self._state)
            counts = np.arange(self._count + 1, self._count + len(numbers) + 1)
            with np.errstate(over="ignore"):  # at the limit of float64 a mean may be rounded to infinity
                means[finite] = states / self._correction(counts)
            self._state, self._count = float(states[-1]), int(counts[-1])
        self._means.extend(means)

    def _correction(self, counts: int | np.ndarray) -> Floats:
        """Return 1 - weight ** counts."""
        corrections: Floats = -np.expm1(np.log(self.weight) * counts)
        return corrections


def _recur(numbers: Floats, weight: float, state: float) -> Floats:
    """Return all states of state = weight * state + number, shape (n,).

    All blocks are computed side by side from 0. Their ends follow a recurrence of the same form, which then gives the
    state before each block.
    """
    if len(numbers) <= FEW:
        states = accumulate(numbers.tolist(), lambda before, number: weight * before + number, initial=state)
        return np.array(list(states)[1:])
    count = len(numbers) // BLOCK
    blocks = numbers[: count * BLOCK].reshape(count, BLOCK).T.copy()
    for row in range(1, BLOCK):
        blocks[row] += weight * blocks[row - 1]
    ends = _recur(blocks[-1], weight**BLOCK, state)
    before = np.concatenate([[state], ends[:-1]])
    blocks += weight ** np.arange(1, BLOCK + 1)[:, None] * before
    rest = _recur(numbers[count * BLOCK :], weight, float(ends[-1]))
    return np.concatenate([blocks.T.ravel(), rest])
