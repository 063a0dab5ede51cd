"""Summaries of runs that are over, in a database in the user's cache folder, so that thousands are listed at once.

It is derived from the run directories: whatever happens to it, nothing is lost, and lists of runs do without it. Each
summary is kept with the sizes and times of the files it was made from. Any number of windows and commands may use it:
SQLite lets one write at a time, and who finds it locked, damaged or the disk full writes later, or never.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from core.history.marks import Marks, Note
from core.history.summary import RunSummary
from core.language import Message, stored
from core.runs.facts import RunState, state_info
from core.runs.run import Mark
from core.schema.event_kinds import Plan, Verdict
from core.schema.files import open_to_append
from core.system.folders import cache_folder, make_cache_folder

if TYPE_CHECKING:
    import sqlite3

log = logging.getLogger(__name__)

Result = TypeVar("Result")

FORMAT = 3
"""Increases with every change of what is kept; a database of another format is made again."""
READ_S, WRITE_S = 0.05, 2.0
"""Seconds to wait while another process writes; a window reads the newest runs between two frames."""
LARGEST = "\U0010ffff"
"""A name behind all others."""
BATCH = 25
"""Summaries that are decoded at once: other threads wait for that."""
MAX_TEXT = 100_000
"""Characters of a summary that is kept; a longer one is read from its run each time."""


class CachedSummary:
    """A summary and the state of the files it was made from."""

    __slots__ = ("folders", "mark", "summary")

    def __init__(self, summary: RunSummary, mark: Mark, folders: Mark) -> None:
        self.summary, self.mark, self.folders = summary, mark, folders


def default_file() -> Path:
    return cache_folder() / "runs.sqlite3"


class SummaryCache:
    """The summaries of the runs below one root. No method raises an error of the database."""

    def __init__(self, root: Path, file: Path | None = None) -> None:
        """`file`: None for the default."""
        self._root = root
        self._key = f"{os.geteuid()}:{os.path.realpath(root)}"
        self._file = file or default_file()

    def load(self, below: str = LARGEST, count: int = -1) -> tuple[dict[str, CachedSummary], str | None]:
        """Return what is kept of runs, the newest first, and the last name if there may be more behind it.

        `below`: only runs with a smaller name. `count`: at most so many; -1 for all. What was damaged is left out.
        """
        if not self._file.exists():
            return {}, None

        def read(database: sqlite3.Connection) -> tuple[dict[str, CachedSummary], str | None]:
            if database.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                return {}, None
            rows: list[tuple[str, ...]] = database.execute(
                "SELECT name, mark, folders, summary FROM runs WHERE root = ? AND name < ? ORDER BY name DESC LIMIT ?",
                (self._key, below, count),
            ).fetchall()
            found: dict[str, CachedSummary] = {}
            for first in range(0, len(rows), BATCH):
                found |= _decoded(self._root, rows[first : first + BATCH])
            return found, rows[-1][0] if len(rows) == count else None

        return self._use(read, READ_S if below == LARGEST else WRITE_S) or ({}, None)

    def save(self, kept: Mapping[str, CachedSummary], gone: Collection[str] = ()) -> bool:
        """Keep summaries, and forget those of runs that are gone. Return whether that was possible."""
        rows = [(self._key, name, *row) for name, each in kept.items() if (row := _encoded(name, each)) is not None]

        def write(database: sqlite3.Connection) -> bool:
            database.execute("BEGIN IMMEDIATE")
            if database.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                database.execute("DROP TABLE IF EXISTS runs")
                database.execute(
                    "CREATE TABLE runs (root TEXT, name TEXT, mark TEXT, folders TEXT, summary TEXT, "
                    "PRIMARY KEY (root, name)) WITHOUT ROWID"
                )
                database.execute(f"PRAGMA user_version = {FORMAT}")
            database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", rows)
            database.executemany("DELETE FROM runs WHERE root = ? AND name = ?", [(self._key, each) for each in gone])
            database.execute("COMMIT")
            return True

        try:
            make_cache_folder(self._file.parent)
            os.close(open_to_append(self._file))  # private, which SQLite would not make it
        except OSError:
            return False
        return self._use(write, WRITE_S) or False

    def _use(self, work: Callable[[sqlite3.Connection], Result], patience_s: float) -> Result | None:
        """Do work with the database. Return None where it cannot be used; a damaged one is deleted."""
        import sqlite3  # most folders have few runs and need no database

        database = None
        try:
            database = sqlite3.connect(self._file, timeout=patience_s, isolation_level=None)
            return work(database)
        except (sqlite3.Error, OSError, ValueError, TypeError, UnicodeError) as error:
            log.info("The index %s was not used: %s", self._file, error)
            # An operational error says that it is locked, that the disk is full, or that it may not be written.
            is_damaged = not isinstance(error, (sqlite3.OperationalError, OSError)) or "no such" in str(error)
            for suffix in ("-journal", "") if is_damaged else ():
                with contextlib.suppress(OSError):
                    Path(f"{self._file}{suffix}").unlink()
            return None
        finally:
            if database is not None:
                database.close()  # rolls back what was not committed


# -- one summary ---------------------------------------------------------------------------------


def _encoded(name: str, kept: CachedSummary) -> tuple[str, str, str] | None:
    """Return mark, folders and summary as texts; None for what is not kept."""
    each = kept.summary
    if not state_info(each.state).over:
        return None
    fields = [
        each.name, each.state.value, each.started, each.ended, stored(each.error), each.last_loss, each.step,
        each.plan.fields() if each.plan else None, each.is_script, each.owner, each.mean_loss, each.best_validation,
        each.kept_loss, each.renamed, each.verdict.value if each.verdict else None,
        each.marks.star, each.marks.archived, each.marks.tags, [(note.time, note.text) for note in each.marks.notes],
        dict(each.settings), each.nan_step,
    ]
    try:
        texts = json.dumps(kept.mark), json.dumps(kept.folders), json.dumps(fields)
        for text in (name, *texts):
            text.encode()  # a name may have what is no character
    except (ValueError, TypeError):
        return None
    return texts if len(texts[2]) <= MAX_TEXT else None


def _decoded(root: Path, rows: Iterable[Sequence[str]]) -> dict[str, CachedSummary]:
    """Return summaries by name. The rows are parsed together, so that they share the names of settings."""
    found = {}
    texts = list(rows)
    try:
        documents = json.loads(f"[{','.join(f'[{mark},{folders},{text}]' for _, mark, folders, text in texts)}]")
    except ValueError:
        documents = [_parsed(*row[1:]) for row in texts]  # one of them is damaged
    for (name, *_), document in zip(texts, documents, strict=False):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            mark, folders, fields = document
            found[name] = CachedSummary(_summary(root / name, fields), _mark(mark), _mark(folders))
    return found


def _parsed(mark: str, folders: str, text: str) -> Any:  # noqa: ANN401 (JSON)
    try:
        return json.loads(f"[{mark},{folders},{text}]")
    except ValueError:
        return None


def _summary(run_dir: Path, fields: Sequence[Any]) -> RunSummary:
    (name, state, started, ended, error, last_loss, step, plan, is_script, owner, mean_loss, best, kept, renamed,
     verdict, star, archived, tags, notes, settings, nan_step) = fields
    if not (isinstance(name, str) and isinstance(step, int) and isinstance(settings, dict) and isinstance(tags, list)):
        raise TypeError(fields)
    return RunSummary(
        dir=run_dir, name=name, state=RunState(state), started=started, ended=ended,
        error=None if error is None else Message.read(error), last_loss=last_loss, step=step,
        plan=Plan(**plan) if plan else None, is_script=is_script, owner=owner, mean_loss=mean_loss,
        best_validation=(best[0], best[1]) if best else None, kept_loss=kept, renamed=renamed,
        verdict=Verdict(verdict) if verdict else None,
        marks=Marks(star=star, archived=archived, tags=tuple(tags),
                    notes=tuple(Note(time=time, text=text) for time, text in notes)),
        settings=settings, nan_step=nan_step,
    )


def _mark(value: Sequence[Sequence[int] | None]) -> Mark:
    return tuple((each[0], each[1]) if each else None for each in value)
