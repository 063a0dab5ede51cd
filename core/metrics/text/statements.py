"""What each line of a log says: by itself, in the first dialect that knows it, or as a row of the table that is open.

A row means nothing without the header or the lines before it. While a table is open, all lines are looked at, also
those without the words of `printed_lines`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from core.metrics.dialects import bars, forms, pairs, tables
from core.metrics.dialects.plain import apart, plain
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
    line = apart(line)
    if (reading := pairs.read(line)) is None:
        return Statement(heading=pairs.heading(line))
    names_epoch = reading.epoch is not None
    epochs = step_position(line).epochs if names_epoch else None
    return Statement(reading, PAIRS, epochs, over=names_epoch and OVER.search(line) is not None)


PATIENCE = 200
"""Lines between two rows, after which a table has ended."""
PATIENCE_FOR_VALIDATION = 10
"""Lines between the header of a validation and its row."""
SUMMARY = re.compile(
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
        self._table: _Table | None = None
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
        if SUMMARY.match(line.text):
            self._table = _Summary()
        if statement.dialect == BARS and not line.redrawn:
            if bars.RICH in line.text:
                self._table = _WrappedColumn()
            if statement.beside and (beside := statement_of(statement.beside)).reading is not None:
                bar = statement_of(statement.line.removesuffix(statement.beside))
                return [*statements, bar, beside._replace(beside=statement.beside)]
        return [*statements, statement]

    def end(self) -> list[Statement]:
        """Return what is left after the last line."""
        table, self._table = self._table, None
        left = table.end() if table else None
        return [_of_row(left)] if left else []

    def _begin(self, line: str) -> None:
        """Begin a table with its header, or a block with its first line."""
        if columns := tables.columns_of(line):
            if not tables.is_validation(columns):
                self._table = _Rows(columns, self._epoch)
            elif self._epoch.number is not None:
                self._table = _Validation(columns, self._epoch)
        elif tables.begins_block(line):
            self._table = _Block(line)
        elif pairs.begins_dictionary(line):
            self._table = _Dictionary(line)


def _of_row(said: Reading | Statement | None) -> Statement:
    return said if isinstance(said, Statement) else Statement(said, ROW)


class _Taken(NamedTuple):
    """What became of a line."""

    said: Reading | Statement | None
    is_row: bool  # otherwise the line is still to be read


class _Table:
    """A table that is open."""

    left: int
    """Lines to wait for a row; the table has ended at 0."""

    def take(self, line: PrintedLine) -> _Taken:
        """Take the next line."""
        raise NotImplementedError

    def end(self) -> Reading | Statement | None:
        """Return what is left after the last line."""
        return None


@dataclass(slots=True)
class _Epoch:
    """The last epoch that a row was about."""

    number: float | None = None
    first: float | None = None
    validated: float | None = None


class _Rows(_Table):
    """The rows of a training table."""

    def __init__(self, columns: tables.Columns, epoch: _Epoch) -> None:
        self._columns, self._epoch, self.left = columns, epoch, PATIENCE
        self._last: tuple[int | None, float | None] = (None, None)

    def take(self, line: PrintedLine) -> _Taken:
        reading = tables.row(self._columns, line.text)
        if reading is None:
            self.left -= 1
            return _Taken(None, is_row=False)
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
        return _Taken(reading, is_row=True)


class _Validation(_Table):
    """The row of a validation: one for each epoch."""

    def __init__(self, columns: tables.Columns, epoch: _Epoch) -> None:
        self._columns, self._epoch, self.left = columns, epoch, PATIENCE_FOR_VALIDATION

    def take(self, line: PrintedLine) -> _Taken:
        self.left -= 1
        reading = tables.row(self._columns, line.text)
        if reading is None:
            return _Taken(None, is_row=False)
        self.left = 0
        if self._epoch.validated == self._epoch.number:  # the best weights are validated again at the end
            return _Taken(None, is_row=True)
        self._epoch.validated = self._epoch.number
        return _Taken(replace(reading, epoch=self._epoch.number), is_row=True)


class _Summary(_Table):
    """The lines that are indented below `Best model at step 1500:` or `Params:`: they are no values of a curve."""

    left = MAX_KEYS

    def take(self, line: PrintedLine) -> _Taken:
        self.left = self.left - 1 if line.indent else 0
        return _Taken(None, is_row=line.indent > 0)


class _WrappedColumn(_Table):
    """The rest of a bar of rich that is wider than the screen: its last column goes on in the lines below."""

    def __init__(self) -> None:
        self._text, self.left = "", MAX_KEYS

    def take(self, line: PrintedLine) -> _Taken:
        if line.indent >= WRAPPED_INDENT:
            self._text += f"{line.text} "
            return _Taken(None, is_row=True)
        self.left = 0
        return _Taken(self.end(), is_row=False)

    def end(self) -> Statement | None:
        return statement_of(self._text) if self._text else None


class _Block(_Table):
    """The lines of `| key | value |` that make one record."""

    def __init__(self, line: str) -> None:
        self._values: dict[str, str] = {}
        self._section = ""
        self.left = MAX_KEYS
        self._add(line)

    def take(self, line: PrintedLine) -> _Taken:
        if self._add(line.text):
            return _Taken(None, is_row=True)
        self.left = 0
        return _Taken(self.end(), is_row=False)

    def end(self) -> Reading | None:
        return tables.block(self._values)

    def _add(self, line: str) -> bool:
        found = tables.split_block_line(line)
        if found is None or len(self._values) >= MAX_KEYS:
            return False
        key, value = found
        if key.endswith("/") and not value:
            self._section = key
        else:
            self._values[self._section + key] = value
        return True


class _Dictionary(_Table):
    """A dictionary on several lines, after a line that says where it belongs: Orbit's."""

    def __init__(self, line: str) -> None:
        self._text, self.left = line, MAX_KEYS

    def take(self, line: PrintedLine) -> _Taken:
        is_part = line.text.startswith(("{", "'"))
        if is_part:
            self._text += " " + line.text
        self.left = self.left - 1 if is_part and not line.text.endswith("}") else 0
        return _Taken(None if self.left else self.end(), is_row=is_part)

    def end(self) -> Reading | None:
        return pairs.read_dictionary(self._text) if self._text.endswith("}") else None
