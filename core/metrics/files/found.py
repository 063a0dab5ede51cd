"""Which files of metrics a program has begun to write: event files, tables and JSON lines below some folders."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from core.metrics.common.names import canonical
from core.metrics.files.growing import MARK_BYTES, Growing
from core.metrics.files.json_lines import read_object
from core.metrics.files.table import header_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

DEEPEST = 8
"""So many folders down; Hydra's `outputs/<date>/<time>/lightning_logs/version_0` is five."""
MAX_OF_A_FOLDER = 2_000
"""A folder with more entries holds data: of it no more are looked at."""
MAX_ENTRIES = 50_000
"""So many in one sweep over all folders."""
MAX_FOUND = 200
"""Files, in all: a search over settings may write one for each of thousands."""
LOOK_S = 0.005
REMEMBER_S = 0.5
SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "dist-packages", "venv", "proc", "sys"})
SLACK_S = 1.0
"""File systems keep time more coarsely than the clock, and a file server has a clock of its own."""

EVENTS = ".tfevents."
TABLES = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".ndjson", ".log.json", "metrics.json")
LOGGED = frozenset({
    "loss", "accuracy", "acc", "perplexity", "reward", "f1", "auc", "auroc", "iou", "miou", "map", "bleu", "dice",
    "psnr", "ssim", "fid", "nll", "elbo", "wer", "cer", "mae", "mse", "rmse",
})  # fmt: skip
"""Words in a column's name by which a table is told to be a log of training."""
HEAD_BYTES = 64 * 1024
FIRST_LINES = 20


