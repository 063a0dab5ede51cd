"""The lines of a table of numbers with named columns."""

from __future__ import annotations

import csv
from dataclasses import dataclass

SEPARATORS = ",;\t|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line of a table: the columns' names, and what stands between them."""

    names: tuple[str, ...]
    separator: str


def header_of(line: bytes) -> Header | None:
    """A line as a header; None when it is none: one of its cells is a number, or it names nothing."""
    text = _text(line)
    separator = max(SEPARATORS, key=text.count)  # the first of them where there is none
    names = tuple(cells_of(line, separator))
    if not any(names) or any(number(name) is not None for name in names):
        return None
    return Header(names=names, separator=separator)


def cells_of(line: bytes, separator: str) -> list[str]:
    """The cells of a line, without spaces and quotes around them; none when it cannot be a line of a table."""
    try:
        row = next(csv.reader([_text(line)], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in row]


def number(cell: str) -> float | None:
    """A cell as a number, NaN and infinities among them; None when it is none."""
    try:
        return float(cell)
    except ValueError:
        return None


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").lstrip("\ufeff")
