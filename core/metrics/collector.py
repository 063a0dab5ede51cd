"""The collecting process: read what all ranks of a script measure, and record it as events.

`core.metrics.process` forks this process. It imports this module in the fork only, so that the supervisor
does not load it. numpy is loaded only for event files of TensorBoard.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from core.catalog import strategies
from core.history.summary import LOSS, VALIDATION_LOSS
from core.language import join_sentences, tr
from core.metrics.files.finder import HEAD_BYTES, MAX_FOUND, MetricFileFinder, may_have_metrics
from core.metrics.files.growing_file import GrowingFile
from core.metrics.files.trackers import IS_LOCKED, TrackerDatabase, changes_of, is_database, reader_of
from core.metrics.merge import MergedReading
from core.metrics.rank_metrics import MetricEventWriter, RankReader
from core.metrics.text.log import LogReader
from core.schema.event_kinds import LogRead, MetricFile, NotFinite, Notice, RunProgress
from core.schema.events import RecordError, Writer
from core.schema.paths import COLLECTOR_EVENTS, CONTROL, EVENTS, metrics_file
from core.schema.spec import RunSpec
from core.system import procfs
from core.system.processes import RUN_DIR, TAG
from core.system.procfs import PROC

Found = TypeVar("Found")
INTERVAL_S = 0.25
"""Seconds between two reads."""
PROGRESS_S = 0.5
"""Minimum seconds between two progress events."""
LOG_READ_S = 5.0
"""Minimum seconds between two notes on how far the logs have been read: see `core.metrics.rank_metrics`."""
TEXTS = ("*.log", "*.txt", "log*/*.log", "log*/*.txt")
"""Texts in the working folder in which measurements are looked for that were neither printed nor in a table."""
NICENESS = 5
"""Lower priority than the training."""


def collect(run_dir: Path, spec: RunSpec, *, ready_fd: int, stop_fd: int) -> int:
    """Collect until the other end of `stop_fd` is closed. Return the exit code: 1 if recording failed.

    Writes one byte to `ready_fd` when the script may be started.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the supervisor handles shutdowns
        signal.signal(number, signal.SIG_IGN)
    owners = FileOwners(run_dir.name, Path(spec.working_dir))
    finder = _finder(run_dir, spec, owners)
    os.write(ready_fd, b".")
    os.close(ready_fd)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    collector = MetricsCollector(run_dir, spec, finder, owners)
    try:
        while not select.select([stop_fd], [], [], INTERVAL_S)[0]:
            collector.read()
        collector.read()
        while collector.has_more:
            collector.read()  # the process may be killed before all is read: what was read is recorded by then
        collector.read(last=True)
    except RecordError:
        return 1  # the supervisor records to the same disk and reports the failure
    finally:
        collector.close()
    return 0


def _finder(run_dir: Path, spec: RunSpec, owners: FileOwners) -> MetricFileFinder:
    working_dir, script = Path(spec.working_dir), spec.script
    trackers = _tracker_folders({**os.environ, **script.environment} if script else {})
    finder = MetricFileFinder(
        [run_dir, working_dir, *trackers, *_named_folders(script.arguments if script else (), working_dir)],
        since=time.time(),
        without=[run_dir / EVENTS, run_dir / CONTROL, metrics_file(run_dir, 0)],
        is_ours=owners.is_ours,
    )
    finder.remember()
    return finder


def _named_folders(arguments: Iterable[str], working_dir: Path) -> Iterator[Path]:
    """Yield the folders outside of the working folder that a script's arguments name: `--logdir /data/tb`."""
    for argument in arguments:
        path = Path(argument.rpartition("=")[2])
        if path.is_absolute() and not path.is_file() and path not in working_dir.parents:
            yield path


