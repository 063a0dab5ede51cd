"""Read the SQLite databases of trackio and of MLflow while a program writes them.

They are opened for reading alone, for some milliseconds at a time and after they have changed, so that their writer
hardly ever waits. A database is shared by all runs of a project: only rows that were written during this run are read.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import time
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from core.language import tr
from core.metrics.files.record_logs import json_number, reading_of
from core.schema.files import open_to_read

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.common.reading import Reading

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
TRIES = 30
"""Looks in a row at a locked database after which that is reported."""
Row = tuple[int, str, float, dict[str, float]]
"""Number of the row, run, unix seconds, numbers by name."""


class TrackerDatabase:
    """One database. Of several runs in it that began during this one, the first is read."""

    tables: ClassVar[dict[str, frozenset[str]]] = {}
    """The columns that are needed, by table."""
    number: ClassVar[str]
    """The column with the numbers of the rows of the table `metrics`."""
    columns: ClassVar[str]
    """The SQL for what `row` gets besides the number."""

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
        """Return one row of `query`. Raises `ValueError` or `TypeError` for one that cannot be read."""
        raise NotImplementedError

    def _rows(self, database: sqlite3.Connection) -> list[Row]:
        missing = [
            f"{table}.{column}"
            for table, columns in self.tables.items()
            for column in sorted(columns - _names(database, "SELECT name FROM pragma_table_info(?)", table))
        ]
        self._problem = ""
        if missing:
            self._problem = tr(
                "{path} has another layout than this version of Trainyard knows (it lacks {missing}). "
                "Its metrics are missing here.",
                path=self.path,
                missing=missing[0],
            )
            return []
        number, rows = self.number, []
        select = "SELECT {} FROM metrics WHERE {number} > ? ORDER BY {number} LIMIT ?"
        numbers, whole = (select.format(each, number=number) for each in (number, f"{number}, {self.columns}"))
        for most in (MAX_ROWS, 1):  # alone, after the next row or the row after it was too large
            count = 0
            with contextlib.suppress(sqlite3.DataError):
                for columns in database.execute(whole, (self._last_row, most)):
                    self._last_row, count = columns[0], count + 1
                    with contextlib.suppress(ValueError, TypeError, OverflowError, RecursionError):
                        rows.append(self.row(columns))
                self.more = count == most
                return rows
        self._last_row = database.execute(numbers, (self._last_row, 1)).fetchone()[0]
        self.more = True
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
        if isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error)):
            self._locked += 1
            if self._locked >= TRIES:
                self._problem = tr("{path} is locked by its writer. Its metrics are missing here.", path=self.path)
            return
        self._seen = changes_of(str(self.path))
        self._problem = tr("{path} cannot be read: {error}. Its metrics are missing here.", path=self.path, error=error)


class TrackioDatabase(TrackerDatabase):
    """The database of a project of trackio."""

    tables: ClassVar[dict[str, frozenset[str]]] = {"metrics": frozenset({"id", "timestamp", "step", "metrics"})}
    number, columns = "id", "run_name, timestamp, step, metrics"

    def row(self, columns: tuple[object, ...]) -> Row:
        """Return one row."""
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

    tables: ClassVar[dict[str, frozenset[str]]] = {
        "metrics": frozenset({"key", "value", "timestamp", "step", "is_nan", "run_uuid"})
    }
    number, columns = "rowid", "run_uuid, timestamp, step, key, value, is_nan"

    def row(self, columns: tuple[object, ...]) -> Row:
        """Return one row."""
        number, run, when, step, name, value, is_nan = columns
        if str(name).startswith("system/"):
            raise ValueError(name)
        numbers = {str(name): math.nan if is_nan else float(value), "step": float(step)}  # type: ignore[arg-type]
        return int(number), str(run), float(when) / 1000, numbers  # type: ignore[call-overload, arg-type]


def reader_of(path: Path) -> type[TrackerDatabase] | None:
    """Return the reader for a database; None if it is none of a tracker, or cannot be opened now."""
    try:
        with open_to_read(path, follow_link=True) as file:
            if file.read(len(MAGIC)) != MAGIC:
                return None
        with contextlib.closing(connect(path)) as database:
            tables = _names(database, "SELECT name FROM sqlite_master WHERE type = 'table'")
    except (OSError, sqlite3.Error):
        return None
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


def _names(database: sqlite3.Connection, query: str, *parameters: str) -> set[str]:
    return {str(name) for (name,) in database.execute(query, parameters)}
