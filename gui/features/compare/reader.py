"""The runs of a comparison: read on a thread, followed while they live, with their table and how they are drawn."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import numpy as np
from PySide6.QtCore import QObject, Signal

from core.errors import RunError
from core.history.differences import names_within
from core.history.index import is_run
from core.history.summary import LOSS, SEED, VALIDATION_LOSS
from core.language import tr, tr_plural
from core.results import comparison
from core.results.comparison import Comparison
from core.results.curves import Guide, guide_of
from core.results.measured_run import MeasuredRun, choose_metric, measured_run, removed_sentence, unless_removed
from core.runs.facts import state_info
from core.runs.run import Run
from core.schema.events import Event as RunEvent
from core.series import long_runs
from core.series.device_readings import ReadingCurve
from core.series.long_runs import events_size
from core.series.run_series import RunSeries
from core.text import BYTES_PER_GB
from gui.base.formatting import DASH, moment
from gui.base.jobs import Jobs, keep_as_it_is, reason, sentence
from gui.base.theme import current_theme
from gui.runs.reading import AT_ONCE_BYTES, ReadRun, take_in, unread

HIDDEN_METRICS = "@"
"""In the names of metrics of other ranks than 0, which are not offered."""


@dataclass(slots=True, kw_only=True)
class ComparedRun:
    """A run that was read, with what is drawn of it. `refresh` brings it up to date."""

    measured: MeasuredRun
    guide: Guide = field(init=False)
    finite: frozenset[str] = field(init=False)
    """The metrics that have a finite value."""
    utilisation: ReadingCurve = field(init=False)
    """Percent: the mean of its devices."""
    memory: ReadingCurve = field(init=False)
    """Gigabytes: of the fullest of its devices."""

    @classmethod
    def of(cls, run: Run, series: RunSeries) -> ComparedRun:
        """Return a run that was read just now. Raises `ValueError` with a sentence if its spec cannot be used."""
        return cls(measured=measured_run(run, series))

    def __post_init__(self) -> None:
        self.refresh()

    @property
    def dir(self) -> Path:
        """Its folder."""
        return self.measured.dir

    def refresh(self) -> None:
        """Take in what was measured since."""
        series = self.measured.series
        series.prepare()
        self.guide = guide_of(self.measured)
        self.finite = frozenset(name for name, each in series.metrics.items() if each.min is not None)
        self.utilisation = ReadingCurve.of(series.utilisation, np.nanmean)
        self.memory = ReadingCurve.of(series.memory, np.nanmax, scale=float(BYTES_PER_GB))

    def title(self, now: float) -> str:
        """Return `18:03 resnet_cats`; `now` in unix seconds."""
        started, name = self.measured.facts.started, self.measured.spec.name
        return f"{moment(started, now)} {name}" if started else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the plot and one row of the table: a run, or runs that differ only in the seed."""

    name: str
    """What tells it from the others: `lr 0.05`, or `lr 0.05, 3 seeds` of a group. No other entry has this name."""
    title: str
    colour: str
    """`#rrggbb`."""
    runs: tuple[ComparedRun, ...]

    @property
    def tip(self) -> str:
        """The folders of its runs; of a group with their seeds."""
        if len(self.runs) == 1:
            return self.runs[0].dir.name
        seeds = [(run.dir.name, run.measured.settings.values.get(SEED)) for run in self.runs]
        lines = [tr("{run}, seed {seed}", run=run, seed=DASH if seed is None else seed) for run, seed in seeds]
        return "\n".join([tr("Runs that differ only in the seed: mean ± standard deviation"), *lines])


