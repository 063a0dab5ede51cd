"""All that one rank of a script tells of itself: what it prints, the files it writes, the file that it was named."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from core.metrics.common.merge import CSV, EXPRESSION, JSON, OWN, TENSORBOARD, TEXT, Merge
from core.metrics.files.csv_log import CsvFile
from core.metrics.files.found import EVENTS as EVENT_FILE
from core.metrics.files.found import TABLES, MetricFileFinder
from core.metrics.files.growing import Growing
from core.metrics.files.json_lines import JsonLines
from core.metrics.files.tensorboard import EventFile
from core.metrics.text.expression import compile_expression
from core.metrics.text.log import LogReader
from core.schema.paths import log_of_rank, metrics_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from core.metrics.common.merge import MergedReading
    from core.metrics.common.reading import Reading
    from core.schema.spec import RunSpec

PATIENCE_S = 1.0
"""So long a look reads at most: what there is more waits for the next one, so that curves move while a flood comes."""


class MetricSource(Protocol):
    """A file that is read as it grows."""

    @property
    def more(self) -> bool:
        """Whether the last poll left something."""

    @property
    def trouble(self) -> str:
        """Why it could not be read, in a sentence; "" when it could."""

    def poll(self, *, ended: bool = False) -> list[Reading]:
        """What is new, at most a block."""


class RankReader:
    """Reads one rank's sources, whatever there is of them; those in the working folder are rank 0's."""

    def __init__(self, run_dir: Path, spec: RunSpec, rank: int, finder: MetricFileFinder | None) -> None:
        assert spec.script is not None
        self._log = _Log(log_of_rank(run_dir, rank), spec.script.expression)
        self._sources: dict[str, MetricSource] = {OWN: JsonLines(metrics_file(run_dir, rank))}
        self._merge = Merge()
        self._finder = finder
        self.progress: tuple[float, float, str] | None = None
        """How much is done of how much, and what is counted, as it was told last."""

    def read(self, *, last: bool = False) -> list[MergedReading]:
        """What is to be recorded of what is new. `last`: nothing more will come, so all of it is read."""
        until = time.monotonic() + PATIENCE_S
        told = self._take(self._log.kind, self._log, last=last, until=until)
        self._find(last=last)
        for name, source in self._sources.items():
            told += self._take(name, source, last=last, until=until)
        return told

    def troubles(self) -> list[str]:
        """What could not be read or not be understood, in sentences; the same again each time."""
        found = [source.trouble for source in (self._log, *self._sources.values())]
        complaints = [source.complaint for source in self._sources.values() if isinstance(source, JsonLines)]
        return [sentence for sentence in (*found, *complaints[:1], *self._merge.notices) if sentence]

    def _take(self, name: str, source: MetricSource, *, last: bool, until: float) -> list[MergedReading]:
        told: list[MergedReading] = []
        while True:
            readings = source.poll(ended=last)
            self._note_progress(readings)
            told += self._merge.take(name, readings)
            if not source.more or (not last and time.monotonic() >= until):
                return told

    def _note_progress(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            if reading.done is not None and reading.total is not None:
                self.progress = (reading.done, reading.total, reading.unit)

    def _find(self, *, last: bool) -> None:
        """Files that have appeared."""
        if self._finder is None:
            return
        for path in self._finder.look_at_all(PATIENCE_S) if last else self._finder.look():
            kind, opens = _reader_of(path)
            self._sources[f"{kind}:{path}"] = opens(path, self._finder.offset(path))


def _reader_of(path: Path) -> tuple[str, type[EventFile | CsvFile | JsonLines]]:
    if EVENT_FILE in path.name:
        return TENSORBOARD, EventFile
    return (CSV, CsvFile) if path.name.lower().endswith(TABLES) else (JSON, JsonLines)


class _Log:
    """What a rank prints."""

    def __init__(self, path: Path, expression: str) -> None:
        self.kind = EXPRESSION if expression else TEXT
        self._file = Growing(path)
        self._reader = LogReader(compile_expression(expression) if expression else None)

    @property
    def more(self) -> bool:
        return self._file.more

    @property
    def trouble(self) -> str:
        return self._file.trouble or self._reader.problem or ""

    def poll(self, *, ended: bool = False) -> list[Reading]:
        data = self._file.read()
        self._file.advance(data, len(data))
        readings = self._reader.take(data) if data else []
        if ended and not self._file.more:
            readings += self._reader.end()
        return readings
