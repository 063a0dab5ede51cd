"""The number of a GPU among the arguments of a program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from operator import itemgetter

OPTION = re.compile(
    r"(?!.*(?:num|\bn|count|per|no|use|with|multi|max)[_-])(?:-{1,2}|[\w.]*\.)?(?:\w+[_-])*"
    r"(?:(?:gpu|device|cuda)(?:[_-]?(?:ids?|devices?|index))?|(?P<list>gpus|devices))", re.IGNORECASE
)
"""Options that name GPUs by their numbers; `list`: those for which one number alone is a count."""
VALUE = re.compile(r"[\[(]?(?:(?:cuda:|gpu:)?\d{1,2}[, ]*)+[\])]?")
DIGITS = re.compile(r"\d+")


def device_argument(arguments: Sequence[str]) -> tuple[str, int] | None:
    """Return the argument with the largest number of a GPU, and that number: `--gpu 2`, `device=0,1`, `-d cuda:3`."""
    found: list[tuple[str, int]] = []
    for at, argument in enumerate(arguments):
        name, is_joined, value = argument.partition("=")
        values = [value] if is_joined else [*takewhile(VALUE.fullmatch, arguments[at + 1 :])]
        named = OPTION.fullmatch(name)
        is_count = named is not None and named["list"] is not None and len(values) == 1 and values[0].isdecimal()
        if named is None or is_count:
            values = [each for each in (*values, argument) if "cuda:" in each or "gpu:" in each][:1]
        numbers = DIGITS.findall(" ".join(filter(VALUE.fullmatch, values)))
        if numbers:
            shown = argument if is_joined or argument in values else " ".join([argument, *values])
            found.append((shown, max(map(int, numbers))))
    return max(found, key=itemgetter(1), default=None)
