"""What all lines of a shape say, learned from some of them: which of its numbers is which of the line's.

Of several lines of a shape it is known what they say. What changes from line to line just as one of their numbers
does, or a hundredth of it, or the quotient of two, is that; what is the same in all of them is the same in every line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from core.metrics.common.reading import Reading
from core.metrics.text.statement import Statement

SCALES = (1e3, 1e6, 1e9, 1e12, 1e15)
"""`1.50k/3.00k` on tqdm's bars."""

OF_READING = ("step", "epoch", "done", "total", "time")
OF_STATEMENT = ("epochs", "length")
NOTHING = -1
"""The place of None, behind all numbers."""
Making = Callable[[Sequence[float]], float]
"""Makes a number of those of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """All that a line of the shape says."""

    example: Statement
    made: tuple[Making, ...]  # of the line's numbers: shares, quotients
    names: tuple[str, ...]
    fetch: Callable[[Sequence[float | None]], tuple[Any, ...]]
    """Of the line's numbers, those made of them, and None: the fields of reading and statement, and all values."""

    def state(self, numbers: Sequence[float]) -> Statement:
        """What a line with these numbers says."""
        example = self.example
        if example.reading is None:
            return example
        _, dialect, _, over, heading, bar, _ = example
        step, epoch, done, total, time, epochs, length, *values = self.fetch(
            [*numbers, *[make(numbers) for make in self.made], None] if self.made else [*numbers, None]
        )
        reading = Reading(
            values=dict(zip(self.names, values, strict=True)),
            step=None if step is None else int(step),
            epoch=epoch,
            done=done,
            total=total,
            unit=example.reading.unit,
            time=time,
        )
        return Statement(reading, dialect, epochs, over, heading, bar, length)


class UnclearError(ValueError):
    """What a shape's lines say cannot be learned from these."""


def learn(statements: Sequence[Statement], lines: Sequence[Sequence[float]]) -> Learned:
    """What all lines of a shape say, of which some have said `statements` and have these numbers.

    Raises `UnclearError` when they do not agree, or when it cannot be told where one of their numbers comes from.
    """
    if len({_without_numbers(each) for each in statements}) > 1:
        raise UnclearError("the lines say different things")
    readings = [each.reading for each in statements if each.reading is not None]
    names = tuple(readings[0].values) if readings else ()
    wanted = [[getattr(reading, name) for reading in readings] for name in OF_READING]
    wanted += [[getattr(statement, name) for statement in statements] for name in OF_STATEMENT]
    wanted += [[reading.values[name] for reading in readings] for name in names]
    sources = _Sources(lines)
    places = [sources.place(each) for each in wanted]
    return Learned(example=statements[0], made=tuple(sources.made), names=names, fetch=itemgetter(*places))


def _without_numbers(said: Statement) -> object:
    """All of a statement but what its numbers are."""
    reading = said.reading
    told = [getattr(said, name) is not None for name in OF_STATEMENT]
    told += [getattr(reading, name) is not None for name in OF_READING] if reading else []
    return (
        (said.dialect, said.over, said.heading, said.bar),
        (tuple(reading.values), reading.unit) if reading else None,
        tuple(told),
    )


class _Sources:
    """The numbers of some lines of one shape, and what is made of them."""

    def __init__(self, lines: Sequence[Sequence[float]]) -> None:
        self._lines = lines
        self._columns = list(zip(*lines, strict=True))
        self.made: list[Making] = []
        changing = [column for column in self._columns if any(column)]
        if len(set(changing)) < len(changing) or any(len(set(column)) == 1 for column in changing):
            raise UnclearError("numbers that are alike cannot be told apart")

    def place(self, wanted: Sequence[float | None]) -> int:
        """Where a number comes from: its place among the line's and those made of them, or that of None.

        Raises `UnclearError`.
        """
        if all(number is None for number in wanted):
            return NOTHING
        first = wanted[0]
        if first is not None and len(set(map(repr, wanted))) == 1:
            return self._make(partial(_always, first))
        if tuple(wanted) in self._columns:
            return self._columns.index(tuple(wanted))
        for makings in (self._of_one, self._of_two):
            fitting = [make for make in makings() if [make(line) for line in self._lines] == list(wanted)]
            if len(fitting) == 1:
                return self._make(fitting[0])
        raise UnclearError("a number comes from nowhere")

    def _of_one(self) -> Iterator[Making]:
        for at in range(len(self._columns)):
            yield partial(_divided, at, -1.0)
            yield partial(_divided, at, 100.0)
            yield partial(_divided, at, -100.0)
            yield from (partial(_multiplied, at, scale) for scale in SCALES)

    def _of_two(self) -> Iterator[Making]:
        dividing = [at for at, column in enumerate(self._columns) if all(column)]
        for one in range(len(self._columns)):
            yield from (partial(_quotient, one, other) for other in dividing if other != one)

    def _make(self, make: Making) -> int:
        self.made.append(make)
        return len(self._columns) + len(self.made) - 1


def _always(number: float, _: Sequence[float]) -> float:
    return number


def _divided(at: int, by: float, numbers: Sequence[float]) -> float:
    return numbers[at] / by


def _multiplied(at: int, by: float, numbers: Sequence[float]) -> float:
    return numbers[at] * by


def _quotient(one: int, other: int, numbers: Sequence[float]) -> float:
    return numbers[one] / numbers[other]
