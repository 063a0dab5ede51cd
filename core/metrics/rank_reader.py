"""Read everything one rank of a script prints and writes, as merged readings."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from core.language import tr, tr_noop
from core.metrics.common.merge import CSV, EXPRESSION, JSON, OWN, TENSORBOARD, TEXT, TRACKER, MetricMerger
from core.metrics.common.reading import VALIDATION, Reading
from core.metrics.files.finder import EVENTS as EVENT_FILE
from core.metrics.files.finder import TABLES, MetricFileFinder
from core.metrics.files.growing_file import BLOCK_BYTES, GrowingFile
from core.metrics.files.record_logs import CsvFile, JsonLines, MlflowMetricFile, mlflow_metric
from core.metrics.files.tensorboard import EventFile
from core.metrics.files.tracker_databases import TrackerDatabase, is_database, reader_of
from core.metrics.files.wandb_log import SUFFIX as WANDB
from core.metrics.files.wandb_log import WandbFile
from core.metrics.rules.rule_set import usable_rules
from core.metrics.text.expression import compile_expression
from core.metrics.text.log import LogReader
from core.schema.paths import log_of_rank, metrics_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.metrics.common.merge import MergedReading
    from core.schema.settings import Script
    from core.schema.spec import RunSpec

NOT_READ_ON = tr_noop(
    "{path} is not read any more, since what is in it could not be understood ({error}). Its metrics end here; other "
    "files are read on. Please report this."
)
MAX_ERROR = 200
MAX_READ_S = 1.0
"""Seconds that one read may take. The rest waits for the next one, so that curves move during a flood of output."""


class MetricSource(Protocol):
    """A file that is read while it grows."""

    @property
    def more(self) -> bool:
        """Whether the last poll left something unread."""

    @property
    def trouble(self) -> str:
        """A sentence that says why the file could not be read; "" if it could."""

    def poll(self, *, ended: bool = False) -> list[Reading]:
        """Return the new readings, at most a block."""


class RankReader:
    """Reads one rank's log, its `TRAINYARD_METRICS` file and the files that `finder` finds."""

    def __init__(
        self, run_dir: Path, spec: RunSpec, rank: int, finder: MetricFileFinder | None, times: LogTimes | None = None
    ) -> None:
        """`times`: when the log was written, if it is not being written now."""
        assert spec.script is not None
        self._log = _Log(log_of_rank(run_dir, rank), spec.script, times)
        self._sources: dict[str, MetricSource] = {OWN: JsonLines(metrics_file(run_dir, rank))}
        self._merger = MetricMerger()
        self._finder = finder
        self._failed: dict[str, str] = {}
        """By name of a source that cannot be read on, a sentence that says so."""
        self.files: list[tuple[Path, int]] = []
        """The files that were found, and how many bytes of each were there before the run."""
        self.progress: tuple[float, float, str] | None = None
        """The last progress: done, total, and the unit that they count."""

    def read(self, *, last: bool = False) -> list[MergedReading]:
        """Return the new readings to record. With `last`, the program has exited, and everything left is read."""
        until = time.monotonic() + MAX_READ_S
        merged = self._take(self._log.kind, self._log, last=last, until=until)
        if self._finder is not None:
            for path in self._finder.search_all(MAX_READ_S) if last else self._finder.search():
                self.add_file(path, self._finder.offset(path))
        for name, source in sorted(self._sources.items(), key=_is_of_validation):  # the training's steps come first
            merged += self._take(name, source, last=last, until=until)
        return merged

    def add_file(self, path: Path, begin: int, until: float = math.inf) -> None:
        """Read this file, too.

        `begin`: how many bytes of it were there before the run; for a database, the unix time from which its rows
        count. `until`: the unix time up to which they count.
        """
        kind, source = _source_of(path, begin, until)
        self._sources[f"{kind}:{path}"] = source
        self.files.append((path, begin))

    @property
    def log_bytes(self) -> int:
        """How many bytes of the log have been read."""
        return self._log.bytes_read

    def troubles(self) -> list[str]:
        """Return a sentence for each thing that could not be read or parsed, also those returned before."""
        found = [source.trouble for source in (self._log, *self._sources.values())] + self._log.about_rules
        found += self._failed.values()
        complaints = [source.complaint for source in self._sources.values() if isinstance(source, JsonLines)]
        return [sentence for sentence in (*found, *complaints[:1], *self._merger.notices) if sentence]

    def _take(self, name: str, source: MetricSource, *, last: bool, until: float) -> list[MergedReading]:
        merged: list[MergedReading] = []
        while name not in self._failed:
            try:
                readings = source.poll(ended=last)
            except Exception as error:  # noqa: BLE001 (the file may be of any program, and must not end the others)
                path = name.partition(":")[2] or name
                self._failed[name] = tr(NOT_READ_ON, path=path, error=repr(error)[:MAX_ERROR])
                break
            for reading in readings:
                if reading.done is not None and reading.total is not None:
                    self.progress = (reading.done, reading.total, reading.unit)
            merged += self._merger.take(name, readings, time.time())
            if not source.more or (not last and time.monotonic() >= until):
                break
        return merged


