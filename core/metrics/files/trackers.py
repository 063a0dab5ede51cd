"""Read what trackers of experiments write while a program runs, without their packages.

- **Weights & Biases**, `run-*.wandb`: a LevelDB log, blocks of 32 KiB with records that have a header of seven bytes
  (CRC-32, length, type) and are cut where a block ends; the first block begins with seven bytes of its own. Each record
  is a protobuf message `Record` of wandb/proto/wandb_internal.proto, of which only the history is read: items with a
  key and a value in JSON.
- **MLflow**, its file store: a file for each metric, with a value a line.
- **trackio and MLflow**, SQLite databases: they are opened for reading alone, for some milliseconds at a time and
  after they have changed, so that their writer hardly ever waits. A database is shared by all runs of a project: only
  rows that were written during this run are read.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sqlite3
import struct
import time
import zlib
from datetime import datetime
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from core.language import tr, tr_noop
from core.metrics.files.encoding import BYTES, VARINT, fields, signed
from core.metrics.files.growing_file import BLOCK_BYTES, GrowingSource
from core.metrics.files.record_logs import LineFile, json_number
from core.metrics.reading import Reading, reading_of
from core.schema.files import open_to_read

WANDB = ".wandb"
FILE_HEADER = b":W&B"
FILE_HEADER_BYTES, HEADER_BYTES, LOG_BLOCK_BYTES = 7, 7, 32 * 1024
VERSION = 0
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""Larger records are no history."""
HISTORY = 2
"""The field of a `Record` that holds a `HistoryRecord`."""
ITEM, STEP = 1, 2
"""Fields of a `HistoryRecord`."""
KEY, NESTED_KEY, VALUE = 1, 2, 16
"""Fields of a `HistoryItem`."""
OWN_STEP, OWN_TIME = "_step", "_timestamp"
OWN = frozenset({OWN_STEP, OWN_TIME})
STEPS = frozenset({"step", "global_step", "trainer/global_step", "train/global_step", "train_step", "iteration"})
"""Names of a step that the program itself logs; `_step` counts the calls of `log`, if the program gives no step."""
SYSTEM = ("system.", "system/")
"""Prefixes of readings of the machine."""


class WandbFile(GrowingSource):
    """One offline file. A record that is damaged is skipped, and one that is incomplete waits for its rest."""

    def __init__(self, path: Path, offset: int = 0) -> None:  # noqa: ARG002 (each run of wandb has a file of its own)
        super().__init__(path)
        self._parts: list[bytes] = []
        """The parts of a record that goes on in the next block."""

    def poll(self, *, ended: bool = False) -> list[Reading]:  # noqa: ARG002 (an incomplete last record stays so)
        """Return the readings written since the last call, at most a block: see `more`."""
        data = self._file.read(BLOCK_BYTES)
        if self._file.restarted:
            self._parts = []
        begin, at = self._file.offset, 0
        if begin == 0 and len(data) >= FILE_HEADER_BYTES:
            if not self._is_known(data):
                return []
            at = FILE_HEADER_BYTES
        records: list[bytes] = []
        if begin or at:
            at = self._take_records(data, at, begin, records)
        self._file.advance(data, at)
        readings = [self._reading(record) for record in records]
        return [reading for reading in readings if reading is not None]

    def _is_known(self, data: bytes) -> bool:
        if data.startswith(FILE_HEADER) and data[6] == VERSION:
            return True
        self._problem = tr(
            "{path} is not a file of Weights & Biases that this version can read. Its metrics are missing here.",
            path=self.path,
        )
        self._file.advance(data, len(data))
        return False

    def _take_records(self, data: bytes, at: int, begin: int, records: list[bytes]) -> int:
        """Add the complete records in `data`, whose first byte is at `begin` of the file. Return where they end."""
        while True:
            left = LOG_BLOCK_BYTES - (begin + at) % LOG_BLOCK_BYTES
            if left < HEADER_BYTES:  # the end of a block is filled with zeros
                if at + left > len(data):
                    return at
                at += left
                continue
            if at + HEADER_BYTES > len(data):
                return at
            crc, size, kind = struct.unpack_from("<IHB", data, at)
            end = at + HEADER_BYTES + size
            if not FULL <= kind <= LAST or size > left - HEADER_BYTES:
                self._note_damage()
                if at + left > len(data):
                    return at  # go on at the next block once it is there
                self._parts, at = [], at + left
                continue
            if end > len(data):
                return at
            part = data[at + HEADER_BYTES : end]
            if zlib.crc32(part, zlib.crc32(bytes([kind]))) != crc:
                self._note_damage()
                self._parts = []
            else:
                self._join(kind, part, records)
            at = end

    def _join(self, kind: int, part: bytes, records: list[bytes]) -> None:
        if kind in {FULL, FIRST}:
            self._parts = []
        elif not self._parts:
            return  # the beginning was damaged
        self._parts.append(part)
        if sum(map(len, self._parts)) > MAX_RECORD_BYTES:
            self._parts = []
        elif kind in {FULL, LAST}:
            records.append(b"".join(self._parts))
            self._parts = []

    def _reading(self, record: bytes) -> Reading | None:
        try:
            numbers = _history(record)
        except ValueError:
            self._note_damage()
            return None
        if STEPS & numbers.keys():
            numbers.pop(OWN_STEP, None)
        return reading_of(numbers) if numbers else None


