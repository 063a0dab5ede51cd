"""Find the metric files that a program starts to write: event files, tables and JSON lines."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.metrics.files.growing_file import MARK_BYTES, GrowingFile
from core.metrics.files.record_logs import header_of, read_object
from core.metrics.files.trackers import MLFLOW_FOLDER, WANDB, is_database, mlflow_metric, reader_of, written_at
from core.metrics.reading import canonical

MAX_DEPTH = 8
"""Levels of folders to search; Hydra's `outputs/<date>/<time>/lightning_logs/version_0` is level five."""
MAX_ENTRIES = 50_000
"""Folders, and files with the name of a metric file, to look at in one sweep over all folders."""
AT_ONCE = 500
"""Names to read before the time is looked at: a folder of data may have a million."""
MAX_FOUND = 200
"""Files to find in all: a hyperparameter search may write thousands."""
SEARCH_S = 0.005
"""Seconds of searching in one call."""
REMEMBER_S = 0.5
"""Seconds for listing the files that are there before the run."""
SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "dist-packages", "venv", "proc", "sys"})
SLACK_S = 1.0
"""Seconds of tolerance for file times: they are coarser than the clock, and a file server has its own clock."""

EVENTS = ".tfevents."
TABLES = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".ndjson", ".log.json", "metrics.json")
METRIC_WORDS = frozenset({
    "loss", "accuracy", "acc", "perplexity", "reward", "f1", "auc", "auroc", "iou", "miou", "map", "bleu", "dice",
    "psnr", "ssim", "fid", "nll", "elbo", "wer", "cer", "mae", "mse", "rmse",
})
"""A table with one of these words in a column name is a training log."""
HEAD_BYTES = 64 * 1024
HEAD_LINES = 20


