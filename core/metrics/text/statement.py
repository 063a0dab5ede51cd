"""What a line says by itself, whatever stood before it: all that the dialects find in it, found once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from core.metrics.dialects import bars, counters, pairs, registry

if TYPE_CHECKING:
    from core.metrics.common.reading import Reading

BARS, PAIRS = "bars", "pairs"
"""The dialects whose readings are placed in ways of their own; by their names in the registry."""
OVER = re.compile(r"\b(?:done|finished|completed?|ended|end)\b", re.IGNORECASE)
"""A line that says of an epoch that it is over, not that it begins."""


class Statement(NamedTuple):
    """What one line says. (A tuple: one is made for every line.)"""

    reading: Reading | None = None  # None: no dialect reads it
    dialect: str = ""
    epochs: float | None = None  # how many there will be, where it says of an epoch or of a bar how many
    over: bool = False  # it announces that an epoch has ended
    heading: bool = False  # `Test Error:`: the next line is about validation
    bar: str = ""  # what a bar is called, its numbers left out
    length: float | None = None  # and of how many it counts; the same bar has both at all its redraws


SILENCE = Statement()


def state(text: str) -> Statement:
    """What a line says; a statement without a reading where no dialect reads it.

    Of the numbers in it, this decides by nothing but how many digits they have, where their points stand, and what
    `shape.Shape` has of them: lines that agree in that say the same, but for the numbers.
    """
    found = registry.read(text)
    if found is None:
        return Statement(heading=True) if pairs.announces_validation(text) else SILENCE
    dialect, reading = found
    if dialect.name == BARS:
        bar, length = bars.title(text)
        epochs = counters.step_position(text).epochs if "poch" in text else None
        return Statement(reading=reading, dialect=BARS, bar=bar, length=length, epochs=epochs)
    if dialect.name != PAIRS or reading.epoch is None:
        return Statement(reading=reading, dialect=dialect.name)
    epochs = counters.step_position(text).epochs
    return Statement(reading=reading, dialect=PAIRS, epochs=epochs, over=OVER.search(text) is not None)
