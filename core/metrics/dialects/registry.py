"""What a line says by itself, in the first dialect that knows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from core.metrics.dialects import bars, dictionary, forms, pairs, tables
from core.metrics.dialects.syntax import step_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.metrics.common.reading import Reading

BARS, PAIRS, STANDING, TABLES, ROW, OTHER = "bars", "pairs", "standing", "tables", "row", "other"
"""The dialects whose readings `text` places in the training in their own ways, and all others."""
MAX_CHARACTERS = 8192
"""Characters of a line to read."""
OVER = re.compile(r"\b(?:done|finished|completed?|ended|end)\b", re.IGNORECASE)
"""Words in a line about an epoch that has ended, not begun."""


class Statement(NamedTuple):
    """What one line says: by itself at first, then what the stages of `text.log` make of it."""

    reading: Reading | None = None  # None: no dialect knows the line
    dialect: str = ""
    epochs: float | None = None  # the total number of epochs
    over: bool = False  # an epoch has ended
    heading: str = ""  # what the next lines are about: see `pairs.heading`
    bar: str = ""  # a bar's name without its numbers
    length: float | None = None  # a bar's total; equal, like the name, for all redraws of one bar
    earlier: Sequence[Reading] = ()  # readings of lines before it, which are complete now

    @property
    def readings(self) -> list[Reading]:
        """All readings that are complete with this line, in order."""
        return [*self.earlier] if self.reading is None else [*self.earlier, self.reading]


TABLE = Statement(dialect=TABLES)
"""What the header of a table says, or the first line of a block of keys and values."""


def statement_of(text: str) -> Statement:
    """Return what a line says; a statement without a reading if no dialect knows it.

    The more specific dialects come first: a bar and a dictionary also contain pairs.
    """
    if tables.begins_block(text) or dictionary.begins(text) or tables.columns_of(text) is not None:
        return TABLE
    line = text[:MAX_CHARACTERS]
    if (drawing := bars.read(line)) is not None:
        return Statement(drawing.reading, BARS, drawing.epochs, bar=drawing.name, length=drawing.total)
    if (found := forms.read(line)) is not None:
        form, said = found
        epochs = step_position(line).epochs if said.epoch is not None and said.total is not None else None
        return Statement(said, STANDING if form.repeats_validation else OTHER, epochs)
    if (reading := dictionary.read(line)) is not None:
        return Statement(reading, OTHER)
    if (reading := pairs.read(line)) is None:
        return Statement(heading=pairs.heading(line))
    names_epoch = reading.epoch is not None
    epochs = step_position(line).epochs if names_epoch else None
    return Statement(reading, PAIRS, epochs, over=names_epoch and OVER.search(line) is not None)
