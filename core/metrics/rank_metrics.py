"""Read everything one rank of a script prints and writes, as merged readings, and write these as events.

The collector writes readings as they arrive. For curves that are known as a whole, `current` first leaves out the
values that a restart has replaced, and `TimedLines` keeps the rest.
"""

from __future__ import annotations

import json
import math
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from core.language import stored, tr, tr_noop
from core.metrics.files.finder import EVENTS as EVENT_FILE
from core.metrics.files.finder import TABLES, MetricFileFinder
from core.metrics.files.growing_file import BLOCK_BYTES, GrowingFile, GrowingSource
from core.metrics.files.record_logs import CsvFile, JsonLines
from core.metrics.files.tensorboard import EventFile
from core.metrics.files.trackers import (
    WANDB,
    MlflowMetricFile,
    TrackerDatabase,
    WandbFile,
    is_database,
    mlflow_metric,
    reader_of,
)
from core.metrics.merge import (
    CSV,
    EXPRESSION,
    JSON,
    NO_NAMES,
    OWN,
    TENSORBOARD,
    TEXT,
    TRACKER,
    MergedReading,
    MetricMerger,
)
from core.metrics.reading import VALIDATION, Reading
from core.metrics.rules import usable_rules
from core.metrics.steps import modified
from core.metrics.text.expression import compile_expression
from core.metrics.text.log import LogReader
from core.schema.event_kinds import MetricRestart
from core.schema.events import EPOCH, Event, Writer, metrics_line
from core.schema.paths import log_of_rank, metrics_file
from core.schema.settings import Script
from core.schema.spec import RunSpec

NOT_READ_ON = tr_noop(
    "{path} is not read any more, since what is in it could not be understood ({error}). Its metrics end here; other "
    "files are read on. Please report this."
)
MAX_ERROR = 200
MAX_READ_S = 1.0
"""Seconds that one read may take. The rest waits for the next one, so that curves move during a flood of output."""


class RankReader:
    """Reads one rank's log, its `TRAINYARD_METRICS` file and the files that `finder` finds."""

    def __init__(
        self, run_dir: Path, spec: RunSpec, rank: int, finder: MetricFileFinder | None, times: LogTimes | None = None
    ) -> None:
        """`times`: when the log was written, if it is not being written now."""
        assert spec.script is not None
        self._log = _Log(log_of_rank(run_dir, rank), spec.script, times)
        self._sources: dict[str, GrowingSource | TrackerDatabase] = {OWN: JsonLines(metrics_file(run_dir, rank))}
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
            found = self._finder.search_all(MAX_READ_S) if last else self._finder.search()
            for path in sorted(found, key=lambda path: modified(path) or 0.0):  # the first training comes first
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
    def has_more(self) -> bool:
        """Whether the last read left something for the next."""
        sources = {self._log.kind: self._log, **self._sources}
        return any(source.more for name, source in sources.items() if name not in self._failed)

    @property
    def log_bytes(self) -> int:
        """How many bytes of the log have been read."""
        return self._log.file.offset

    def troubles(self) -> list[str]:
        """Return a sentence for each thing that could not be read or parsed, also those returned before."""
        found = [source.trouble for source in (self._log, *self._sources.values())] + self._log.reader.about_rules
        found += self._failed.values()
        complaints = [source.complaint for source in self._sources.values() if isinstance(source, JsonLines)]
        return [sentence for sentence in (*found, *complaints[:1], *self._merger.notices) if sentence]

    def _take(
        self, name: str, source: GrowingSource | TrackerDatabase | _Log, *, last: bool, until: float
    ) -> list[MergedReading]:
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


def _is_of_validation(source: tuple[str, GrowingSource | TrackerDatabase]) -> bool:
    """Return whether a file lies in a folder of a validation."""
    return not VALIDATION.isdisjoint(Path(source[0]).parent.name.lower().split("_"))


def _source_of(path: Path, begin: int, until: float) -> tuple[str, GrowingSource | TrackerDatabase]:
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
        self.file, self._times = GrowingFile(path), times
        self.reader = LogReader(
            compile_expression(expression) if expression else None, rules=usable_rules(script.rules)
        )

    @property
    def more(self) -> bool:
        return self.file.more

    @property
    def trouble(self) -> str:
        return self.file.trouble or self.reader.problem or ""

    def poll(self, *, ended: bool = False) -> list[Reading]:
        begin = self.file.offset
        data = self.file.read(self._times.bytes_from(begin) if self._times else BLOCK_BYTES)
        self.file.advance(data, len(data))
        readings = self.reader.take(data) if data else []
        if ended and not self.file.more:
            readings += self.reader.end()
        return self._times.timed(readings, begin, self.file.offset) if self._times else readings


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