def entries_of(
    runs: Sequence[ComparedRun], colours: Mapping[Path, str], now: float, *, grouped: bool
) -> tuple[Entry, ...]:
    """Return the entries in the order of the runs; a group stands at its first run and has that run's colour."""
    groups: dict[str, list[ComparedRun]] = {}
    for run in runs:
        groups.setdefault(run.measured.settings.group if grouped else str(run.dir), []).append(run)
    settings = [group[0].measured.settings for group in groups.values()]
    left_out = SEED if len(groups) < len(runs) else ""
    found = names_within([{name: each.shown(name) for name in each.values if name != left_out} for each in settings])
    titles = [group[0].title(now) for group in groups.values()]
    names = [name or title for name, title in zip(found, titles, strict=True)]
    for at, group in enumerate(groups.values()):
        if len(group) > 1:
            seeds = len({run.measured.settings.values.get(SEED) for run in group})
            names[at] = tr_plural("{name}, {count} seed", "{name}, {count} seeds", seeds, name=names[at])
    return tuple(
        Entry(
            name=names[at] if names.count(names[at]) == 1 else f"{names[at]} ({at + 1})", title=titles[at],
            colour=colours[group[0].dir], runs=tuple(group),
        )
        for at, group in enumerate(groups.values())
    )


def metrics_of(runs: Sequence[ComparedRun]) -> list[str]:
    """Return the metrics that a run has, those of most runs first, and losses before others."""
    counts: dict[str, int] = {}
    for run in runs:
        for name in run.measured.series.metrics:
            counts[name] = counts.get(name, 0) + 1
    own = [name for name in counts if name.partition(HIDDEN_METRICS)[0] not in counts or HIDDEN_METRICS not in name]
    return sorted(own, key=lambda name: (-counts[name], name == "learning_rate", "loss" not in name, name))


def usual_metric(runs: Sequence[ComparedRun], metrics: Sequence[str]) -> str:
    """Return the metric to draw at first: that which the command would compare, also before it has two runs."""
    try:
        return choose_metric([run.measured for run in runs])
    except RunError:
        return next((name for name in (VALIDATION_LOSS, LOSS) if name in metrics), metrics[0])


class ColourNumbers:
    """Gives each run the number of a colour that it keeps while the window is open: the first that is free."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._numbers: dict[Path, int] = {}

    def of(self, run_dirs: Sequence[Path]) -> dict[Path, int]:
        """Return the numbers of these runs. They repeat only where there are more runs than colours."""
        used = [self._numbers[each] % self._count for each in run_dirs if each in self._numbers]
        has_enough, taken = len(run_dirs) <= self._count, set[int]()
        for each in run_dirs:
            number = self._numbers.get(each)
            if number is None or (has_enough and number in taken):  # another run before this one has its colour
                number = min(range(self._count), key=lambda one: (used.count(one), one))
                self._numbers[each] = number
                used.append(number)
            taken.add(number)
        return {each: self._numbers[each] for each in run_dirs}


MAX_RUNS = 200
"""Runs that are compared at most."""
FOLLOW_S, TABLE_S = 1.0, 2.0
"""Least seconds between two looks at the runs, and between two tables while runs go on."""
REST_S = 0.0005
"""Seconds that the thread sleeps between two slices: the window's thread would wait for Python's lock."""
SWITCH_S = 0.0005
"""Seconds after which the thread that makes the table gives way to another one."""
HELD_S = 1.0
"""Most seconds that reading waits for a drawing."""
News = tuple[list[tuple[ComparedRun, "list[RunEvent]"]], list["Path"]]
"""New events of runs, and the folders that are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChoice:
    """What the table compares."""

    metric: str
    baseline: str | None
    """The name of a run's folder; None: the first run."""
    target: float | None
    grouped: bool
    """Whether runs that differ only in the seed form one row."""