class MetricFileFinder:
    """Looks for files that are written after a run began, a little at a time: a sweep takes as many looks as it takes.

    A file that was there before is one of them if it grows; `offset` says from where on it is the run's. Which these
    are is what `remember` is for, to be called before the program is started.
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
        """`since`: when the run began, in unix seconds. `without`: files and folders to leave out, as the run's own.

        `is_ours`: whether a file may be taken for one of this run; one that may not is asked about again.
        """
        self._folders = list(folders)
        self._since = since - SLACK_S
        self._without = {os.path.abspath(path) for path in without}  # noqa: PTH100 (links are to stay)
        self._is_ours, self._clock = is_ours, clock
        self._before: dict[str, _Before] = {}
        """By path, the files of before the run as they were met first."""
        self._remembers = False
        self._refused: dict[str, tuple[int, int]] = {}
        """By path, size and time of files that were looked into and held no metrics."""
        self._found: set[str] = set()
        self._walk: Iterator[Path | None] | None = None

    def look(self, seconds: float = LOOK_S) -> list[Path]:
        """The files found within so much time, each once; the next call goes on from there."""
        until, found = self._clock() + seconds, []
        self._walk = self._walk or self._sweep()
        for step in self._walk:
            if step is not None:
                found.append(step)
            if self._clock() >= until:
                return found
        self._walk = None  # all was looked at; it begins anew with the next call
        return found

    def look_at_all(self, seconds: float) -> list[Path]:
        """The files found by a sweep that begins now, within so much time: nothing will be written any more."""
        self._walk = None
        return self.look(seconds)

    def remember(self, seconds: float = REMEMBER_S) -> None:
        """What is there by now is not the run's: one sweep, within so much time, before the program is started."""
        self._walk, self._remembers = None, True
        self.look(seconds)
        self._walk, self._remembers = None, False

    def offset(self, path: Path) -> int:
        """How many bytes of a file were there before the run."""
        before = self._before.get(os.fspath(path))
        return before.size if before else 0

    def _sweep(self) -> Iterator[Path | None]:
        """Every entry of every folder, those folders first that were changed since the run began: None, or a find."""
        waiting = deque((os.path.abspath(folder), 0) for folder in self._folders)  # noqa: PTH100
        seen: set[tuple[int, int]] = set()
        entries = 0
        while waiting and entries < MAX_ENTRIES and len(self._found) < MAX_FOUND:
            folder, depth = waiting.popleft()
            for entry in self._entries(folder, seen):
                entries += 1
                if depth < DEEPEST and _is_folder(entry):
                    self._queue(waiting, entry, depth + 1)
                elif self._is_wanted(entry):
                    yield Path(entry.path)
            yield None

    def _entries(self, folder: str, seen: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
        """None of a folder that is gone, that may not be read, or that another path led to."""
        try:
            found = os.stat(folder)  # noqa: PTH116
            if (found.st_dev, found.st_ino) in seen:
                return []
            seen.add((found.st_dev, found.st_ino))
            with os.scandir(folder) as entries:
                return [each for each in islice(entries, MAX_OF_A_FOLDER) if self._is_looked_at(each)]
        except OSError:
            return []

    def _is_looked_at(self, entry: os.DirEntry[str]) -> bool:
        return not entry.name.startswith(".") and entry.name not in SKIPPED and entry.path not in self._without

    def _queue(self, waiting: deque[tuple[str, int]], entry: os.DirEntry[str], depth: int) -> None:
        try:
            is_fresh = entry.stat().st_mtime >= self._since
        except OSError:
            return
        if is_fresh:
            waiting.appendleft((entry.path, depth))
        else:
            waiting.append((entry.path, depth))

    def _is_wanted(self, entry: os.DirEntry[str]) -> bool:
        """Whether it is a file of metrics that was not told yet and was written since the run began."""
        holds_metrics = _kind(entry.name)
        if holds_metrics is None or entry.path in self._found:
            return False
        try:
            state = entry.stat()
        except OSError:
            return False
        if not stat.S_ISREG(state.st_mode) or not self._is_written(entry.path, state):
            return False
        if self._refused.get(entry.path) == (state.st_size, state.st_mtime_ns):
            return False
        if not holds_metrics(Path(entry.path)):
            self._refused[entry.path] = state.st_size, state.st_mtime_ns
        elif self._is_ours(entry.path, state):
            self._found.add(entry.path)
        return entry.path in self._found

    def _is_written(self, path: str, state: os.stat_result) -> bool:
        before = self._before.get(path)
        if before is None and (self._remembers or state.st_mtime < self._since):
            self._before[path] = _Before(state.st_size, state.st_ino, _mark(path, state.st_size))
            return False
        if before is not None and state.st_size == before.size:
            return False  # touched, if anything
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
        """Whether it was only appended to: a program that is run again often writes its log anew in the same place."""
        return state.st_size > self.size and state.st_ino == self.inode and _mark(path, self.size) == self.mark


def _mark(path: str, size: int) -> bytes:
    """The last bytes of the first `size` of a file."""
    begin = max(0, size - MARK_BYTES)
    return Growing(Path(path), begin).read(size - begin)


def _kind(name: str) -> Callable[[Path], bool] | None:
    """By a file's name, what to ask of its content; None when it cannot be a file of metrics."""
    lower = name.lower()
    if EVENTS in lower:
        return _always
    if lower.endswith(TABLES):
        return is_log_table
    return is_log_of_json if lower.endswith(JSON_LINES) else None


def _always(_path: Path) -> bool:
    return True


def is_log_table(path: Path) -> bool:
    """Whether a table's columns are those of a log of training, and not of a data set."""
    line, end, _ = Growing(path).read(HEAD_BYTES).partition(b"\n")
    header = header_of(line) if end else None
    return header is not None and any(_is_logged(name) for name in header.names)


def is_log_of_json(path: Path) -> bool:
    """Whether one of a file's first lines is an object with a metric of training."""
    lines = Growing(path).read(HEAD_BYTES).split(b"\n")[:-1]
    return any(any(map(_is_logged, _metrics(line))) for line in lines[:FIRST_LINES])


def _metrics(line: bytes) -> Mapping[str, float]:
    try:
        return read_object(line).values
    except ValueError:
        return {}


def _is_logged(name: str) -> bool:
    return not LOGGED.isdisjoint(canonical(name).split("_"))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
