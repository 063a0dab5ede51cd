"""How programs print their metrics: a dialect is a small file and a row here. The first that reads a line has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.metrics.dialects import at_step, bars, dictionary, pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.metrics.common.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A way of printing metrics."""

    name: str
    read: Callable[[str], Reading | None]  # what it reads in a line; None where the line is not of its kind


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="bars", read=bars.read),
    Dialect(name="dictionary", read=dictionary.read),
    Dialect(name="at_step", read=at_step.read),
    Dialect(name="pairs", read=pairs.read),
)
"""The plainer ones come last: a bar shows pairs, too, and a dictionary holds some."""
LONGEST = 8192
"""Characters of a line that are looked at."""


def read(line: str) -> tuple[Dialect, Reading] | None:
    """The first dialect that knows a line, and what the line says."""
    line = line[:LONGEST]
    for dialect in DIALECTS:
        if (reading := dialect.read(line)) is not None:
            return dialect, reading
    return None