MAX_STEPS = 4096
"""Steps in one line."""
UNEVEN_S = 0.5
"""Seconds by which a step may be off the even spacing of the steps before it on its line."""
TIME = '{"t":'
"""The begin of a line."""


class MetricEventWriter:
    """Writes one rank's metrics. A name ends with the rank, `loss@1`, except for rank 0."""

    def __init__(self, rank: int, events: Writer | TimedLines) -> None:
        self._suffix, self._events = f"@{rank}" if rank else "", events
        self._names: tuple[str, ...] = ()
        self._unit = ""
        self._first = 0
        self._times: list[float] = []
        self._rows: list[tuple[float, ...]] = []

    def write(self, measured: Sequence[MergedReading], *, since: float, until: float) -> None:
        """Write readings. Those without a time are spread evenly from `since` to `until`, unix seconds.

        Raises `RecordError`.
        """
        for when, each in _in_order(measured, since, until):
            self._add(each, when)
        self._flush()

    def _add(self, reading: MergedReading, time: float) -> None:
        assert reading.step is not None
        names, unit = tuple(reading.values), EPOCH if reading.counts_epochs else ""
        if reading.restarts:
            self._flush()
            restarted = tuple(name + self._suffix for name in sorted(reading.restarts))
            self._events.write_json(json.dumps(MetricRestart(time=time, metrics=restarted).event()))
        is_next = (names, unit, reading.step) == (self._names, self._unit, self._first + len(self._rows))
        if not is_next or len(self._rows) == MAX_STEPS or not self._is_evenly_spaced(time):
            self._flush()
            self._names, self._unit, self._first = names, unit, reading.step
        self._times.append(time)
        self._rows.append(tuple(reading.values.values()))

    def _is_evenly_spaced(self, time: float) -> bool:
        """Return whether a step continues the spacing of its line: only the first and last time are written."""
        count = len(self._times)
        if count < 2:
            return True
        first, last = self._times[0], self._times[-1]
        return abs(time - (first + (last - first) * count / (count - 1))) <= UNEVEN_S

    def _flush(self) -> None:
        if self._rows and self._names:
            columns = zip(*self._rows, strict=True)
            values = {name + self._suffix: column for name, column in zip(self._names, columns, strict=True)}
            line = metrics_line(
                since=self._times[0], until=self._times[-1], first_step=self._first, values=values, unit=self._unit
            )
            self._events.write_json(line)
        self._times, self._rows, self._names = [], [], ()


def _in_order(measured: Sequence[MergedReading], since: float, until: float) -> list[tuple[float, MergedReading]]:
    """Return each reading with its time, sorted by time.

    The values of one metric keep their order, whatever the clock of their source says. A restarted metric is sorted
    after the values it replaces.
    """
    timed: list[tuple[int, float, MergedReading]] = []
    latest: dict[str, float] = {}
    restarts = 0
    for number, each in enumerate(measured, start=1):
        if each.restarts:
            restarts, latest = restarts + 1, {}
        time = each.time if each.time is not None else since + (until - since) * number / len(measured)
        time = max([time, *(latest.get(name, time) for name in each.values)])
        latest.update(dict.fromkeys(each.values, time))
        timed.append((restarts, time, each))
    return [(time, each) for _, time, each in sorted(timed, key=lambda one: one[:2])]


class TimedLines:
    """Keeps the lines of curves that are written at once, as a whole event file."""

    def __init__(self) -> None:
        self._timed: list[tuple[float, str]] = []

    def add(self, event: Event) -> None:
        self.write_json(json.dumps({name: stored(each) for name, each in event.items()}))

    def write_json(self, line: str) -> None:
        """Add a line, which begins with the time as all lines of `MetricEventWriter` do."""
        self._timed.append((float(line[len(TIME) : line.index(",")]), line))

    @property
    def latest(self) -> float:
        """The latest time of a line, in unix seconds; 0 if there is none."""
        return max((time for time, _ in self._timed), default=0.0)

    @property
    def lines(self) -> list[str]:
        """All lines, ordered by time."""
        return [line for _, line in sorted(self._timed, key=itemgetter(0))]


def current(readings: Sequence[MergedReading]) -> list[MergedReading]:
    """Return the readings without the values that a restart of their curve has made void."""
    current: list[MergedReading] = []
    void: frozenset[str] = NO_NAMES
    for each in reversed(readings):
        values = {name: value for name, value in each.values.items() if name not in void}
        void |= each.restarts
        if values:
            current.append(replace(each, values=values, restarts=NO_NAMES))
    return current[::-1]
