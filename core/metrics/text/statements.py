"""What each line of a log says: by itself, in the first dialect that knows it, or as a row of the table that is open.

A row means nothing without the header or the lines before it. While a table is open, all lines are looked at, also
those without the words of `printed_lines`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from core.metrics.dialects import bars, forms, pairs, tables
from core.metrics.dialects.plain import plain
from core.metrics.dialects.syntax import step_position
from core.metrics.reading import Reading
from core.metrics.text.printed_lines import PrintedLine

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
    line: str = ""  # a bar's line
    beside: str = ""  # the text after a bar; of another statement: that it stood there
    earlier: Sequence[Reading] = ()  # readings of lines before it, which are complete now


TABLE = Statement(dialect=TABLES)
"""What the header of a table says, or the first line of a block of keys and values."""


def statement_of(text: str) -> Statement:
    """Return what a line says; a statement without a reading if no dialect knows it.

    The more specific dialects come first: a bar and a dictionary also contain pairs.
    """
    return _said(plain(text))


def _said(text: str) -> Statement:
    if tables.begins_block(text) or pairs.begins_dictionary(text) or tables.columns_of(text) is not None:
        return TABLE
    line = text[:MAX_CHARACTERS]
    if (drawing := bars.read(line)) is not None:
        return Statement(drawing.reading, BARS, drawing.epochs, bar=drawing.name, length=drawing.total, line=line,
                         beside=drawing.beside)
    if (found := forms.read(line)) is not None:
        form, said = found
        epochs = step_position(line).epochs if said.epoch is not None and said.total is not None else None
        return Statement(said, STANDING if form.repeats_validation else OTHER, epochs)
    if (reading := pairs.read_dictionary(line)) is not None:
        return Statement(reading, OTHER)
    if (reading := pairs.read(line)) is None:
        return Statement(heading=pairs.heading(line))
    names_epoch = reading.epoch is not None
    epochs = step_position(line).epochs if names_epoch else None
    return Statement(reading, PAIRS, epochs, over=names_epoch and OVER.search(line) is not None)


PATIENCE = 200
"""Lines between two rows, after which a table has ended."""
PATIENCE_FOR_VALIDATION = 10
"""Lines between the header of a validation and its row."""
SUMMARY_TITLE = re.compile(
    r"\W*(?:best\b[^:]{0,80}|(?:hyper-?)?param(?:eter)?s|config(?:uration)?|settings|arg(?:ument)?s|options)\s?:$",
    re.IGNORECASE,
)
WRAPPED_INDENT = 20
"""Blanks before the rest of a wrapped column, at least."""
MAX_KEYS = 200
"""Lines of a block."""


class OpenTable:
    """Takes the lines of a log, and remembers the table that is open."""

    def __init__(self) -> None:
        self._table: _Rows | _Validation | _Lines | None = None
        self._epoch = _Epoch()

    @property
    def is_open(self) -> bool:
        """Whether the next lines may be rows."""
        return self._table is not None

    def take(self, line: PrintedLine) -> list[Statement]:
        """Return what a line says, after what the table says that it ended."""
        statements: list[Statement] = []
        line = line._replace(text=plain(line.text))
        if self._table is not None:
            said, is_row = self._table.take(line)
            if self._table.left <= 0:
                self._table = None
            if is_row or said is not None:
                statements = [_of_row(said)]
            if is_row:
                return statements
        statement = _said(line.text)
        if statement.dialect == TABLES:
            self._begin(line.text)
        if SUMMARY_TITLE.match(line.text):
            self._table = _Lines(line.text, SUMMARY)
        if statement.dialect == BARS and not line.redrawn:
            if bars.RICH in line.text:
                self._table = _Lines(line.text, WRAPPED)
            if statement.beside and (beside := statement_of(statement.beside)).reading is not None:
                bar = statement_of(statement.line.removesuffix(statement.beside))
                return [*statements, bar, beside._replace(beside=statement.beside)]
        return [*statements, statement]

    def end(self) -> list[Statement]:
        """Return what is left after the last line."""
        table, self._table = self._table, None
        left = table.end() if isinstance(table, _Lines) else None
        return [_of_row(left)] if left else []

    def _begin(self, line: str) -> None:
        """Begin a table with its header, or a block with its first line."""
        if columns := tables.columns_of(line):
            if not tables.is_validation(columns):
                self._table = _Rows(columns, self._epoch)
            elif self._epoch.number is not None:
                self._table = _Validation(columns, self._epoch)
        elif tables.begins_block(line):
            self._table = _Lines(line, BLOCK)
        elif pairs.begins_dictionary(line):
            self._table = _Lines(line, DICTIONARY)


def _of_row(said: Reading | Statement | None) -> Statement:
    return said if isinstance(said, Statement) else Statement(said, ROW)


Taken = tuple[Reading | Statement | None, bool]
"""What a table says with a line, and whether the line is a row. Otherwise it is still to be read."""
Belongs = Callable[[PrintedLine, str], bool]
"""Whether a line belongs to the lines before it, of which the last one is given."""
ReadLines = Callable[[Sequence[str]], Reading | Statement | None]


@dataclass(slots=True)
class _Epoch:
    """The last epoch that a row was about."""

    number: float | None = None
    first: float | None = None
    validated: float | None = None


class _Rows:
    """The rows of a training table."""

    def __init__(self, columns: tables.Columns, epoch: _Epoch) -> None:
        self._columns, self._epoch, self.left = columns, epoch, PATIENCE  # lines to wait for a row: ended at 0
        self._last: tuple[int | None, float | None] = (None, None)

    def take(self, line: PrintedLine) -> Taken:
        reading = tables.row(self._columns, line.text)
        if reading is None:
            self.left -= 1
            return None, False
        self.left = PATIENCE
        if reading.epoch is not None:
            first = self._epoch.first
            self._epoch.number = reading.epoch
            self._epoch.first = reading.epoch if first is None else min(first, reading.epoch)
        place = (reading.step, reading.epoch)
        if line.redrawn or place == self._last:  # a row that is redrawn is not complete
            reading = replace(reading, values={})
        else:
            self._last = place
        if reading.unit == "epochs" and reading.total is not None and self._epoch.first == 0:
            reading = replace(reading, done=(reading.done or 0.0) + 1, total=reading.total + 1)  # as if counted from 1
        return reading, True


class _Validation:
    """The row of a validation: one for each epoch."""

    def __init__(self, columns: tables.Columns, epoch: _Epoch) -> None:
        self._columns, self._epoch, self.left = columns, epoch, PATIENCE_FOR_VALIDATION

    def take(self, line: PrintedLine) -> Taken:
        self.left -= 1
        reading = tables.row(self._columns, line.text)
        if reading is None:
            return None, False
        self.left = 0
        if self._epoch.validated == self._epoch.number:  # the best weights are validated again at the end
            return None, True
        self._epoch.validated = self._epoch.number
        return replace(reading, epoch=self._epoch.number), True


class _Lines:
    """Lines after a first one that are read together, once a line does not belong to them."""

    def __init__(self, first: str, kind: tuple[Belongs, ReadLines]) -> None:
        self._lines, self.left = [first], MAX_KEYS
        self._belongs, self._read = kind

    def take(self, line: PrintedLine) -> Taken:
        is_row = self._belongs(line, self._lines[-1])
        if is_row:
            self._lines.append(line.text)
        self.left = self.left - 1 if is_row else 0
        return None if self.left else self.end(), is_row

    def end(self) -> Reading | Statement | None:
        return self._read(self._lines)


BLOCK: tuple[Belongs, ReadLines] = (
    lambda line, _: tables.BLOCK_LINE.fullmatch(line.text) is not None, tables.block)
"""The lines of `| key | value |` that make one record."""
DICTIONARY: tuple[Belongs, ReadLines] = (
    lambda line, last: line.text.startswith(("{", "'")) and not last.endswith("}"),
    lambda lines: pairs.read_dictionary(" ".join(lines)[:MAX_CHARACTERS]))
"""A dictionary on several lines, after a line that says where it belongs: Orbit's."""
WRAPPED: tuple[Belongs, ReadLines] = (
    lambda line, _: line.indent >= WRAPPED_INDENT,
    lambda lines: statement_of(" ".join(lines[1:])) if len(lines) > 1 else None)
"""The rest of a bar of rich that is wider than the screen: its last column goes on in the lines below."""
SUMMARY: tuple[Belongs, ReadLines] = (lambda line, _: line.indent > 0, lambda _: None)
"""The lines that are indented below `Best model at step 1500:` or `Params:`: they are no values of a curve."""