def _history(record: bytes) -> dict[str, float]:
    """Return the numbers of a record of the history by name; {} for any other. Raises `ValueError` if it is damaged."""
    numbers: dict[str, float] = {}
    for number, wire, _, content in fields(record):
        if (number, wire) != (HISTORY, BYTES):
            continue
        for inner, inner_wire, _, item in fields(content):
            if (inner, inner_wire) == (ITEM, BYTES):
                name, value = _item(item)
                if value is not None and not name.startswith(SYSTEM) and (not name.startswith("_") or name in OWN):
                    numbers[name] = value
            elif (inner, inner_wire) == (STEP, BYTES):
                numbers[OWN_STEP] = float(
                    next((signed(whole) for _, kind, whole, _ in fields(item) if kind == VARINT), 0)
                )
    return numbers


def _item(item: bytes) -> tuple[str, float | None]:
    """Return the name and the number of an item; None if its value is no number."""
    key, text = "", b""
    nested: list[str] = []
    for number, wire, _, content in fields(item):
        if wire == BYTES and number == KEY:
            key = content.decode("utf-8", "replace")
        elif wire == BYTES and number == NESTED_KEY:
            nested.append(content.decode("utf-8", "replace"))
        elif wire == BYTES and number == VALUE:
            text = content
    try:
        return key or "/".join(nested), json_number(json.loads(text))
    except (ValueError, RecursionError):
        return key or "/".join(nested), None


SUFFIXES = (".db", ".sqlite", ".sqlite3")
MAGIC = b"SQLite format 3\0"
MODE_BYTE, LOG_MODE = 18, b"\2"
"""Where a database says, and how, that it has a write-ahead log: https://www.sqlite.org/fileformat2.html."""
PERIOD_S = 1.0
"""Seconds between two looks into a database."""
BUSY_S = 0.05
"""Seconds to wait for a writer that has locked the database; then the next look tries again."""
MAX_ROWS = 5000
"""Rows to read at a time."""
MAX_ROW_BYTES = 10_000_000
"""Bytes of a row, or of a value that SQLite makes of a formula in a table."""
SLACK_S = 1.0
LOCKED = re.compile("locked|busy")
IS_LOCKED = tr_noop("{path} is locked by its writer. Its metrics are missing here.")
TRIES = 30
"""Looks in a row at a locked database after which that is reported."""
Row = tuple[int, str, float, dict[str, float]]
"""Number of the row, run, unix seconds, numbers by name."""


MLFLOW_FOLDER = f"{os.sep}metrics{os.sep}"
MLFLOW_RUN = "meta.yaml"
"""The file beside the folder of the metrics that every run of MLflow has."""


