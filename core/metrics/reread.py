"""Read the measurements of a script's run again, from its log and its files, with the readers of today.

The event file of the measurements is replaced as a whole, once the new one is complete. Everything else that is known
of the run stays as it is.

Files. The run has noted which files it read. A curve of a file that is gone stays as it was recorded.

Times. A log has no times, so a value that was recorded before keeps its time; a value from a file has the file's; for
the others the run's notes say when its log grew. What is left lies between its neighbours.
"""

from __future__ import annotations

import contextlib
import math
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from core.catalog.strategies import strategy_of
from core.language import tr
from core.metrics.files.trackers import is_database
from core.metrics.merge import MergedReading
from core.metrics.rank_metrics import LogTimes, MetricEventWriter, RankReader, TimedLines, current
from core.runs import lock
from core.runs.facts import state_info
from core.runs.run import Run
from core.schema.event_kinds import LogRead, MetricFile, MetricRestart, Metrics, Notice, Reread, RunProgress, read_all
from core.schema.events import Event, Tail
from core.schema.files import open_to_read, write_whole
from core.schema.paths import COLLECTOR_EVENTS, EVENTS, log_of_rank
from core.schema.spec import RunSpec
from core.series.run_series import RunSeries
from core.series.series import Series
from core.system import procfs
from core.system.folders import writing
from core.system.processes import TAG

