"""The known dialects, and what a line says by itself in the first dialect that knows it.

To add a dialect, write one module with a `read` function and add one row to `DIALECTS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from core.metrics.dialects import at_step, bars, bracketed, dictionary, key_values, logger_lines, pairs, piped, tables
from core.metrics.dialects.syntax import step_position

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.metrics.common.reading import Reading


BARS, PAIRS, STANDING, TABLES = "bars", "pairs", "standing", "tables"
"""The names of the dialects whose readings `text.log` places in the training in their own ways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A way of printing metrics."""

    name: str
    read: Callable[[str], Reading | None]  # returns the reading of a line; None if the line is not of this dialect


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name=BARS, read=bars.read),
    Dialect(name="bracketed", read=bracketed.read),
    Dialect(name=STANDING, read=piped.read_litgpt),
    Dialect(name="piped", read=piped.read),
    Dialect(name="logger_lines", read=logger_lines.read),
    Dialect(name="key_values", read=key_values.read),
    Dialect(name="dictionary", read=dictionary.read),
    Dialect(name="at_step", read=at_step.read),
    Dialect(name=PAIRS, read=pairs.read),
)
"""The more specific ones come first: a bar and a dictionary also contain pairs."""
MAX_CHARACTERS = 8192
"""Characters of a line to read."""
OVER = re.compile(r"\b(?:done|finished|completed?|ended|end)\b", re.IGNORECASE)
"""Words in a line about an epoch that has ended, not begun."""


def read(line: str) -> tuple[Dialect, Reading] | None:
    """Return the first dialect that knows a line, and its reading."""
    line = line[:MAX_CHARACTERS]
    for dialect in DIALECTS:
        if (reading := dialect.read(line)) is not None:
            return dialect, reading
    return None


class Statement(NamedTuple):
    """What one line says by itself. (A tuple, for speed: one is made for every line.)"""

    reading: Reading | None = None  # None: no dialect knows the line
    dialect: str = ""
    epochs: float | None = None  # the total number of epochs
    over: bool = False  # an epoch has ended
    heading: str = ""  # what the next lines are about: see `pairs.heading`
    bar: str = ""  # a bar's name without its numbers
    length: float | None = None  # a bar's total; equal, like the name, for all redraws of one bar


NOTHING = Statement()
TABLE = Statement(dialect=TABLES)
"""What the header of a table says, or the first line of a block of keys and values."""


def statement_of(text: str) -> Statement:
    """Return what a line says; a statement without a reading if no dialect knows it."""
    if _begins_table(text):
        return TABLE
    found = read(text)
    if found is None:
        named = pairs.heading(text)
        return Statement(heading=named) if named else NOTHING
    dialect, reading = found
    if dialect.name == BARS:
        bar, length = bars.title(text)
        return Statement(reading=reading, dialect=BARS, bar=bar, length=length, epochs=bars.epochs(text))
    if reading.epoch is None or (dialect.name != PAIRS and reading.total is None):
        return Statement(reading=reading, dialect=dialect.name)
    epochs = step_position(text).epochs
    over = dialect.name == PAIRS and OVER.search(text) is not None
    return Statement(reading=reading, dialect=dialect.name, epochs=epochs, over=over)


def _begins_table(text: str) -> bool:
    if text.startswith("|") and key_values.begins(text):
        return True
    return dictionary.begins(text) or tables.columns_of(text) is not None
