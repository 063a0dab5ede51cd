"""Import curves of other programs, TensorBoard event files, tables and JSON lines, as runs that can be compared.

An imported run has measurements and nothing else: no program, no devices, no log. It is never started.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import RunError
from core.language import tr, tr_noop
from core.metrics.files.finder import EVENTS as EVENT_FILE
from core.metrics.files.finder import JSON_LINES, MAX_FOUND, TABLES, MetricFileFinder
from core.metrics.files.tensorboard import EventFile
from core.metrics.merge import MergedReading
from core.metrics.rank_metrics import MetricEventWriter, RankReader, TimedLines, current
from core.metrics.reading import TEST, VALIDATION
from core.runs import directory
from core.schema.event_kinds import Notice, StateChange
from core.schema.files import open_to_read, touch, write_whole
from core.schema.paths import COLLECTOR_EVENTS, EVENTS, LOG_FILE, SUPERVISOR_EVENTS
from core.schema.settings import Script
from core.schema.spec import MAX_NAME, SCRIPT, RunSpec, write_spec

SEARCH_S = 60.0
"""Seconds that the search of a folder may take."""
PARTS = VALIDATION | TEST | {"train", "training"}
"""Folders with a part of a run, as Keras' callback makes them."""
IMPORTED = tr_noop("The curves were imported from {path}; Trainyard did not train this run.")
CUT = tr_noop("{path} does not end with a new line: its last row may be cut.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRun:
    """Files that belong to one training of another program."""

    name: str
    source: Path
    """The folder of its event files, or its only file."""
    files: tuple[Path, ...]
    beside: tuple[ForeignRun, ...] = ()
    """The tables beside its event files, which have the same curves. They are the training if these files have none."""

    @property
    def left_out(self) -> str:
        """The sentence on a table beside event files."""
        return tr("{path} was left out, since the event files beside it have the curves. If it has others, import it "
                  "by its path.", path=self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A run that was made of such files."""

    run_dir: Path
    source: Path
    values: dict[str, int]
    """The number of values by metric."""
    notices: tuple[str, ...]
    """Sentences on what could not be read, in English as they are stored."""


def find_runs(path: Path) -> list[ForeignRun]:
    """Return the trainings in a folder, or that of a file.

    Each folder with event files is one training, together with its folders `train` and `validation`. Each table of a
    folder without event files is one. Raises `ValueError` with a sentence if there is none.
    """
    path = path.resolve()
    if path.is_file():
        named = path.parent if EVENT_FILE in path.name else path
        return [ForeignRun(name=_name(named, named.parent), source=path, files=(path,))]
    if not path.is_dir():
        raise ValueError(tr("There is no file or folder {path}.", path=path))
    found = sorted(MetricFileFinder([path], since=0.0).search_all(SEARCH_S))
    if len(found) >= MAX_FOUND:
        raise ValueError(
            tr("{path} has {count} files of curves or more. Import its folders one by one.", path=path, count=MAX_FOUND)
        )
    homes: dict[Path, list[Path]] = {}
    for each in found:
        if EVENT_FILE in each.name:
            homes.setdefault(_home(each, path), []).append(each)
    tables = [
        ForeignRun(name=_name(each, path), source=each, files=(each,))
        for each in found if EVENT_FILE not in each.name and each.name.lower().endswith((*TABLES, *JSON_LINES))
    ]
    runs = [
        ForeignRun(
            name=_name(home, path), source=home, files=tuple(files),
            beside=tuple(each for each in tables if each.source.parent == home),
        )
        for home, files in homes.items()
    ]
    runs += [each for each in tables if each.source.parent not in homes]
    if not runs:
        raise ValueError(
            tr("{path} has no TensorBoard event file, and no CSV or JSON-lines file with a column such as loss.",
               path=path)
        )
    return runs


def _home(file: Path, root: Path) -> Path:
    """Return the folder of the training that an event file belongs to."""
    folder = file.parent
    if folder == root:
        return folder
    if folder.name.lower() in PARTS:
        return folder.parent
    events = EventFile(file)
    events.poll()
    # As `SummaryWriter.add_scalars("loss", {"val": ...})` of PyTorch names its folders: `loss_val`.
    return folder.parent if events.tag and folder.name.startswith(f"{events.tag.replace('/', '_')}_") else folder


def _name(source: Path, root: Path) -> str:
    """Return a name for a run: the path below the folder that is imported."""
    parts = source.relative_to(root).with_suffix("").parts if source.is_file() else source.relative_to(root).parts
    return "-".join(parts or (root.name,))[:MAX_NAME] or "imported"


def import_run(found: ForeignRun, runs_root: Path) -> ImportedRun:
    """Read the files of a training, and make a run of their curves; the files stay as they are.

    Raises `ValueError` with a sentence if they have no curve, `RunError` if the run cannot be written.
    """
    spec = RunSpec(
        name=found.name, framework=SCRIPT, strategy="one", script=Script(path=str(found.source)), devices=(),
        python=sys.executable, working_dir=str(found.source.parent), imported=str(found.source),
    )
    reader = RankReader(found.source / "no-run", spec, 0, None)
    for file in found.files:
        reader.add_file(file, 0)
    readings = current(reader.read(last=True))
    notices = [*reader.troubles(), *_cut(found.files)]
    if not readings:
        raise ValueError(
            tr("{path} has no curve that can be read: it is no TensorBoard event file, no CSV table whose first line "
               "names the columns, and no JSON lines, or has no number yet.", path=found.source)
        )
    run_dir = None
    try:
        run_dir = directory.new_directory(runs_root, found.name)
        _write(run_dir, found, readings, notices)
        touch(run_dir / LOG_FILE)
        write_spec(run_dir, spec)  # last: a folder with this file is a run
    except OSError as error:
        if run_dir is not None:
            shutil.rmtree(run_dir, ignore_errors=True)
        raise RunError(directory.cannot_make(runs_root, error)) from error
    counts = dict(sorted(Counter(name for reading in readings for name in reading.values).items()))
    return ImportedRun(run_dir=run_dir, source=found.source, values=counts, notices=tuple(notices))


def _write(run_dir: Path, found: ForeignRun, readings: Sequence[MergedReading], notices: Sequence[str]) -> None:
    """Write the events of a run. Values without a time have that of the last change of the files."""
    changed = max(file.stat().st_mtime for file in found.files)
    times = [each.time for each in readings if each.time is not None]
    began, ended = min(times, default=changed), max(times, default=changed)
    lines = TimedLines()
    MetricEventWriter(0, lines).write(readings, since=ended, until=ended)
    write_whole(run_dir / EVENTS / COLLECTOR_EVENTS, "".join(f"{line}\n" for line in lines.lines))
    lines = TimedLines()
    for state in ("starting", "running"):
        lines.add(StateChange(time=began, state=state).event())
    for text in (tr(IMPORTED, path=found.source), *notices):
        lines.add(Notice(time=began, text=text).event())
    for state in ("releasing", "finished"):
        lines.add(StateChange(time=ended, state=state).event())
    write_whole(run_dir / EVENTS / SUPERVISOR_EVENTS, "".join(f"{line}\n" for line in lines.lines))


def _cut(files: Sequence[Path]) -> Iterator[str]:
    """Yield a sentence for each table whose last row may be incomplete."""
    for path in files:
        if path.name.lower().endswith(TABLES):
            with open_to_read(path, follow_link=True) as file:
                size = file.seek(0, 2)
                file.seek(max(size - 1, 0))
                if file.read(1) not in {b"", b"\n"}:
                    yield tr(CUT, path=path)
