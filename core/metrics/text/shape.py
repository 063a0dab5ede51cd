"""The shape of a line: its text with a mark for each number, and all of the numbers by which a dialect may decide.

What a dialect decides by a number, it decides by its digits' count and where its point stands, whether it is zero or
whole or begins with a zero too many, and how large it is as `LIMITS` tells. Lines of one shape therefore say the same,
but for the numbers themselves.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

NUMBER = re.compile(r"(?<![A-Za-z_@0-9])((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)")
"""Digits behind a letter belong to a name, and stay in the shape; so do signs, `nan` and `inf`."""
MARK = "\0"  # in no line: `text.CONTROL`
STRUCK = str.maketrans("123456789", "0" * 9)
LEADING_ZERO = re.compile(r"\x000[0-9]")
"""JSON knows no such numbers, and Python no such integers."""
COUNT = 1e9
LIMITS = (0.0, COUNT, math.nextafter(4e9, 0), math.nextafter(2.0**53, 0))
"""The largest that is zero, that is no unix time, that is one, and that counts."""
TRIES = 64


class Shape(NamedTuple):
    """Equal for lines that say the same but for their numbers."""

    between: str  # the text between the numbers
    struck: str  # the numbers, each digit a zero
    sizes: tuple[int, ...]  # of each number, which of `LIMITS` it is not above; () where all are just counts
    whole: tuple[bool, ...]
    zeros: tuple[int, ...]  # where in `struck` a number begins with a zero too many


def shape_of(parts: Sequence[str], numbers: Sequence[float]) -> Shape:
    """Of a line that was split by `NUMBER`, and its numbers, of which there is one at least."""
    texts = MARK + MARK.join(parts[1::2])
    are_counts = min(numbers) > 0 and max(numbers) <= COUNT
    return Shape(
        MARK.join(parts[::2]),
        texts.translate(STRUCK),
        () if are_counts else tuple([bisect_left(LIMITS, number) for number in numbers]),
        tuple([number.is_integer() for number in numbers]),
        tuple([match.start() for match in LEADING_ZERO.finditer(texts)]) if LEADING_ZERO.search(texts) else (),
    )


def other_line(parts: Sequence[str], shape: Shape, chance: random.Random) -> list[str] | None:
    """The pieces of another line of the same shape, with digits by chance; None where none is found, or where a number
    is too large for float64 to tell it from its neighbours."""
    if max(shape.sizes, default=0) == len(LIMITS):
        return None
    pieces = list(parts)
    for at in range(1, len(parts), 2):
        own = shape_of(["", parts[at], ""], [float(parts[at])])
        for tried in range(TRIES):
            number = _other_number(parts[at], chance, keep_zeros=tried % 2 == 1)
            if shape_of(["", number, ""], [float(number)]) == own:
                pieces[at] = number
                break
        else:
            return None
    again = NUMBER.split("".join(pieces))
    return pieces if again == pieces and shape_of(pieces, [float(number) for number in pieces[1::2]]) == shape else None


def _other_number(number: str, chance: random.Random, *, keep_zeros: bool) -> str:
    return "".join(
        str(chance.randrange(10)) if digit.isdigit() and not (keep_zeros and digit == "0") else digit
        for digit in number
    )
