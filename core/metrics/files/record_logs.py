"""Logs with one record a line: CSV tables and JSON lines, read while a program writes them.

The environment variable `TRAINYARD_METRICS` names a file of JSON lines. A program that appends lines such as

    {"step": 1, "loss": 0.5}

to it gets its curves drawn, whatever it prints and whatever language it is written in. `step`, `epoch` and `time`
(unix seconds) are optional; every other key with a number is a metric. NaN and Infinity are written as in
Python's json.
"""

from __future__ import annotations

import contextlib
import csv
import json
import re
from array import array
from collections.abc import Hashable
from pathlib import Path
from typing import NamedTuple

from core.language import tr
from core.metrics.files.growing_file import BLOCK_BYTES, GrowingFile, GrowingSource
from core.metrics.reading import Reading, reading_of, reading_of_object

MAX_LINE_BYTES = BLOCK_BYTES
"""A line of this many bytes is not a record and is skipped."""
SEPARATORS = ",;\t|"

DECIMAL_COMMA = re.compile(r"^([-+]?\d+),(\d+(?:[eE][-+]?\d+)?)$")

EXAMPLE = '{"step": 1, "loss": 0.5}'
UNREAL = frozenset({"NaN", "Infinity", "-Infinity"})
"""Numbers that JSON does not have, as trackers write them."""
SHOWN_CHARACTERS = 80


class LineFile(GrowingSource):
    """A file with one record a line. Subclasses read a line.

    Some programs rewrite their whole log at every save. Lines that come again unchanged give no readings.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        super().__init__(path, offset)
        self._in_long_line = False
        self._hashes = array("q")
        """One hash a record, in the order of the file."""
        self._index = 0

    def poll(self, *, ended: bool = False) -> list[Reading]:
        """Return the readings of the lines completed since the last call, at most a block: see `more`.

        With `ended`, the program has exited, and the last line needs no newline.
        """
        data = self._file.read(again=ended)
        if self._file.restarted:
            self._restart()
        size = data.rfind(b"\n") + 1
        if (not size and len(data) >= MAX_LINE_BYTES) or (ended and not self.more):
            size = len(data)
        self._file.advance(data, size)
        readings = [self._read(line) for line in self._lines(data[:size])]
        return [reading for reading in readings if reading is not None]

    def _lines(self, data: bytes) -> list[bytes]:
        if self._in_long_line:
            begin = data.find(b"\n") + 1
            if not begin:
                return []
            data, self._in_long_line = data[begin:], False
        if len(data) >= MAX_LINE_BYTES and b"\n" not in data:
            self._in_long_line = True
            return []
        return [line for line in data.replace(b"\r", b"").split(b"\n") if line.strip()]

    def _restart(self) -> None:
        """Prepare for the first line of a rewritten file."""
        self._index, self._in_long_line = 0, False

    def _is_repeated(self, record: Hashable) -> bool:
        """Return whether the file had this record at this place before. After a difference all records are new."""
        value, index = hash(record), self._index
        self._index += 1
        if index < len(self._hashes) and self._hashes[index] == value:
            return True
        del self._hashes[index:]
        self._hashes.append(value)
        return False

    def _read(self, line: bytes) -> Reading | None:
        """Return the reading of a line; None without metrics, or if the line repeats."""
        raise NotImplementedError


class CsvFile(LineFile):
    """A growing table, such as the `CSVLogger` of Lightning or Keras writes.

    The first line names the columns; an empty cell and one without a number have no value. Lightning rewrites the file
    when it adds a column. A later line of names is a new header.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        super().__init__(path, offset)
        self._header: Header | None = header_of(GrowingFile(path).read().split(b"\n")[0]) if offset else None

    def _restart(self) -> None:
        super()._restart()
        self._header = None

    def _read(self, line: bytes) -> Reading | None:
        if self._header is None:
            self._header = header_of(line)
            return None
        cells = _cells(line, self._header.separator)
        if not any(_number(cell) is not None for cell in cells):
            self._header = header_of(line) or self._header
            return None
        named = {name: cell for name, cell in zip(self._header.names, cells, strict=False) if cell and name}
        # Compare cells by column name: a row stays equal when a column is added.
        if self._is_repeated(tuple(sorted(named.items()))):
            return None
        numbers = {name: _number(cell) for name, cell in named.items()}
        return reading_of({name: value for name, value in numbers.items() if value is not None})


class JsonLines(LineFile):
    """A growing file of JSON lines. Lines without a metric are skipped."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        super().__init__(path, offset)
        self.complaint = ""
        """Sentences for the user about the first skipped line; "" if none was skipped."""

    def _read(self, line: bytes) -> Reading | None:
        if self._is_repeated(line):
            return None
        try:
            return read_object(line)
        except ValueError as error:
            if not self.complaint:
                text = line[:SHOWN_CHARACTERS].decode("utf-8", "replace")
                self.complaint = tr(
                    "A line of {path} was skipped: {error}. The line is {text!r}; write lines such as {example}.",
                    path=self.path,
                    error=error,
                    text=text,
                    example=EXAMPLE,
                )
            return None


class Header(NamedTuple):
    """The first line of a table."""

    names: tuple[str, ...]
    separator: str


def header_of(line: bytes) -> Header | None:
    """Parse a table's header. Return None if a cell is a number or all cells are empty."""
    text = _text(line)
    separator = max(SEPARATORS, key=text.count)  # a comma if there is none
    names = tuple(_cells(line, separator))
    if not any(names) or any(_number(name) is not None for name in names):
        return None
    return Header(names=names, separator=separator)


def read_object(line: bytes) -> Reading:
    """Parse one JSON line. Raises `ValueError` with the reason if it holds no metric."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(tr("it is not JSON")) from None
    if not isinstance(found, dict):
        raise ValueError(tr("it is not a JSON object"))  # noqa: TRY004 (the line is wrong, not the caller's type)
    reading = reading_of_object(found, json_number)
    if reading is None:
        raise ValueError(tr("it has no number besides step, epoch and time"))
    return reading


def _cells(line: bytes, separator: str) -> list[str]:
    """Return the cells of a row without surrounding spaces and quotes; [] if the line is not a row of a table."""
    try:
        row = next(csv.reader([_text(line)], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []
    cells = [cell.strip() for cell in row]
    return cells if separator == "," else [DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in cells]


def _number(cell: str) -> float | None:
    """Return a cell as a number, which may be NaN or infinite; None if it is not a number."""
    try:
        return float(cell)
    except ValueError:
        return None


def json_number(value: object) -> float | None:
    """Return a value of JSON as a number, also one that a tracker has written as text; None if it is none."""
    if isinstance(value, str):
        return float(value) if value in UNREAL else None
    with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
        return float(value) if isinstance(value, float) or type(value) is int else None
    return None


def _text(line: bytes) -> str:
    """Return the text of a line. In UTF-16, ASCII has zeros. Other encodings keep different names apart."""
    plain = line.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    return plain.decode("utf-8", "backslashreplace").lstrip("\ufeff")