class ComparisonReader(QObject):
    """The chosen runs, as far as they are read; `poll` never blocks."""

    changed = Signal()
    """There is something new to draw."""
    table_changed = Signal()
    """There is another table, or a reason why there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: tuple[Path, ...] = ()
        self.problems: dict[Path, str] = {}
        """Why a run is not shown, or is shown as it was: sentences by folder."""
        self.comparison: Comparison | None = None
        self.table_problem = ""
        """Why there is no table: a sentence, or the empty string."""
        self.version = 0
        """Increases whenever there is something new to draw."""
        self.colours = ColourNumbers(len(current_theme().devices))
        self._read: dict[Path, ComparedRun] = {}
        self._live: dict[Path, ReadRun] = {}
        self._reader = _Reader()
        self._reading, self._following = Jobs(self, "compared-runs"), Jobs(self, "live-runs")
        self._making = Jobs(self, "comparison-table")
        self._news: News | None = None
        """What live runs measured, until the curves may be changed."""
        self._choice: TableChoice | None = None
        self._is_stale = False
        """Whether the table is older than the runs or the choice."""
        self._made_at = self._followed_at = 0.0

    @property
    def runs(self) -> list[ComparedRun]:
        """The runs that were read, in the order in which they were chosen."""
        return [self._read[each] for each in self.chosen if each in self._read]

    @property
    def waiting(self) -> int:
        """The number of chosen runs that are not read yet."""
        return sum(each not in self._read and each not in self.problems for each in self.chosen)

    def choose(self, run_dirs: Sequence[Path]) -> None:
        """Compare these runs from now on, at most `MAX_RUNS`; those that were read before are not read again."""
        self.chosen = tuple(run_dirs[:MAX_RUNS])
        kept = set(self.chosen)
        self._read = {each: run for each, run in self._read.items() if each in kept}
        self._live = {each: read for each, read in self._live.items() if each in kept}
        self.problems = {}
        self._reader.want([each for each in self.chosen if each not in self._read])
        self._outdate()

    def choose_table(self, *, metric: str, baseline: str | None, target: float | None, grouped: bool) -> None:
        """Make the table of this choice: see `TableChoice`."""
        choice = TableChoice(metric=metric, baseline=baseline, target=target, grouped=grouped)
        if choice != self._choice:
            self._choice, self._is_stale, self._made_at = choice, True, 0.0

    def close(self) -> None:
        """Forget all runs, and read no more."""
        self.choose([])
        self.comparison, self._choice = None, None

    def hold(self) -> None:
        """Let the thread that reads wait, for a second at most: two threads of Python take turns of 5 ms each."""
        self._reader.may_read.clear()

    def go_on(self) -> None:
        """Let the thread read on."""
        self._reader.may_read.set()

    def poll(self) -> None:
        """Take what was read, and begin what is due, but for the table."""
        taken = [self._add(run_dir, result) for run_dir, result in self._reader.take()]
        if any(taken):
            self._outdate()
        if self._reader.wanted and not self._reading.busy:
            self._reading.start(self._reader.read_all, keep_as_it_is, keep_as_it_is)
        if not self._making.busy:  # the table and the curves may not be changed while it is made
            self._follow()

    # -- runs ------------------------------------------------------------------------------------

    def _add(self, run_dir: Path, result: tuple[ComparedRun, ReadRun] | str) -> bool:
        """Add what was read; return whether it is still wanted."""
        if run_dir not in self.chosen:
            return False
        if isinstance(result, str):
            self.problems[run_dir] = result
        else:
            self._read[run_dir], read = result
            if not state_info(read.run.facts.state).over:
                self._live[run_dir] = read
        return True

    def _outdate(self) -> None:
        self._is_stale = True
        self.version += 1
        self.changed.emit()

    def _follow(self) -> None:
        """Take in what live runs measured since, and notice runs that were removed."""
        if self._news is not None:
            news, self._news = self._news, None
            self._take_in(news)
        if not self._following.busy and self._read and time.monotonic() - self._followed_at >= FOLLOW_S:
            self._followed_at = time.monotonic()
            live = [(self._read[each], read.run) for each, read in self._live.items() if each in self._read]
            folders = [each for each in self._read if each not in self.problems]
            self._following.start(lambda: _news(live, folders), self._note, keep_as_it_is)

    def _note(self, news: News) -> None:
        self._news = news

    def _take_in(self, news: News) -> None:
        new, gone = news
        for run_dir in gone:
            if run_dir in self._read:
                self.problems[run_dir] = tr("{reason} Its curve is still shown.", reason=removed_sentence(run_dir))
                self._outdate()
        for compared, events in new:
            read = self._live.get(compared.dir)
            if read is None or self._read.get(compared.dir) is not compared:
                continue
            take_in(read, events)
            compared.measured = replace(compared.measured, facts=read.run.facts)
            compared.refresh()
            if state_info(read.run.facts.state).over:
                del self._live[compared.dir]
            self._outdate()

    # -- table -----------------------------------------------------------------------------------

    def make_table(self) -> None:
        """Begin to make the table if there is something new for it."""
        choice, runs = self._choice, [each.measured for each in self.runs]
        is_too_soon = time.monotonic() - self._made_at < TABLE_S and (self.waiting or self._live)
        if self._making.busy or choice is None or not runs or not self._is_stale or is_too_soon:
            return
        self._is_stale, self._made_at = False, time.monotonic()
        self._making.start(
            lambda: _made(runs, choice), self._take_table, lambda error: self._take_table(None, sentence(error))
        )

    def _take_table(self, made: Comparison | None, problem: str = "") -> None:
        if self._choice is None:
            return  # the comparison was closed meanwhile
        self.comparison, self.table_problem = made, problem
        self.table_changed.emit()


def _made(runs: Sequence[MeasuredRun], choice: TableChoice) -> Comparison:
    """Make a table. Meanwhile, the window's thread gets Python's lock within a shorter time than Python's 5 ms."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        return comparison.compare(
            runs, metric=choice.metric, baseline=choice.baseline, target=choice.target, grouped=choice.grouped
        )
    finally:
        sys.setswitchinterval(usual_s)