def _tracker_folders(variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders outside of the working folder in which trackers of experiments keep their files."""
    cache = variables.get("HF_HOME") or f"{variables.get('HOME', '')}/.cache/huggingface"
    yield Path(variables.get("TRACKIO_DIR") or f"{cache}/trackio")
    if folder := variables.get("WANDB_DIR"):
        yield Path(folder, "wandb")
    store = variables.get("MLFLOW_TRACKING_URI", "")
    if store.startswith(("/", "file:")):
        yield Path(store.removeprefix("file:").replace("//", "/", 1))
    elif store.startswith("sqlite:////"):
        yield Path(store.removeprefix("sqlite:///")).parent


class MetricsCollector:
    """Reads all ranks of one run and writes their metrics, notices and progress."""

    def __init__(
        self, run_dir: Path, spec: RunSpec, finder: MetricFileFinder, owners: FileOwners | None = None
    ) -> None:
        """`finder`: finds the files that the script writes; they count as rank 0's. `owners`: who else may have."""
        self._run_id, self._finder, self._owners = run_dir.name, finder, owners
        self._events = Writer(run_dir / EVENTS / COLLECTOR_EVENTS)
        ranks = len(spec.devices) if strategies.strategy_of(spec).processes == "per_device" else 1
        self._ranks = [RankReader(run_dir, spec, rank, None if rank else finder) for rank in range(ranks)]
        self._writers = [MetricEventWriter(rank, self._events) for rank in range(ranks)]
        self._began = self._last_read = time.time()
        self._files_noted = 0
        self._log_bytes = [0] * ranks
        self._log_due = 0.0
        self._noticed: set[str] = set()
        self._loss = VALIDATION_LOSS  # until there is another one
        self._has_told_nan, self._stops_on_nan = False, spec.training.stop_on_nan
        self._has_measured = False
        self._folder = Path(spec.working_dir)
        self._progress: tuple[float, float, str] | None = None
        self._progress_due = 0.0

    def read(self, *, last: bool = False) -> None:
        """Read and record what is new. `last`: the script has exited. Raises `RecordError`."""
        now = time.time()
        for folder in self._owners.look(last=last) if self._owners else ():
            self._finder.add(folder)
        for reader, writer in zip(self._ranks, self._writers, strict=True):
            measured = reader.read(last=last)
            writer.write(measured, since=self._last_read, until=now)
            self._has_measured = self._has_measured or bool(measured)
            self._look_for_nan(measured)
            self._note(reader.troubles())
        if last and not self.has_more:
            self._note(self._left_out())
        self._last_read = now
        progress = self._ranks[0].progress
        if progress is not None and progress != self._progress and (time.monotonic() >= self._progress_due or last):
            self._progress, self._progress_due = progress, time.monotonic() + PROGRESS_S
            done, total, unit = progress
            self._events.write(RunProgress(done=done, total=total, unit=unit))
        self._note_sources(now, last=last)

    def _note(self, texts: Iterable[str]) -> None:
        """Record each sentence as a notice, once."""
        for text in texts:
            if text not in self._noticed:
                self._noticed.add(text)
                self._events.write(Notice(text=text))

    def _look_for_nan(self, measured: Sequence[MergedReading]) -> None:
        """Tell once that the loss of the run has ceased to be a number."""
        if any(LOSS in each.values for each in measured):
            self._loss = LOSS
        found = next((each for each in measured if not math.isfinite(each.values.get(self._loss, 0.0))), None)
        if found is None or self._has_told_nan:
            return
        self._has_told_nan = True
        value = "NaN" if math.isnan(found.values[self._loss]) else tr("infinite")
        what = tr("The loss became {value} at step {step}.", value=value, step=found.step)
        stops = tr("The run was stopped, as its setting “Stop on NaN” says.") if self._stops_on_nan else None
        advice = tr("Try a lower rate, warm-up or gradient clipping, and check the data for NaN.")
        self._events.write(NotFinite(text=join_sentences([what, stops, advice])))

    @property
    def has_more(self) -> bool:
        """Whether the last read left something for the next."""
        return any(reader.has_more for reader in self._ranks)

    def _left_out(self) -> Iterator[str]:
        """Yield a sentence for each thing that was found and is not read, and record the files that may be read yet."""
        for path, other in self._owners.refused.items() if self._owners else ():
            self._events.write(MetricFile(path=path, begin=self._finder.offset(Path(path)), other_run=other))
            yield tr("{path} was not read, since run {other} may have written it. When that run is over, "
                     "trainyard reread {id} reads it.", path=path, other=other, id=self._run_id)
        yield from (tr(IS_LOCKED, path=path) for path in self._finder.refused
                    if is_database(path) and reader_of(Path(path)) is TrackerDatabase)
        if self._finder.is_full:
            yield tr("The script wrote more than {count} files of measurements. Only the first ones were read.",
                     count=MAX_FOUND)
        if not self._has_measured and (text := self._unread_text()) is not None:
            yield tr("{path} has lines with measurements. They were not read, since no text is read but what is "
                     "printed. Let the script print them, too: with logging, add a StreamHandler.", path=text)

    def _unread_text(self) -> Path | None:
        """Return a text that the script has written into its working folder and that a curve could be read from."""
        for path in sorted(path for pattern in TEXTS for path in self._folder.glob(pattern)):
            with contextlib.suppress(OSError):
                is_ours = self._owners is None or self._owners.is_ours(str(path), path.stat())
                if path.stat().st_mtime >= self._began and is_ours:
                    reader, data = LogReader(), GrowingFile(path).read(HEAD_BYTES)
                    if any(each.values for each in (*reader.take(data), *reader.end())):
                        return path
        return None

    def _note_sources(self, now: float, *, last: bool) -> None:
        """Record which files are read, and when each part of the logs was there: `reread` needs both."""
        files = self._ranks[0].files
        for path, begin in files[self._files_noted :]:
            self._events.write(MetricFile(path=str(path), begin=begin))
        self._files_noted = len(files)
        if time.monotonic() < self._log_due and not last:
            return
        self._log_due = time.monotonic() + LOG_READ_S
        for rank, reader in enumerate(self._ranks):
            if reader.log_bytes != self._log_bytes[rank] or last:
                self._log_bytes[rank] = reader.log_bytes
                self._events.write(LogRead(time=now, rank=rank, size_bytes=reader.log_bytes))

    def close(self) -> None:
        self._events.close()


BOOT = "/worker/boot.py"
"""The end of the path of the program that the worker of a recipe runs."""
CACHE_S = 1.0
"""Seconds after which the processes of all runs are listed again."""
TIME_STEP_S = 0.1
"""Seconds by which the time of a file may be too early: file systems count in steps."""


class FileOwners:
    """Assigns files to runs by the processes that have them open, found by the environment tags of all runs.

    Where several runs may have written a file that is closed again, the bytes that they write tell: a run that wrote
    less than the file grew by did not write it. What is left at the end is decided by the command lines: the only one
    with a part of the file's path (`--out runs/two`) is that of its writer.
    """

    def __init__(
        self, run_id: str, folder: Path, proc: Path = PROC, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`folder`: the working folder of this run. `clock`: monotonic, in seconds."""
        self._run_id, self._folder, self._proc, self._clock = run_id, os.path.realpath(folder), proc, clock
        self.refused: dict[str, str] = {}
        """Files that may be ours, by path: the other run that may have written it."""
        self._writers: dict[str, set[str]] = {}  # by path: the runs that may have written the file
        # As of the last comparison: bytes that each process has written, and the states of the files.
        self._last: tuple[dict[tuple[str, int], float], dict[str, tuple[int, int, int]]] = {}, {}
        self._runs: dict[int, str] = {}
        # By run: where its processes work, the parts of its command lines, its folder, the time of its last process.
        self._folders: dict[str, set[str]] = defaultdict(set)
        self._words: dict[str, set[str]] = defaultdict(set)
        self._dirs: dict[str, str] = {}
        self._until: dict[str, float] = {}
        self._is_last = False
        self._looked: float | None = None
        self._listed: float | None = None
        self._listed_at = 0.0
        """The unix time of the listing."""

    def is_ours(self, path: str, state: os.stat_result) -> bool:
        """Return whether this file may belong to this run.

        A file that only another run has open does not. A file that no run has open does, unless another run works in
        the same folder, or in one that is nearer to the file: then it does once `compare` has left out all others.
        """
        # The caller does not ask again about a file that is ours. So the processes must have been listed after the last
        # change of the file: its writer may belong to a run that has just started.
        answer = self._judge(path, state)
        if answer and self._listed_at <= state.st_mtime + TIME_STEP_S:
            self._listed = None
            answer = self._judge(path, state)
        if answer or len(self._writers.get(path, ())) == 1:
            self.refused.pop(path, None)
        return answer

    def compare(self) -> None:
        """Leave out the runs that have written less than a file in doubt has grown by since the last call."""
        doubted = {run for runs in self._writers.values() if len(runs) > 1 for run in runs}
        for run in doubted:
            self._writers.update((str(log), {run}) for log in Path(self._dirs.get(run, os.devnull)).glob("log*.txt"))
        begin, before = self._last
        self._last = self._bytes_written() if doubted else {}, {p: changes_of(p)[0] for p in self._writers if doubted}
        grown = {path: state[1] - before[path][1] for path, state in self._last[1].items()
                 if path in before and before[path][0] == state[0]}
        if not any(size > 0 and len(self._writers[path]) > 1 for path, size in grown.items()):
            return
        self._listed = None  # a process that was started since then may have written
        end = self._bytes_written()
        for run in doubted:
            keys = {key for key in {*begin, *end} if key[0] == run}
            elsewhere = sum(end.get(key, math.inf) - begin.get(key, 0.0) for key in keys)
            elsewhere -= sum(size for path, size in grown.items() if self._writers[path] == {run})
            for path in [path for path, size in grown.items() if size > elsewhere and len(self._writers[path]) > 1]:
                self._writers[path].discard(run)

    def look(self, *, last: bool = False) -> set[Path]:
        """Compare, and return the folders of files that this run has open now and then. `last`: the run has ended."""
        self._is_last = last
        self.compare()
        if self._looked is not None and self._clock() - self._looked < CACHE_S:
            return set()
        self._looked = self._clock()
        own = [pid for pid, run_id in self._tagged().items() if run_id == self._run_id]
        paths = {path for pid in own for path in _opened(pid, self._proc, os.readlink)}
        return {Path(path).parent for path in paths if path.startswith("/") and may_have_metrics(path)}

    def _judge(self, path: str, state: os.stat_result) -> bool:
        tagged, inode = self._tagged(), (state.st_dev, state.st_ino)
        others = {*tagged.values()} - {self._run_id}
        if others and (holders := {run for pid, run in tagged.items() if inode in _opened(pid, self._proc, _inode)}):
            self._writers[path] = {self._run_id} if self._run_id in holders else holders
        active = {*others, *(run for run, until in self._until.items() if state.st_mtime <= until)} - {self._run_id}
        claims = [(length, run) for run in active if (length := self._claim(self._folders[run], path))]
        if claims:
            self._writers.setdefault(path, {self._run_id, *(run for _, run in claims)})
        writers = self._writers.get(path, {self._run_id})
        if self._is_last and len(writers) > 1:
            named = {run: self._words[run] & {*path.split("/"), Path(path).stem} - {""} for run in writers}
            shared = set.intersection(*named.values())
            writers = self._writers[path] = {run for run in writers if named[run] - shared} or writers
        if rivals := [claim for claim in claims if claim[1] in writers]:
            self.refused[path] = max(rivals)[1]
        return writers == {self._run_id}

    def _bytes_written(self) -> dict[tuple[str, int], float]:
        """Return how many bytes each process of a run has written, by run and pid."""
        return {(run, pid): procfs.written_bytes(pid, self._proc) for pid, run in self._tagged().items()}

    def _tagged(self) -> Mapping[int, str]:
        """Return the run ids of the processes of all runs, by pid."""
        now = self._clock()
        if self._listed is None or now - self._listed >= CACHE_S:
            self._listed_at, self._listed = time.time(), now
            self._until.update(dict.fromkeys(self._runs.values(), self._listed_at))
            self._runs = {}
            for pid in procfs.pids(self._proc):
                variables = procfs.variables(pid, self._proc)
                if (tag := procfs.variable(variables, TAG)) is not None:
                    self._runs[pid] = tag
                    self._dirs[tag] = procfs.variable(variables, RUN_DIR) or os.devnull
                    words = procfs.words(pid, self._proc)
                    self._words[tag].update(*(re.split("[/=]", word) for word in words))
                    # The worker of a recipe writes no tables: where it works means nothing.
                    if not any(word.endswith(BOOT) for word in words[:3]):
                        self._folders[tag].add(procfs.working_dir(pid, self._proc) or "/")
        return self._runs

    def _claim(self, folders: set[str], path: str) -> int:
        """Return the length of the folder among these that is this run's or nearer to the file; 0 if there is none."""
        file = os.path.realpath(path)
        least = len(self._folder) if file.startswith(f"{self._folder}/") else 1
        nearer = {folder for folder in folders if len(folder) > least and file.startswith(f"{folder}/")}
        return max(map(len, nearer | (folders & {self._folder})), default=0)


def _opened(pid: int, proc: Path, look: Callable[[Path], Found]) -> set[Found]:
    """Return what `look` says of each file that a process has open, or of other things such as `pipe:[1]`."""
    folder, found = proc / str(pid) / "fd", set()
    with contextlib.suppress(OSError):  # it has ended
        for name in os.listdir(folder):  # noqa: PTH208 (only names are needed)
            with contextlib.suppress(OSError):  # closed in the meantime
                found.add(look(folder / name))
    return found


def _inode(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_dev, state.st_ino