class MlflowMetricFile(LineFile):
    """The values of one metric in MLflow's file store: `mlruns/EXPERIMENT/RUN/metrics/NAME`.

    A line is `timestamp value step`, the time in milliseconds.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        super().__init__(path, offset)
        self._name = mlflow_metric(str(path))

    def _read(self, line: bytes) -> Reading | None:
        if self._is_repeated(line):
            return None
        try:
            when, value, *step = [float(word) for word in line.split()[:3]]
        except ValueError:
            return None
        numbers = {self._name: value, "timestamp": when / 1000}
        return reading_of(numbers | {"step": step[0]} if step else numbers)


def mlflow_metric(path: str) -> str:
    """Return the name of the metric in a file of MLflow; the empty string if it is no such file."""
    folder, within, name = path.rpartition(MLFLOW_FOLDER)
    return name.replace(os.sep, "/") if within and Path(folder, MLFLOW_RUN).is_file() else ""


class TrackerDatabase:
    """One database. Of several runs in it that began during this one, the first is read."""

    number: ClassVar[str]
    """The column with the numbers of the rows of the table `metrics`."""
    columns: ClassVar[tuple[str, ...]] = ()
    """The other columns that `row` gets; none for a database that is of no known tracker, such as a damaged one."""

    def __init__(self, path: Path, since: float = 0.0, until: float = math.inf) -> None:
        """`since`, `until`: the unix seconds between which rows belong to this run."""
        self.path = path
        self.more = False
        """Whether the last poll left rows unread."""
        self._problem = self._several = ""
        self._since, self._until = since - SLACK_S, until
        self._last_row = 0
        self._run: str | None = None
        self._seen: list[tuple[int, int, int]] = []
        self._due = 0.0
        self._locked = 0

    @property
    def trouble(self) -> str:
        """A sentence that says what is wrong with the database; "" if nothing is."""
        return self._problem or self._several

    def poll(self, *, ended: bool = False) -> list[Reading]:
        """Return the readings of new rows, at most `MAX_ROWS`: see `more`."""
        state = changes_of(str(self.path))
        is_due = ended or time.monotonic() >= self._due
        if not self.more and (state == self._seen or not is_due):
            return []
        self._due = time.monotonic() + PERIOD_S
        self.more = False
        try:
            with contextlib.closing(connect(self.path)) as database:
                rows = self._rows(database)
        except FileNotFoundError:
            return []
        except (sqlite3.Error, OSError) as error:
            self._explain(error)
            return []
        self._seen, self._locked = state, 0
        return [reading for row in rows if (reading := self._reading(row)) is not None]

    def row(self, columns: tuple[object, ...]) -> Row:
        raise NotImplementedError

    def _rows(self, database: sqlite3.Connection) -> list[Row]:
        self._problem = ""
        missing = sorted({*self.columns} - _names(database, "SELECT name FROM pragma_table_info('metrics')"))
        if missing or not self.columns:
            self._problem = tr("{path} has another layout than this version of Trainyard knows (it lacks {missing}). "
                               "Its metrics are missing here.",
                               path=self.path, missing=".".join(["metrics", *missing[:1]]))
            return []
        number, rows = self.number, []
        select = "SELECT {} FROM metrics WHERE {number} > ? ORDER BY {number} LIMIT ?"
        numbers, whole = (select.format(each, number=number) for each in (number, ", ".join((number, *self.columns))))
        begin = self._last_row
        for most in (MAX_ROWS, 1):  # alone, after the next row or the row after it was too large
            count = 0
            try:
                for columns in database.execute(whole, (self._last_row, most)):
                    self._last_row, count = columns[0], count + 1
                    with contextlib.suppress(ValueError, TypeError, OverflowError, RecursionError):
                        rows.append(self.row(columns))
            except sqlite3.DataError:
                continue
            except sqlite3.Error:
                self._last_row = begin  # these rows are read again
                raise
            self.more = count == most
            return rows
        too_large = database.execute(numbers, (self._last_row, 1)).fetchone()
        self.more = too_large is not None
        self._last_row = too_large[0] if too_large is not None else self._last_row
        return rows

    def _reading(self, row: Row) -> Reading | None:
        _, run, when, numbers = row
        if not self._since <= when <= self._until:
            return None
        if self._run is None:
            self._run = run
        if run != self._run:
            self._several = tr("{path} has several runs of this program. Only the first is shown.", path=self.path)
            return None
        return reading_of(numbers | {"timestamp": when})

    def _explain(self, error: Exception) -> None:
        if isinstance(error, sqlite3.OperationalError) and LOCKED.search(str(error)):
            self._locked += 1
            if self._locked >= TRIES:
                self._problem = tr(IS_LOCKED, path=self.path)
            return
        self._seen = changes_of(str(self.path))
        self._problem = tr("{path} cannot be read: {error}. Its metrics are missing here.", path=self.path, error=error)


class TrackioDatabase(TrackerDatabase):
    """The database of a project of trackio."""

    number, columns = "id", ("run_name", "timestamp", "step", "metrics")

    def row(self, columns: tuple[object, ...]) -> Row:
        number, run, when, step, text = columns
        found = json.loads(text)  # type: ignore[arg-type]  # another type raises `TypeError`, as documented
        if not isinstance(found, dict):
            raise TypeError(found)
        numbers = {name: value for name, each in found.items() if (value := json_number(each)) is not None}
        if not any(name in numbers for name in ("step", "global_step")):
            numbers["step"] = float(step)  # type: ignore[arg-type]  # likewise
        return int(number), str(run), datetime.fromisoformat(str(when)).timestamp(), numbers  # type: ignore[call-overload]


class MlflowDatabase(TrackerDatabase):
    """The database of MLflow's tracking store."""

    number, columns = "rowid", ("run_uuid", "timestamp", "step", "key", "value", "is_nan")

    def row(self, columns: tuple[object, ...]) -> Row:
        number, run, when, step, name, value, is_nan = columns
        if str(name).startswith("system/"):
            raise ValueError(name)
        numbers = {str(name): math.nan if is_nan else float(value), "step": float(step)}  # type: ignore[arg-type]
        return int(number), str(run), float(when) / 1000, numbers  # type: ignore[call-overload, arg-type]


