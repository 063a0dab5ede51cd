"""What lines say, for programs that print the same line again and again with other numbers: its shape is learned.

When a shape is met for the second time, the line is read in full several times with other digits, and from what it
then says, where each number of a statement stands in the line. From then on these are all that is fetched. Where that
remains unclear, lines of the shape are read in full for ever.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

from core.metrics.dialects import bars
from core.metrics.text.learned import UnclearError, learn
from core.metrics.text.shape import NUMBER, other_line, shape_of
from core.metrics.text.statement import state

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.metrics.text.learned import Learned
    from core.metrics.text.shape import Shape
    from core.metrics.text.statement import Statement

    Kept = TypeVar("Kept")

MOST = 4096
"""Shapes that are remembered, and as many that were met once."""
LONGEST = 2000
MAX_NUMBERS = 48
"""Lines of more characters, or with more numbers, are read in full."""
OTHERS = 4
"""A line is read so often with other digits."""


class Shapes:
    """Says what lines say, and remembers shapes."""

    def __init__(self, read: Callable[[str], Statement] = state) -> None:
        """`read`: reads a line in full."""
        self._read = read
        self._known: dict[Shape, Learned | None] = {}
        self._met: dict[Shape, None] = {}
        self._chance = random.Random(0)  # noqa: S311 (any digits will do)

    def state(self, text: str) -> Statement:
        """What a line says: the same as if it were read in full."""
        # Keras' bars are read in full sooner than their shape is known.
        if len(text) > LONGEST or bars.KERAS.match(text):
            return self._read(text)
        parts = NUMBER.split(text)
        if not 1 < len(parts) <= 2 * MAX_NUMBERS + 1:
            return self._read(text)
        numbers = [float(number) for number in parts[1::2]]
        shape = shape_of(parts, numbers)
        learned = self._known.get(shape)
        if learned is not None:
            return learned.state(numbers)
        said = self._read(text)
        if shape in self._met:
            del self._met[shape]
            _keep(self._known, shape, self._learn(said, shape, parts))
        elif shape not in self._known:
            _keep(self._met, shape, None)
        return said

    def _learn(self, said: Statement, shape: Shape, parts: list[str]) -> Learned | None:
        """None where it remains unclear."""
        statements, lines = [said], [[float(number) for number in parts[1::2]]]
        for _ in range(OTHERS):
            other = other_line(parts, shape, self._chance)
            if other is None:
                return None
            statements.append(self._read("".join(other)))
            lines.append([float(number) for number in other[1::2]])
        try:
            return learn(statements, lines)
        except UnclearError:
            return None


def _keep(kept: dict[Shape, Kept], shape: Shape, value: Kept) -> None:
    """The oldest goes: it is learned anew, should it come again."""
    if len(kept) >= MOST:
        del kept[next(iter(kept))]
    kept[shape] = value