REPLACED = frozenset(each.kind for each in (Metrics, MetricRestart, RunProgress, Notice, Reread))
"""The kinds of events that reading again replaces."""
SLACK_S = 2.0
"""Seconds after the end of a run at which a file may still count as written by it."""
SAMPLE = 200
"""Values of a curve that are looked for elsewhere, to find out where they came from."""
MOSTLY = 0.8
"""The share of these values that must be found."""
RANKED = re.compile(r"@\d+$")
"""The end of the name of a metric of a rank above 0."""
NUMBER = re.compile(rb"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(slots=True, kw_only=True)
class Times:
    """How many values have which kind of time."""

    recorded: int = 0
    """The time that was recorded before, for this value or another of its step."""
    sources: int = 0
    """The time in the file, or when the log grew."""
    interpolated: int = 0
    """Between the times of the values before and after it."""
    spread: int = 0
    """Nothing is known: spread evenly over the time of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What reading a run again has changed."""

    before: Mapping[str, int]
    """The number of values by metric, as recorded before."""
    after: Mapping[str, int]
    kept: tuple[str, ...]
    """Metrics that stay as they were recorded, because the file they come from cannot be read any more."""
    times: Times
    troubles: tuple[str, ...]
    """Sentences on what could not be read."""


def reread(run_dir: Path) -> Result:
    """Read the measurements of a script's run again and replace the recorded ones.

    Raises `ValueError` with a sentence if that is not possible for this run, `RunError` if the new measurements cannot
    be written; the recorded ones are unchanged then.
    """
    run = Run.attach(run_dir)
    spec = run.spec()
    _check(run, spec)
    with lock.held(run_dir):
        run.catch_up()
        events, old = _recorded(run_dir)
        reader = _Rereader(run, spec, events, old)
        lines = reader.lines()
        path = run_dir / EVENTS / COLLECTOR_EVENTS
        full = tr("Free some space. The recorded curves are unchanged.")
        remedy = tr("Check the permissions of its folder. The recorded curves are unchanged.")
        with writing(path, remedy, if_full=full):
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
            write_whole(path, "".join(f"{line}\n" for line in lines))
            if mode is not None:
                path.chmod(mode)
    _, new = _recorded(run_dir)
    return Result(
        before=_counts(old), after=_counts(new), kept=reader.kept, times=reader.times, troubles=tuple(reader.troubles)
    )


def _check(run: Run, spec: RunSpec) -> None:
    """Raise `ValueError` if the run cannot be read again."""
    if spec.imported:
        raise ValueError(
            tr("Run {id} was imported. To read its files again, import them again: trainyard import {path}",
               id=run.id, path=spec.imported)
        )
    if spec.script is None:
        raise ValueError(
            tr("Run {id} trains a recipe, which reports its measurements itself: there is nothing to read again.",
               id=run.id)
        )
    if run.owner:
        raise ValueError(tr("Run {id} belongs to {owner}, who alone can read it again.", id=run.id, owner=run.owner))
    run.catch_up()
    if not state_info(run.facts.state).over:
        raise ValueError(tr("Run {id} is not over. Its curves can be read again when it has ended.", id=run.id))
    if not log_of_rank(run.dir, 0).exists():
        raise ValueError(tr("Run {id} has no log, so its curves cannot be read again.", id=run.id))


def _training_time(run: Run) -> tuple[float, float]:
    """Return when the script of a run that is over began and ended, in unix seconds."""
    times = {state.value: time for time, state in run.facts.history}
    first = run.facts.history[0][0] if run.facts.history else 0.0
    began = times.get("running", first)
    ended = times.get("releasing", run.facts.ended or run.facts.latest or began)
    return began, max(began, ended)


def _recorded(run_dir: Path) -> tuple[list[Event], RunSeries]:
    """Return the measurements of a run as they are recorded."""
    events, series = Tail(run_dir / EVENTS / COLLECTOR_EVENTS).read(), RunSeries()
    series.fold(events)
    return events, series


def _counts(series: RunSeries) -> dict[str, int]:
    """Return the number of values by metric."""
    return {name: len(values) for name, values in sorted(series.metrics.items()) if len(values)}


class _Rereader:
    """Reads one run again."""

    def __init__(self, run: Run, spec: RunSpec, events: Sequence[Event], old: RunSeries) -> None:
        self.kept: tuple[str, ...] = ()
        self.times = Times()
        self.troubles: list[str] = []
        self._run_dir, self._spec, self._events, self._old = run.dir, spec, events, old
        self._began, self._ended = _training_time(run)
        self._reads = read_all(LogRead, events)
        self._files_complete = bool(self._reads)

    def lines(self) -> list[str]:
        """Return the new lines of the event file."""
        ranks = len(self._spec.devices) if strategy_of(self._spec).processes == "per_device" else 1
        readers = [self._reader(rank) for rank in range(ranks)]
        new = [self._measured(rank, reader) for rank, reader in enumerate(readers)]
        self.troubles += dict.fromkeys(sentence for reader in readers for sentence in reader.troubles())
        self.kept = tuple(self._lost_curves(new))
        lines = TimedLines()
        for event in self._events:
            if event["kind"] not in REPLACED:
                lines.add(event)
        for rank, readings in enumerate(new):
            suffix = f"@{rank}" if rank else ""
            new_ones = []
            for each in readings:
                if values := {name: value for name, value in each.values.items() if name + suffix not in self.kept}:
                    new_ones.append(replace(each, values=values))  # noqa: PERF401 (as a comprehension it reads worse)
            MetricEventWriter(rank, lines).write(new_ones, since=self._began, until=self._ended)
        for name in self.kept:
            counts_epochs = name in self._old.by_epoch
            kept = [
                MergedReading(values={name: value}, step=step, time=time, counts_epochs=counts_epochs)
                for step, (value, time) in points(self._old.metrics[name]).items()
            ]
            MetricEventWriter(0, lines).write(kept, since=self._began, until=self._ended)
        end = max(self._ended, lines.latest)
        if readers[0].progress is not None:
            done, total, unit = readers[0].progress
            lines.add(RunProgress(time=end, done=done, total=total, unit=unit).event())
        for text in self.troubles:
            lines.add(Notice(time=end, text=text).event())
        lines.add(Reread(time=end, times=asdict(self.times), kept=self.kept).event())
        return lines.lines

    # -- read ------------------------------------------------------------------------------------

    def _reader(self, rank: int) -> RankReader:
        notes = [(each.size_bytes, each.time) for each in self._reads if each.rank == rank]
        reader = RankReader(self._run_dir, self._spec, rank, None, LogTimes(notes, self._began))
        if rank == 0:
            for path, begin in self._files():
                reader.add_file(path, begin, self._ended + SLACK_S)
        return reader

    def _files(self) -> Iterator[tuple[Path, int]]:
        """Yield the files that the run wrote, and where they begin."""
        for file in read_all(MetricFile, self._events):
            path, begin = Path(file.path), file.begin
            if file.other_run and _is_active(file.other_run):
                self.troubles.append(tr("{path} is not read yet, since run {other} may have written it and is not "
                                        "over.", path=path, other=file.other_run))
                continue
            if is_database(path) and path.exists():  # other runs may have written it since
                yield path, begin
                continue
            try:
                found = path.stat()
            except OSError:
                found = None
            if found is None or found.st_size < begin or found.st_mtime > self._ended + SLACK_S:
                self._files_complete = False
                self.troubles.append(
                    tr("{path} is gone, so its curves stay as they were recorded.", path=path)
                    if found is None
                    else tr("{path} was changed after the run, so its curves stay as they were recorded.", path=path)
                )
            else:
                yield path, begin

    def _measured(self, rank: int, reader: RankReader) -> list[MergedReading]:
        """Return the readings of a rank with their times, without those that others have replaced."""
        suffix = f"@{rank}" if rank else ""
        recorded = {
            name.removesuffix(suffix): series
            for name, series in self._old.metrics.items()
            if name.endswith(suffix) and (rank or not RANKED.search(name))
        }
        return [*_timed(current(reader.read(last=True)), recorded, self.times, self._began, self._ended)]

    # -- curves of files that are gone -----------------------------------------------------------

    def _lost_curves(self, new: Sequence[Sequence[MergedReading]]) -> Iterator[str]:
        """Yield the metrics whose recorded values are neither read now nor printed in a log: their file is gone."""
        if self._files_complete:
            return
        values = {f"{value:.7g}" for readings in new for each in readings for value in each.values.values()}
        missing: dict[str, set[str]] = {}
        for name, series in self._old.metrics.items():
            sample = {f"{value:.7g}" for value in series.values[:: max(1, len(series) // SAMPLE)].tolist()}
            if sample and sum(value in values for value in sample) < MOSTLY * len(sample):
                missing[name] = sample
        printed = self._printed({value for sample in missing.values() for value in sample}) if missing else set()
        for name, sample in sorted(missing.items()):
            if sum(value in printed for value in sample) < MOSTLY * len(sample):
                yield name

    def _printed(self, wanted: set[str]) -> set[str]:
        """Return which of these numbers occur in the logs, also as percentages."""
        found: set[str] = set()
        for rank in range(len(self._spec.devices)):
            with contextlib.suppress(OSError), open_to_read(log_of_rank(self._run_dir, rank)) as file:
                for match in (match for line in file for match in NUMBER.findall(line)):
                    number = float(match)
                    found |= wanted & {f"{number:.7g}", f"{number / 100:.7g}", f"{-number:.7g}"}
        return found


def _is_active(run_id: str) -> bool:
    """Return whether a process of a run is alive on this machine."""
    return any(procfs.variable(procfs.variables(pid), TAG) == run_id for pid in procfs.pids())


def _timed(
    readings: Sequence[MergedReading], recorded: Mapping[str, Series], times: Times, began: float, ended: float
) -> Iterator[MergedReading]:
    """Yield the readings of one rank with their times; those without one get one between their neighbours.

    `recorded`: the curves as they were recorded before. `times`: counts what is found out.
    """
    known = {name: points(series) for name, series in recorded.items()}
    steps = {step: time for found in known.values() for step, (_, time) in found.items()}
    timed = [(each, _time(each, known, steps, times)) for each in readings]
    at, count = 0, len(timed)
    before: float | None = None
    while at < count:
        reading, time = timed[at]
        if time is not None:
            yield replace(reading, time=time)
            before, at = time, at + 1
            continue
        end = next((index for index in range(at, count) if timed[index][1] is not None), count)
        after = timed[end][1] if end < count else None
        first = began if before is None else before
        last = max(first, ended if after is None else after)
        if before is None and after is None:
            times.spread += end - at
        else:
            times.interpolated += end - at
        for number, (each, _) in enumerate(timed[at:end], start=1):
            yield replace(each, time=first + (last - first) * number / (end - at + 1))
        before, at = last if after is not None else before, end


def _time(
    reading: MergedReading, known: Mapping[str, Mapping[int, tuple[float, float]]], steps: Mapping[int, float],
    times: Times,
) -> float | None:
    """Return when a reading was measured; None if nothing says so."""
    assert reading.step is not None
    for name, value in reading.values.items():
        found = known.get(name, {}).get(reading.step)
        if found is not None and _same(found[0], value):
            times.recorded += 1
            return found[1]
    if reading.time is not None:
        times.sources += 1
        return reading.time
    time = steps.get(reading.step)
    times.recorded += time is not None
    return time


def points(series: Series) -> dict[int, tuple[float, float]]:
    """Return value and time by step."""
    columns = (series.steps.tolist(), series.values.tolist(), series.times.tolist())
    return {int(step): (value, time) for step, value, time in zip(*columns, strict=True)}


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-7) or (math.isnan(one) and math.isnan(other))