class MetricFileFinder:
    """Finds metric files written after the run began. Each search is short; the next one continues the sweep.

    Call `remember` before the program starts, to note the files that exist. An existing file is found if it grows,
    and `offset` gives the size it had before the run.
    """

    def __init__(
        self,
        folders: Iterable[Path],
        since: float,
        *,
        without: Collection[Path] = (),
        is_ours: Callable[[str, os.stat_result], bool] = lambda *_: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`since`: start of the run in unix seconds. `without`: files and folders to ignore, such as the run's own.

        `is_ours`: whether a file may belong to this run; after False it is called again in the next sweep.
        """
        self._folders = list(folders)
        self._since = since - SLACK_S
        self._without = {os.path.abspath(path) for path in without}  # noqa: PTH100 (keeps links)
        self._is_ours, self._clock = is_ours, clock
        self._before: dict[str, _Before] = {}
        """Files from before the run, by path."""
        self._remembers = False
        self.refused: dict[str, tuple[int, int]] = {}
        """Size and time of files without metrics, by path."""
        self._found: set[str] = set()
        self._walk: Iterator[Path | None] | None = None

    def add(self, folder: Path) -> None:
        """Search this folder, too, from the next sweep on."""
        if folder not in self._folders:
            self._folders.append(folder)

    @property
    def is_full(self) -> bool:
        """Whether so many files were found that no other is looked for."""
        return len(self._found) >= MAX_FOUND

    def search(self, seconds: float = SEARCH_S) -> list[Path]:
        """Search for `seconds` and return the new files; the next call continues from there."""
        until, found = self._clock() + seconds, []
        self._walk = self._walk or self._sweep()
        for step in self._walk:
            if step is not None:
                found.append(step)
            if self._clock() >= until:
                return found
        self._walk = None  # the sweep is complete; the next call starts another
        return found

    def search_all(self, seconds: float) -> list[Path]:
        """Start a sweep from the beginning, for at most `seconds`, and return the new files."""
        self._walk = None
        return self.search(seconds)

    def remember(self, seconds: float = REMEMBER_S) -> None:
        """Note the existing files, in one sweep of at most `seconds`. Call it before the program starts."""
        self._remembers = True
        self.search_all(seconds)
        self._walk, self._remembers = None, False

    def offset(self, path: Path) -> int:
        """Return how many bytes of a file were there before the run; of a database, its first second in unix time."""
        if is_database(path):
            return int(self._since)
        before = self._before.get(os.fspath(path))
        return before.size if before else 0

    def _sweep(self) -> Iterator[Path | None]:
        """Walk all folders, recently changed ones first. Yield each file found, and None after each folder."""
        waiting = deque((os.path.abspath(folder), 0) for folder in self._folders)  # noqa: PTH100
        seen: set[tuple[int, int]] = set()
        entries = 0
        while waiting and entries < MAX_ENTRIES and len(self._found) < MAX_FOUND:
            folder, depth = waiting.popleft()
            for entry in self._entries(folder, seen):
                if entry is None:
                    yield None
                    continue
                is_folder = depth < MAX_DEPTH and self._queues(waiting, entry, depth + 1)
                entries += is_folder or may_have_metrics(entry.path)
                if not is_folder and self._is_wanted(entry):
                    yield Path(entry.path)
            yield None

    def _entries(self, folder: str, seen: set[tuple[int, int]]) -> Iterator[os.DirEntry[str] | None]:
        """Yield a folder's entries, and None now and then.

        There are none if it is missing, unreadable or already visited by another path.
        """
        try:
            found = os.stat(folder)  # noqa: PTH116
            if (found.st_dev, found.st_ino) in seen:
                return
            seen.add((found.st_dev, found.st_ino))
            with os.scandir(folder) as entries:
                for number, entry in enumerate(entries, start=1):
                    if self._is_searched(entry):
                        yield entry
                    if number % AT_ONCE == 0:
                        yield None
        except OSError:
            return

    def _is_searched(self, entry: os.DirEntry[str]) -> bool:
        return not entry.name.startswith(".") and entry.name not in SKIPPED and entry.path not in self._without

    def _queues(self, waiting: deque[tuple[str, int]], entry: os.DirEntry[str], depth: int) -> bool:
        """Add a folder to those that wait; return whether the entry is a folder."""
        try:
            if not entry.is_dir():
                return False
            add = waiting.appendleft if entry.stat().st_mtime >= self._since else waiting.append
        except OSError:
            return False
        add((entry.path, depth))
        return True

    def _is_wanted(self, entry: os.DirEntry[str]) -> bool:
        """Return whether the entry is a new metric file, written since the run began."""
        holds_metrics = _kind(entry.path)
        if holds_metrics is None or entry.path in self._found:
            return False
        try:
            state = entry.stat()
        except OSError:
            return False
        if is_database(entry.path):  # other runs may have begun it
            written = not self._remembers and written_at(entry.path) >= self._since
        else:
            written = self._is_written(entry.path, state)
        if not stat.S_ISREG(state.st_mode) or not written:
            return False
        # Rows may be in the log of a database that is unchanged, or a lock may be gone.
        if self.refused.get(entry.path) == (state.st_size, state.st_mtime_ns) and not is_database(entry.path):
            return False
        if not holds_metrics(Path(entry.path)):
            self.refused[entry.path] = state.st_size, state.st_mtime_ns
        elif self._is_ours(entry.path, state):
            self._found.add(entry.path)
        return entry.path in self._found

    def _is_written(self, path: str, state: os.stat_result) -> bool:
        before = self._before.get(path)
        if before is None and (self._remembers or state.st_mtime < self._since):
            self._before[path] = _Before(state.st_size, state.st_ino, _mark(path, state.st_size))
            return False
        if before is not None and state.st_size == before.size:
            return False  # unchanged
        if before is not None and not before.is_continued(path, state):
            del self._before[path]
        return state.st_size > 0


@dataclass(frozen=True, slots=True)
class _Before:
    """A file as it was before the run."""

    size: int
    inode: int
    mark: bytes

    def is_continued(self, path: str, state: os.stat_result) -> bool:
        """Return whether the file was appended to. A program often rewrites the log of its last run instead."""
        return state.st_size > self.size and state.st_ino == self.inode and _mark(path, self.size) == self.mark


def _mark(path: str, size: int) -> bytes:
    """Return the last bytes of the first `size` bytes of a file."""
    begin = max(0, size - MARK_BYTES)
    return GrowingFile(Path(path), begin).read(size - begin)


def may_have_metrics(path: str) -> bool:
    """Return whether a file at this path has the name of a metric file."""
    return _kind(path) is not None


def _kind(path: str) -> Callable[[Path], bool] | None:
    """Return the check of the content of a file at this path; None if it is not that of a metric file."""
    lower = path.rpartition(os.sep)[2].lower()
    if EVENTS in lower or lower.endswith(WANDB):
        return lambda _: True
    if is_database(lower):
        return lambda database: (reader := reader_of(database)) is not None and reader.columns != ()
    if MLFLOW_FOLDER in path and mlflow_metric(path):
        return lambda _: True
    if lower.endswith(TABLES):
        return _is_table_log
    return _is_json_log if lower.endswith(JSON_LINES) else None


def _is_table_log(path: Path) -> bool:
    """Return whether a table's columns are those of a training log, and not of a data set."""
    line, end, _ = GrowingFile(path).read(HEAD_BYTES).partition(b"\n")
    header = header_of(line) if end else None
    return header is not None and any(_is_metric(name) for name in header.names)


def _is_json_log(path: Path) -> bool:
    """Return whether one of a file's first lines is a JSON object with a training metric."""
    lines = GrowingFile(path).read(HEAD_BYTES).split(b"\n")[:-1]
    for line in lines[:HEAD_LINES]:
        with contextlib.suppress(ValueError):
            if any(map(_is_metric, read_object(line).values)):
                return True
    return False


def _is_metric(name: str) -> bool:
    return not METRIC_WORDS.isdisjoint(canonical(name).split("_"))
