"""The table that is being printed: lines that mean nothing without the header or the lines before them.

While a table is open, all lines are looked at, also those without the words of `printed_lines`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from core.metrics.dialects import dictionary, key_values, tables

if TYPE_CHECKING:
    from core.metrics.common.reading import Reading
    from core.metrics.text.printed_lines import PrintedLine

PATIENCE = 200
"""Lines between two rows, after which a table has ended."""
PATIENCE_FOR_VALIDATION = 10
"""Lines between the header of a validation and its row."""
MAX_KEYS = 200
"""Lines of a block."""


class Taken(NamedTuple):
    """What became of a line."""

    readings: list[Reading]
    is_row: bool  # otherwise the line is still to be read


class _Table(Protocol):
    @property
    def ended(self) -> bool:
        """Whether no other line belongs to it."""

    def take(self, line: PrintedLine) -> Taken:
        """Take the next line."""

    def end(self) -> list[Reading]:
        """Return what is left after the last line."""


class OpenTable:
    """Takes the lines of a log while a table is open."""

    def __init__(self) -> None:
        self._table: _Table | None = None
        self._epoch = _Epoch()

    @property
    def is_open(self) -> bool:
        """Whether the next lines may be rows."""
        return self._table is not None

    def begin(self, line: str) -> None:
        """Begin a table with its header, or a block with its first line."""
        if columns := tables.columns_of(line):
            if not tables.is_validation(columns):
                self._table = _Rows(columns, self._epoch)
            elif self._epoch.number is not None:
                self._table = _Validation(columns, self._epoch)
        elif key_values.begins(line):
            self._table = _Block(line)
        elif dictionary.begins(line):
            self._table = _Dictionary(line)

    def take(self, line: PrintedLine) -> Taken:
        """Take a line while the table is open."""
        assert self._table is not None
        taken = self._table.take(line)
        if self._table.ended:
            self._table = None
        return taken

    def end(self) -> list[Reading]:
        """Return what is left after the last line."""
        table, self._table = self._table, None
        return table.end() if table else []


@dataclass(slots=True)
class _Epoch:
    """The last epoch that a row was about."""

    number: float | None = None
    first: float | None = None
    validated: float | None = None

    def enter(self, number: float) -> None:
        self.number = number
        self.first = number if self.first is None else min(self.first, number)


class _Rows:
    """The rows of a training table."""

    def __init__(self, columns: tables.Columns, epoch: _Epoch) -> None:
        self._columns, self._epoch, self._left = columns, epoch, PATIENCE
        self._last: tuple[int | None, float | None] = (None, None)

    @property
    def ended(self) -> bool:
        return self._left <= 0

    def take(self, line: PrintedLine) -> Taken:
        reading = tables.row(self._columns, line.text)
        if reading is None:
            self._left -= 1
            return Taken([], is_row=False)
        self._left = PATIENCE
        if reading.epoch is not None:
            self._epoch.enter(reading.epoch)
        place = (reading.step, reading.epoch)
        if line.redrawn or place == self._last:  # a row that is redrawn is not complete
            reading = replace(reading, values={})
        else:
            self._last = place
        return Taken([self._counted_from_one(reading)], is_row=True)

    def end(self) -> list[Reading]:
        return []

    def _counted_from_one(self, reading: Reading) -> Reading:
        """Return the reading with a progress that is complete after the last epoch, also where the first is 0."""
        if reading.unit != "epochs" or reading.done is None or reading.total is None or self._epoch.first != 0:
            return reading
        return replace(reading, done=reading.done + 1, total=reading.total + 1)


class _Validation:
    """The row of a validation: one for each epoch."""

    def __init__(self, columns: tables.Columns, epoch: _Epoch) -> None:
        self._columns, self._epoch, self._left = columns, epoch, PATIENCE_FOR_VALIDATION

    @property
    def ended(self) -> bool:
        return self._left <= 0

    def take(self, line: PrintedLine) -> Taken:
        self._left -= 1
        reading = tables.row(self._columns, line.text)
        if reading is None:
            return Taken([], is_row=False)
        self._left = 0
        if self._epoch.validated == self._epoch.number:  # the best weights are validated again at the end
            return Taken([], is_row=True)
        self._epoch.validated = self._epoch.number
        return Taken([replace(reading, epoch=self._epoch.number)], is_row=True)

    def end(self) -> list[Reading]:
        return []


class _Block:
    """The lines of `| key | value |` that make one record."""

    def __init__(self, line: str) -> None:
        self._values: dict[str, str] = {}
        self._section = ""
        self.ended = False
        self._add(line)

    def take(self, line: PrintedLine) -> Taken:
        if self._add(line.text):
            return Taken([], is_row=True)
        self.ended = True
        return Taken(self.end(), is_row=False)

    def end(self) -> list[Reading]:
        reading = key_values.reading_of(self._values)
        return [reading] if reading else []

    def _add(self, line: str) -> bool:
        found = key_values.split(line)
        if found is None or len(self._values) >= MAX_KEYS:
            return False
        key, value = found
        if key.endswith("/") and not value:
            self._section = key
        else:
            self._values[self._section + key] = value
        return True


class _Dictionary:
    """A dictionary on several lines, after a line that says where it belongs: Orbit's."""

    def __init__(self, line: str) -> None:
        self._text = line
        self._left = MAX_KEYS
        self.ended = False

    def take(self, line: PrintedLine) -> Taken:
        is_part = line.text.startswith(("{", "'"))
        if is_part:
            self._text += " " + line.text
        self._left -= 1
        self.ended = not is_part or line.text.endswith("}") or self._left <= 0
        return Taken(self.end() if self.ended else [], is_row=is_part)

    def end(self) -> list[Reading]:
        reading = dictionary.read(self._text) if self._text.endswith("}") else None
        return [reading] if reading else []
