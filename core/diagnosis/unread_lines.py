"""Find the lines with numbers in the output of a program of which no measurement was read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.diagnosis.tracebacks import as_printed

SHOWN = 3
"""Lines to show, each of another shape."""
MAX_LINE = 120
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d+(?:e[-+]?\d+)?|\d+(?:e[-+]?\d+)?)(?![\w.])", re.IGNORECASE)
NAMED = re.compile(r"[A-Za-z]\W{0,8}[-+]?\d")
"""A number after a word."""
DATED = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d:\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLine:
    """The last line of one shape."""

    text: str
    number: str
    """The last number in it, preferably one with a decimal point."""
    times: int
    """How many lines of this shape there are."""


def unread_lines(log_end: str) -> list[UnreadLine]:
    """Return lines with a number after a word: those whose shape recurs most often, and those with a decimal point."""
    found: dict[str, UnreadLine] = {}
    for line in as_printed(log_end).splitlines():
        text = line.strip()
        numbers = NUMBER.findall(DATED.sub("", text))
        if not numbers or not NAMED.search(text) or len(text) > MAX_LINE:
            continue
        shape = NUMBER.sub("0", text)
        times = found.pop(shape).times + 1 if shape in found else 1
        found[shape] = UnreadLine(
            text=text, number=([each for each in numbers if "." in each] or numbers)[-1], times=times
        )
    ranked = sorted(found.values(), key=lambda each: ("." in each.number, min(each.times, 2)), reverse=True)
    return ranked[:SHOWN]


def last_line(log_end: str) -> str:
    """Return the last line of output that is not empty; the empty string if there is none."""
    lines = [line.strip() for line in as_printed(log_end).splitlines() if line.strip()]
    return lines[-1][:MAX_LINE] if lines else ""
