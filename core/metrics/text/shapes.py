"""Learn the shapes of lines: programs print one line again and again with other numbers.

A shape is a line's text with a mark for each number, plus every property of the numbers that a dialect may decide by:
the count of digits, the place of the point, whether a number is zero, whole or begins with an extra zero, and its
size by `LIMITS`. Lines of one shape therefore say the same, except for the numbers themselves.

When a shape occurs for the second time, its line is parsed several times with other digits. The results show
which number of the line becomes which number of the statement. From then on only these numbers are fetched.
If that is ambiguous, all lines of the shape are parsed.
"""

from __future__ import annotations

import math
import random
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from core.language import tr
from core.metrics.common.reading import Reading
from core.metrics.dialects import bars
from core.metrics.dialects.registry import Statement, statement_of

Kept = TypeVar("Kept")

NUMBER = re.compile(r"(?<![A-Za-z_@0-9])((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)")
"""Digits after a letter belong to a name and stay in the shape; so do signs, `nan` and `inf`."""
MARK = "\0"  # occurs in no line: see `printed_lines.CONTROL`
TO_ZEROS = str.maketrans("123456789", "0" * 9)
LEADING_ZERO = re.compile(r"\x000[0-9]")
"""JSON has no such numbers, and Python no such integers."""
MAX_COUNT = 1e9
LIMITS = (0.0, MAX_COUNT, math.nextafter(4e9, 0), math.nextafter(2.0**53, 0))
"""The largest number that is zero, that is no unix time, that is a unix time, and that is a count."""

MAX_SHAPES = 4096
"""Shapes to remember, and shapes seen once to remember."""
MAX_CHARACTERS = 2000
MAX_NUMBERS = 48
"""Lines with more characters or more numbers are always parsed."""
VARIANTS = 4
"""How often a line is parsed with other digits."""
TRIES = 64
"""How many random numbers to try for one that keeps the shape."""

SCALES = (1e3, 1e6, 1e9, 1e12, 1e15)
"""Factors of `1.50k/3.00k` in tqdm's bars."""
READING_NUMBERS = ("step", "epoch", "done", "total", "time")
STATEMENT_NUMBERS = ("epochs", "length")
NONE_INDEX = -1
"""The index of None, after all numbers."""
Derivation = Callable[[Sequence[float]], float]
"""Computes a number from those of a line."""


class ShapeCache:
    """Parses lines, and remembers the shapes of those that repeat."""

    def __init__(self, parse: Callable[[str], Statement] = statement_of) -> None:
        """`parse`: parses one line in full."""
        self._parse = parse
        self._templates: dict[Shape, LineTemplate | None] = {}
        self._seen_once: dict[Shape, None] = {}
        self._random = random.Random(0)  # noqa: S311 (any digits will do)

    def statement_of(self, text: str) -> Statement:
        """Return what a line says: the same as the full parse."""
        # Parsing a Keras bar takes less time than finding its shape.
        if len(text) > MAX_CHARACTERS or bars.KERAS.match(text):
            return self._parse(text)
        parts = NUMBER.split(text)
        if not 1 < len(parts) <= 2 * MAX_NUMBERS + 1:
            return self._parse(text)
        numbers = [float(number) for number in parts[1::2]]
        shape = _shape_of(parts, numbers)
        template = self._templates.get(shape)
        if template is not None:
            return template.fill(numbers)
        statement = self._parse(text)
        if shape in self._seen_once:
            del self._seen_once[shape]
            _keep(self._templates, shape, self._learn(statement, shape, parts))
        elif shape not in self._templates:
            _keep(self._seen_once, shape, None)
        return statement

    def _learn(self, statement: Statement, shape: Shape, parts: list[str]) -> LineTemplate | None:
        """Return the template of a shape; None if it is ambiguous."""
        statements, lines = [statement], [[float(number) for number in parts[1::2]]]
        for _ in range(VARIANTS):
            variant = _variant_of(parts, shape, self._random)
            if variant is None:
                return None
            statements.append(self._parse("".join(variant)))
            lines.append([float(number) for number in variant[1::2]])
        try:
            return _template_of(statements, lines)
        except AmbiguousError:
            return None