def reader_of(path: Path) -> type[TrackerDatabase] | None:
    """Return the reader for a database; `TrackerDatabase` if it is locked; None if it is not a tracker's."""
    try:
        with open_to_read(path, follow_link=True) as file:
            if file.read(len(MAGIC)) != MAGIC:
                return None
        with contextlib.closing(connect(path)) as database:
            tables = _names(database, "SELECT name FROM sqlite_master WHERE type = 'table'")
    except (OSError, sqlite3.Error) as error:
        return TrackerDatabase if LOCKED.search(str(error)) else None
    if {"metrics", "alembic_version", "runs"} <= tables:
        return MlflowDatabase
    return TrackioDatabase if {"metrics", "configs", "system_metrics"} <= tables else None


def is_database(path: str | Path) -> bool:
    """Return whether a path has the name of a database."""
    return str(path).lower().endswith(SUFFIXES)


def changes_of(path: str) -> list[tuple[int, int, int]]:
    """Return inode, size and time in ns of a database and of its log, in which new rows stand first; 0 if missing."""
    return [_state(path), _state(f"{path}-wal")]


def written_at(path: str) -> float:
    """Return when a database or its log was last written, in unix seconds."""
    return max(written for _, _, written in changes_of(path)) / 1e9


def connect(path: Path) -> sqlite3.Connection:
    """Open a database for reading alone. Raises `sqlite3.Error`, or `OSError` if the file cannot be read.

    A database with a write-ahead log that nothing has open is opened as one that does not change: SQLite would make the
    files of the log otherwise. A writer that comes in these milliseconds writes into its log first.
    """
    with open_to_read(path, follow_link=True) as file:
        has_log = file.read(MODE_BYTE + 1)[MODE_BYTE:] == LOG_MODE
    how = "mode=ro&immutable=1" if has_log and not _state(f"{path}-wal")[1] else "mode=ro"
    database = sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=BUSY_S, isolation_level=None)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)
    return database


def _state(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 (several times a second)
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


def _names(database: sqlite3.Connection, query: str) -> set[str]:
    return {str(name) for (name,) in database.execute(query)}
