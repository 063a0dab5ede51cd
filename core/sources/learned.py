"""What all lines of a shape say, learned from some of them: which of its numbers is which of the line's.

Of several lines of a shape it is known what they say. What changes from line to line just as one of their numbers
does, or a hundredth of it, or the quotient of two, is that; what is the same in all of them is the same in every line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from core.sources.reading import Reading
from core.sources.statement import Statement

SCALES = (1e3, 1e6, 1e9, 1e12, 1e15)
"""`1.50k/3.00k` on tqdm's bars."""

Making = Callable[[Sequence[float]], float]
"""Makes a number of those of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """All that a line of the shape says. Numbers are named by their place among those of the line and those `made`."""

    example: Statement
    made: tuple[Making, ...]  # of the line's numbers: shares, quotients
    names: tuple[str, ...]
    values: tuple[int, ...]
    step: int | None
    epoch: int | None
    done: int | None
    total: int | None
    time: int | None
    epochs: int | None
    length: int | None

    def state(self, numbers: list[float]) -> Statement:
        """What a line with these numbers says."""
        example = self.example
        if example.reading is None:
            return example
        if self.made:
            numbers = numbers + [make(numbers) for make in self.made]
        reading = Reading(
            values=dict(zip(self.names, [numbers[at] for at in self.values], strict=True)),
            step=None if self.step is None else int(numbers[self.step]),
            epoch=None if self.epoch is None else numbers[self.epoch],
            done=None if self.done is None else numbers[self.done],
            total=None if self.total is None else numbers[self.total],
            unit=example.reading.unit,
            time=None if self.time is None else numbers[self.time],
        )
        return Statement(
            reading=reading,
            dialect=example.dialect,
            epochs=None if self.epochs is None else numbers[self.epochs],
            over=example.over,
            heading=example.heading,
            bar=example.bar,
            length=None if self.length is None else numbers[self.length],
        )


class Unclear(ValueError):
    """What a shape's lines say cannot be learned from these."""


def learn(statements: Sequence[Statement], lines: Sequence[Sequence[float]]) -> Learned:
    """What all lines of a shape say, of which some have said `statements` and have these numbers.

    Raises `Unclear` when they do not agree, or when it cannot be told where one of their numbers comes from.
    """
    if len({_without_numbers(each) for each in statements}) > 1:
        raise Unclear("the lines say different things")
    readings = [each.reading for each in statements if each.reading is not None]
    sources = _Sources(lines)

    def field(name: str, of: Sequence[Statement | Reading]) -> int | None:
        found = [getattr(each, name) for each in of]
        return None if not found or found[0] is None else sources.place(found)

    names = tuple(readings[0].values) if readings else ()
    places = {name: field(name, readings) for name in ("step", "epoch", "done", "total", "time")}
    learned = Learned(
        example=statements[0],
        names=names,
        values=tuple([sources.place([reading.values[name] for reading in readings]) for name in names]),
        **places,
        epochs=field("epochs", statements),
        length=field("length", statements),
        made=(),
    )
    return replace(learned, made=tuple(sources.made))


def _without_numbers(said: Statement) -> object:
    """All of a statement but what its numbers are."""
    reading = said.reading
    counts = reading and (reading.step, reading.epoch, reading.done, reading.total, reading.time)
    return (
        (said.dialect, said.over, said.heading, said.bar, said.epochs is None, said.length is None),
        reading and (tuple(reading.values), reading.unit),
        counts and tuple([count is None for count in counts]),
    )


class _Sources:
    """The numbers of some lines of one shape, and what is made of them."""

    def __init__(self, lines: Sequence[Sequence[float]]) -> None:
        self._lines = lines
        self._columns = list(zip(*lines, strict=True))
        self.made: list[Making] = []
        changing = [column for column in self._columns if any(column)]
        if len(set(changing)) < len(changing) or any(len(set(column)) == 1 for column in changing):
            raise Unclear("numbers that are alike cannot be told apart")

    def place(self, wanted: Sequence[float]) -> int:
        """Where a number comes from: its place among the line's and those made of them. Raises `Unclear`."""
        if len(set(map(repr, wanted))) == 1:
            return self._make(partial(_always, wanted[0]))
        if tuple(wanted) in self._columns:
            return self._columns.index(tuple(wanted))
        for makings in (self._of_one, self._of_two):
            fitting = [make for make in makings() if [make(line) for line in self._lines] == list(wanted)]
            if len(fitting) == 1:
                return self._make(fitting[0])
        raise Unclear("a number comes from nowhere")

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