def _keep(kept: dict[Shape, Kept], shape: Shape, value: Kept) -> None:
    """Add a shape; drop the oldest one if there are too many. A dropped shape is learned again if it returns."""
    if len(kept) >= MAX_SHAPES:
        del kept[next(iter(kept))]
    kept[shape] = value


class Shape(NamedTuple):
    """Equal for lines that say the same except for their numbers."""

    between: str  # the text between the numbers
    zeros: str  # the numbers, each digit replaced by a zero
    sizes: tuple[int, ...]  # index in `LIMITS` of each number; () if all are ordinary counts
    whole: tuple[bool, ...]
    leading_zeros: tuple[int, ...]  # where in `zeros` a number begins with an extra zero


def _shape_of(parts: Sequence[str], numbers: Sequence[float]) -> Shape:
    """Return the shape of a line split by `NUMBER`, with at least one number."""
    texts = MARK + MARK.join(parts[1::2])
    are_counts = min(numbers) > 0 and max(numbers) <= MAX_COUNT
    return Shape(
        MARK.join(parts[::2]),
        texts.translate(TO_ZEROS),
        () if are_counts else tuple([bisect_left(LIMITS, number) for number in numbers]),
        tuple([number.is_integer() for number in numbers]),
        tuple([match.start() for match in LEADING_ZERO.finditer(texts)]) if LEADING_ZERO.search(texts) else (),
    )


def _variant_of(parts: Sequence[str], shape: Shape, chance: random.Random) -> list[str] | None:
    """Return the parts of another line of this shape, with random digits.

    Returns None if none is found, or if a number is too large for float64 to represent its neighbours.
    """
    if max(shape.sizes, default=0) == len(LIMITS):
        return None
    variant = list(parts)
    for at in range(1, len(parts), 2):
        own = _shape_of(["", parts[at], ""], [float(parts[at])])
        for attempt in range(TRIES):
            number = _random_number(parts[at], chance, keep_zeros=attempt % 2 == 1)
            if _shape_of(["", number, ""], [float(number)]) == own:
                variant[at] = number
                break
        else:
            return None
    if NUMBER.split("".join(variant)) != variant:
        return None
    return variant if _shape_of(variant, [float(number) for number in variant[1::2]]) == shape else None