class _Reader:
    """Reads runs one after the other. It holds no `QObject`: see `Jobs`."""

    def __init__(self) -> None:
        self.wanted: deque[Path] = deque()
        self._done: deque[tuple[Path, tuple[ComparedRun, ReadRun] | str]] = deque()
        self._changed = Event()
        self.may_read = Event()
        self.may_read.set()

    def want(self, run_dirs: Sequence[Path]) -> None:
        """Read these runs, and no others."""
        self._changed.set()
        self.wanted = deque(run_dirs)

    def take(self) -> list[tuple[Path, tuple[ComparedRun, ReadRun] | str]]:
        """Return what was read since the last call."""
        return [self._done.popleft() for _ in range(len(self._done))]

    def read_all(self) -> None:
        """Read all wanted runs. A run that is not wanted any more is left in the middle."""
        while self.wanted:
            self._changed.clear()
            self.may_read.wait(HELD_S)
            run_dir = next(iter(self.wanted.copy()), None)
            if run_dir is None:
                return
            result: tuple[ComparedRun, ReadRun] | str | None
            try:
                result = self._read(run_dir)
            except (RunError, ValueError, OSError) as error:
                result = str(error) if not isinstance(error, OSError) else f"{run_dir.name}: {reason(error)}."
            if result is not None and run_dir in self.wanted:
                self._done.append((run_dir, result))
                self.wanted.remove(run_dir)

    def _read(self, run_dir: Path) -> tuple[ComparedRun, ReadRun] | None:
        with unless_removed(run_dir):
            read = self._read_events(run_dir)
            self.may_read.wait(HELD_S)
            return None if read is None else (ComparedRun.of(read.run, read.run_series), read)

    def _read_events(self, run_dir: Path) -> ReadRun | None:
        """Return a run from the cache, or from its events; None if it is not wanted any more."""
        is_long = events_size(run_dir) > AT_ONCE_BYTES
        kept = long_runs.load(run_dir) if is_long else None
        if isinstance(kept, ReadRun):
            take_in(kept, kept.run.catch_up())
            return kept
        run = Run.attach(run_dir)
        read = unread(run, run.spec())
        for events in run.every_slice():
            take_in(read, events)
            if self._changed.is_set():
                return None
            self.may_read.wait(HELD_S)
            time.sleep(REST_S)
        return _from_disk(read) if is_long and state_info(run.facts.state).over else read


def _from_disk(read: ReadRun) -> ReadRun:
    """Keep a run in the user's cache folder, and return it from there: its arrays are mapped and take no memory."""
    read.run_series.prepare()
    packed = long_runs.pack(read.run, read)
    try:
        if packed is not None:
            packed.write()
    except OSError:
        return read  # the disk is full: the next time it is read again
    kept = long_runs.load(read.run.dir)
    return kept if isinstance(kept, ReadRun) else read


def _news(live: Sequence[tuple[ComparedRun, Run]], folders: Sequence[Path]) -> News:
    changed = []
    for compared, run in live:
        before, events = compared.measured.facts.state, run.poll()
        if events or run.facts.state != before:
            changed.append((compared, events))
    return changed, [each for each in folders if not is_run(each)]
