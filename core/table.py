"""Columns that are declared once, as tables for people, Markdown, CSV and JSON; text in the columns of a terminal."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from unicodedata import east_asian_width

from core.text import replace_control_characters, short

Row = TypeVar("Row")
MARKUP = re.compile(r"[\\`*\[\]<>|~&]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for more than text."""
FORMULA = ("=", "+", "-", "@")
"""The characters with which a formula begins in a spreadsheet."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table."""

    name: str
    """The key in JSON and the heading in CSV."""
    value: Callable[[Row], object] | None = None
    """Returns what programs read: unrounded, in bytes and seconds, None if unknown. None: programs do not read it."""
    title: str | None = ""
    """The heading for people, in their language; by default the name. None: people do not read the column."""
    text: Callable[[Row], str | None] | None = None
    """Returns what people read, None if unknown; by default the value, with four digits of a number."""
    is_optional: bool = False
    """Whether people see the column only if a row has something in it."""

    def cell(self, row: Row) -> str | None:
        """Return what people read; None if it is unknown."""
        if self.text is not None:
            return self.text(row)
        found = self.value(row) if self.value is not None else None
        return None if found is None else short(found)


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Rows, and what is said of each of them."""

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    """Sentences below the table."""
    unknown: str = "-"
    """What people read in an empty cell."""
    capitals: bool = True
    """Whether the headings for people are in capitals."""

    def cells(self) -> list[list[str]]:
        """Return the lines for people, the first of them the headings."""
        found = [(each, [each.cell(row) for row in self.rows]) for each in self.columns if each.title is not None]
        shown = [(each, texts) for each, texts in found if not each.is_optional or any(texts)]
        lines = zip(*(texts for _, texts in shown), strict=True)
        texts = [[self.unknown if text is None else text for text in line] for line in lines]
        headings = [each.title or each.name for each, _ in shown]
        return [[each.upper() for each in headings] if self.capitals else headings, *texts]

    def documents(self) -> list[dict[str, object]]:
        """Return each row as an object for JSON."""
        named = [(each.name, each.value) for each in self.columns if each.value is not None]
        return [{name: value(row) for name, value in named} for row in self.rows]

    def csv(self) -> str:
        """Return the table as CSV. Lists are joined with spaces; None is an empty cell."""
        named = [(each.name, each.value) for each in self.columns if each.value is not None]
        file = io.StringIO(newline="")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_spreadsheet_cell(name) for name, _ in named)
        writer.writerows([_spreadsheet_cell(value(row)) for _, value in named] for row in self.rows)
        return file.getvalue()

    def markdown(self) -> str:
        """Return the cells and the notes as Markdown."""
        return markdown(self.cells(), self.notes)

    def text(self, form: str) -> str:
        """Return the table as CSV for `csv` or `.csv`, otherwise as Markdown."""
        return self.csv() if form.endswith("csv") else self.markdown()


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as texts whose columns have equal widths on a terminal."""
    widths = [max(map(columns, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(text + " " * (width - columns(text)) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def markdown(lines: Iterable[Iterable[str]], notes: Iterable[str] = ()) -> str:
    """Return lines of cells, the first of them the headings, as a table in Markdown, with a list of notes below it."""
    texts = [[_markdown_text(cell) for cell in line] for line in lines]
    headings, *rows = [f"| {' | '.join(line)} |" for line in texts]
    listed = [f"- {_markdown_text(each)}" for each in notes]
    return "\n".join([headings, f"|{' --- |' * len(texts[0])}", *rows, *(["", *listed] if listed else []), ""])


def _markdown_text(text: str) -> str:
    """Return a text in one line that Markdown shows as it is."""
    return MARKUP.sub(lambda found: f"\\{found[0]}", replace_control_characters(" ".join(text.split())))


def _spreadsheet_cell(value: object) -> object:
    """Return what a spreadsheet takes for text, and not for a formula."""
    if isinstance(value, (list, tuple)):
        value = " ".join(map(str, value))
    if not isinstance(value, str):
        return "" if value is None else value
    return replace_control_characters(as_text(value), keep="\n")


def as_text(value: str) -> str:
    """Return a text that no spreadsheet would calculate: `=1+1` begins with an apostrophe."""
    return f"'{value}" if value.startswith(FORMULA) else value


def columns(text: str) -> int:
    """Return the columns of a text on a terminal, where a Chinese character takes two."""
    return sum(map(_columns, text))


def cut_to_columns(text: str, limit: int) -> str:
    """Return the beginning of a text that takes at most `limit` columns."""
    left = limit
    for position, each in enumerate(text):
        left -= _columns(each)
        if left < 0:
            return text[:position]
    return text


def wrap(text: str, limit: int) -> list[str]:
    """Return a text in lines of at most `limit` columns, broken at spaces and between Chinese characters."""
    lines = [""]
    for space, word in re.findall(_WORD, text):
        if columns(lines[-1] + space + word) > limit and lines[-1]:
            lines.append(word)
        else:
            lines[-1] += space + word
    return lines


_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60"
_CLOSING = "。，、；：！？）”》"
_WORD = rf"(\s*)([（“《]?(?:[{_WIDE}]|[^\s{_WIDE}]+)[{_CLOSING}]*)"  # compiled when first used: it takes a millisecond
"""A space, and what is not broken: a word, or a Chinese character, with the punctuation that belongs to it."""


def _columns(character: str) -> int:
    return 2 if east_asian_width(character) in {"W", "F"} else 1