def _random_number(number: str, chance: random.Random, *, keep_zeros: bool) -> str:
    return "".join(
        str(chance.randrange(10)) if digit.isdigit() and not (keep_zeros and digit == "0") else digit
        for digit in number
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTemplate:
    """What the lines of one shape say."""

    example: Statement
    derived: tuple[Derivation, ...]  # percentages, quotients and constants
    names: tuple[str, ...]
    fetch: Callable[[Sequence[float | None]], tuple[Any, ...]]
    """Takes the line's numbers, the derived ones and None; returns the fields of a statement and all values."""

    def fill(self, numbers: Sequence[float]) -> Statement:
        """Return what a line with these numbers says."""
        example = self.example
        if example.reading is None:
            return example
        _, dialect, _, over, heading, bar, _ = example
        step, epoch, done, total, time, epochs, length, *values = self.fetch(
            [*numbers, *[derive(numbers) for derive in self.derived], None] if self.derived else [*numbers, None]
        )
        reading = Reading(
            values=dict(zip(self.names, values, strict=True)),
            step=None if step is None else int(step),
            epoch=epoch,
            done=done,
            total=total,
            unit=example.reading.unit,
            time=time,
            of_test=example.reading.of_test,
        )
        return Statement(reading, dialect, epochs, over, heading, bar, length)


class AmbiguousError(ValueError):
    """The parsed lines do not show what all lines of their shape say."""


def _template_of(statements: Sequence[Statement], lines: Sequence[Sequence[float]]) -> LineTemplate:
    """Return the template of the lines that have these numbers and say these `statements`.

    Raises `AmbiguousError` if the statements differ in more than numbers, or if the origin of a number is unclear.
    """
    if len({_without_numbers(each) for each in statements}) > 1:
        raise AmbiguousError(tr("the lines differ in more than numbers"))
    readings = [each.reading for each in statements if each.reading is not None]
    names = tuple(readings[0].values) if readings else ()
    wanted = [[getattr(reading, name) for reading in readings] for name in READING_NUMBERS]
    wanted += [[getattr(statement, name) for statement in statements] for name in STATEMENT_NUMBERS]
    wanted += [[reading.values[name] for reading in readings] for name in names]
    numbers = _LineNumbers(lines)
    fetch = itemgetter(*[numbers.index_of(each) for each in wanted])
    return LineTemplate(example=statements[0], derived=tuple(numbers.derived), names=names, fetch=fetch)


def _without_numbers(statement: Statement) -> object:
    """Return everything in a statement except its numbers."""
    reading = statement.reading
    present = [getattr(statement, name) is not None for name in STATEMENT_NUMBERS]
    present += [getattr(reading, name) is not None for name in READING_NUMBERS] if reading else []
    return (
        (statement.dialect, statement.over, statement.heading, statement.bar),
        (tuple(reading.values), reading.unit, reading.of_test) if reading else None,
        tuple(present),
    )


class _LineNumbers:
    """The numbers of several lines of one shape, and the numbers derived from them."""

    def __init__(self, lines: Sequence[Sequence[float]]) -> None:
        self._lines = lines
        self._columns = list(zip(*lines, strict=True))
        self.derived: list[Derivation] = []
        changing = [column for column in self._columns if any(column)]
        if len(set(changing)) < len(changing) or any(len(set(column)) == 1 for column in changing):
            raise AmbiguousError(tr("two numbers are equal, so that it is not clear which of them is read"))

    def index_of(self, wanted: Sequence[float | None]) -> int:
        """Return the index of the number that has these values: among a line's numbers, the derived ones, and None.

        Raises `AmbiguousError` if there is no such number, or more than one.
        """
        if all(number is None for number in wanted):
            return NONE_INDEX
        first = wanted[0]
        if first is not None and len(set(map(repr, wanted))) == 1:
            return self._derive(partial(_constant, first))
        if tuple(wanted) in self._columns:
            return self._columns.index(tuple(wanted))
        for derivations in (self._from_one, self._from_two):
            fitting = [derive for derive in derivations() if [derive(line) for line in self._lines] == list(wanted)]
            if len(fitting) == 1:
                return self._derive(fitting[0])
        raise AmbiguousError(tr("a number of unclear origin"))

    def _from_one(self) -> Iterator[Derivation]:
        for at in range(len(self._columns)):
            yield partial(_divided, at, -1.0)
            yield partial(_divided, at, 100.0)
            yield partial(_divided, at, -100.0)
            yield from (partial(_multiplied, at, scale) for scale in SCALES)

    def _from_two(self) -> Iterator[Derivation]:
        divisors = [at for at, column in enumerate(self._columns) if all(column)]
        for one in range(len(self._columns)):
            yield from (partial(_quotient, one, other) for other in divisors if other != one)

    def _derive(self, derive: Derivation) -> int:
        self.derived.append(derive)
        return len(self._columns) + len(self.derived) - 1


def _constant(number: float, _: Sequence[float]) -> float:
    return number


def _divided(at: int, by: float, numbers: Sequence[float]) -> float:
    return numbers[at] / by


def _multiplied(at: int, by: float, numbers: Sequence[float]) -> float:
    return numbers[at] * by


def _quotient(one: int, other: int, numbers: Sequence[float]) -> float:
    return numbers[one] / numbers[other]