def _is_of_validation(source: tuple[str, MetricSource]) -> bool:
    """Return whether a file lies in a folder of a validation."""
    return not VALIDATION.isdisjoint(Path(source[0]).parent.name.lower().split("_"))


def _source_of(path: Path, begin: int, until: float) -> tuple[str, MetricSource]:
    """Return the kind of a file, and what reads it."""
    name = path.name.lower()
    if EVENT_FILE in path.name:
        return TENSORBOARD, EventFile(path, begin)
    if name.endswith(WANDB):
        return TRACKER, WandbFile(path, begin)
    if is_database(path):
        return TRACKER, (reader_of(path) or TrackerDatabase)(path, begin, until)
    if mlflow_metric(str(path)):
        return TRACKER, MlflowMetricFile(path, begin)
    return (CSV, CsvFile(path, begin)) if name.endswith(TABLES) else (JSON, JsonLines(path, begin))


class _Log:
    """The text that a rank prints, as a source."""

    def __init__(self, path: Path, script: Script, times: LogTimes | None) -> None:
        expression = script.expression
        self.kind = EXPRESSION if expression else TEXT
        self._file, self._times = GrowingFile(path), times
        self._reader = LogReader(
            compile_expression(expression) if expression else None, rules=usable_rules(script.rules)
        )

    @property
    def more(self) -> bool:
        return self._file.more

    @property
    def bytes_read(self) -> int:
        return self._file.offset

    @property
    def trouble(self) -> str:
        return self._file.trouble or self._reader.problem or ""

    @property
    def about_rules(self) -> list[str]:
        """Sentences on rules that match nothing or contradict each other, once the log has ended."""
        return self._reader.about_rules

    def poll(self, *, ended: bool = False) -> list[Reading]:
        begin = self._file.offset
        data = self._file.read(self._times.bytes_from(begin) if self._times else BLOCK_BYTES)
        self._file.advance(data, len(data))
        readings = self._reader.take(data) if data else []
        if ended and not self._file.more:
            readings += self._reader.end()
        return self._times.timed(readings, begin, self._file.offset) if self._times else readings


class LogTimes:
    """When the bytes of one log were written. Between two notes, they count as written evenly."""

    def __init__(self, notes: Iterable[tuple[int, float]], began: float) -> None:
        """`notes`: bytes of the log and unix seconds. `began`: when the script was started, in unix seconds."""
        self._notes = [(0, began)]
        for size, noted in notes:
            last_size, last_time = self._notes[-1]
            if size > last_size and noted >= last_time:
                self._notes.append((size, noted))

    def bytes_from(self, begin: int) -> int:
        """Return how many bytes to read at once from here on: up to the next note, so that each part has its time."""
        after = bisect_right(self._notes, begin, key=itemgetter(0))
        return min(BLOCK_BYTES, self._notes[after][0] - begin) if after < len(self._notes) else BLOCK_BYTES

    def timed(self, readings: list[Reading], begin: int, end: int) -> list[Reading]:
        """Return the readings of these bytes with their times, as far as the notes cover the bytes."""
        since, until = self._at(begin), self._at(end)
        if since is None or until is None:
            return readings
        count = len(readings)
        return [
            replace(reading, time=since + (until - since) * number / count)
            for number, reading in enumerate(readings, start=1)
        ]

    def _at(self, position: int) -> float | None:
        """Return when the log had this many bytes; None if no note says so."""
        after = bisect_right(self._notes, position, key=itemgetter(0))
        if position == self._notes[-1][0]:
            return self._notes[-1][1]
        if after == len(self._notes):
            return None
        (size, since), (next_size, until) = self._notes[after - 1], self._notes[after]
        return since + (until - since) * (position - size) / (next_size - size)
