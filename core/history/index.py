"""The runs below a root: list them, find one by its name, and keep their summaries up to date."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from core.errors import RunError, RunNotFoundError
from core.history.marks import ChangedRuns
from core.history.summary import RunSummary, SummaryReader, name_and_kind
from core.history.summary_cache import LARGEST, CachedSummary, SummaryCache
from core.language import tr
from core.runs.facts import RunState, state_info
from core.runs.owners import owner_of_run
from core.runs.run import folders_mark, mark
from core.schema.files import is_regular
from core.schema.paths import SCALING_SUFFIX, SPEC_FILE
from core.system.folders import runs_folder
from core.text import first_names, join_names

log = logging.getLogger(__name__)

NEWEST = 50
"""The newest runs, at which every poll looks again: they are what a list shows first."""
LOOKED_AT, LOOK_S = 50, 0.004
"""Older runs that a poll looks at again, in turn, and seconds in which it looks at more: there may be thousands."""
MIN_READ = 20
"""Runs that a poll reads however long that takes, unless it is stopped."""
MIN_CACHED = 100
"""Runs below a root from which on their summaries are kept in the user's cache folder."""
PAGE = 200
"""Summaries that are taken from there at once, the newest first. The first poll with a budget takes no more."""
PROGRESS_S = 0.25
"""Seconds between two reports of a command's progress."""


def default_root() -> Path:
    """Return where runs are kept by default: in the chosen folder, or in the user's data folder."""
    return runs_folder()


def directories(root: Path) -> list[Path]:
    """Return the run directories below a root, newest first; none without a root. Raises `RunError` with a sentence."""
    return [root / name for name in _names_below(root) if is_run(root / name)]


def _names_below(root: Path) -> list[str]:
    """Return the names in a folder of runs, newest first. Raises `RunError` like `directories`."""
    try:
        names = os.listdir(root)  # noqa: PTH208 (names only)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(
            tr("The runs in {root} cannot be listed: {strerror}.", root=root, strerror=error.strerror)
        ) from error
    return sorted(names, reverse=True)


def is_run(path: Path) -> bool:
    """Return whether this is a run directory that can be read."""
    return is_regular(f"{path}/{SPEC_FILE}")


def find(root: Path, text: str) -> Path:
    """Return the run directory for the name of a folder, an unambiguous beginning of it, or a path.

    If none fits, `text` may be the name that a run was given. Raises `RunNotFoundError` with a sentence.
    """
    if not text:
        raise RunNotFoundError(tr("No run was given. `trainyard runs` lists them."))
    if is_run(Path(text)):
        return Path(text).resolve()
    known = directories(root)
    matches = [path for path in known if path.name == text] or [path for path in known if path.name.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise RunNotFoundError(tr("{text!r} is the beginning of {count} runs: {names}. Give more of the name.",
                                  text=text, count=len(matches), names=_names(matches)))
    given = [path for path in known if name_and_kind(path)[0] == text]
    if len(given) == 1:
        return given[0]
    if given:
        raise RunNotFoundError(tr(
            "{count} runs are called {text!r}: {names}. Give the name of a folder, or its beginning.",
            count=len(given), text=text, names=_names(given),
        ))
    if Path(text).is_absolute():
        raise RunNotFoundError(tr("There is no run at {path}. It may have been removed.", path=text))
    latest = tr("The latest: {names}.", names=_names(known)) if known else tr("There are none yet.")
    raise RunNotFoundError(tr("There is no run {text!r} in {root}. {latest}", text=text, root=root, latest=latest))


def _names(paths: list[Path]) -> str:
    return join_names(first_names([path.name for path in paths]))


def all_runs(root: Path, progress: Callable[[int, int], None] | None = None) -> list[RunSummary]:
    """Return up-to-date summaries of all runs, newest first, for a command. Raises `RunError` like `directories`.

    `progress`: called a few times per second with the number of runs that are read, and that of all runs.
    """
    index = RunIndex(root, cache=SummaryCache(root))
    try:
        summaries = index.poll(None if progress is None else PROGRESS_S)
        while progress is not None and index.busy:
            progress(len(summaries), index.total)
            summaries = index.poll(PROGRESS_S)
    finally:
        index.save()  # also what was read before Ctrl-C
    return summaries


class RunIndex:
    """The summaries of the runs below a root. Runs that are over are read once, and again when they have changed.

    Every poll finds out whether such a run was resumed. Another program may also give it a name, or read its curves
    again: `LOOKED_AT` runs a poll are looked at for that, in turn, and at once those that `ChangedRuns` names.
    """

    def __init__(self, root: Path, patience_s: float | None = None, *, cache: SummaryCache | None = None) -> None:
        """`patience_s`: seconds that a poll may search for validations, the next goes on; None: until all are found.

        `cache`: where summaries of many runs are kept; None for nowhere.
        """
        self.root = root
        self.left = 0
        """Runs that the last poll found and has not read yet."""
        self.total = 0
        """Runs that the last poll found."""
        self.table_files: tuple[str, ...] = ()
        """The names of the files of scaling tables that the last poll found."""
        self._patience_s = patience_s
        self._until: float | None = None
        self._read_until: float | None = None
        self._over: dict[str, CachedSummary] = {}
        """By name of the folder, runs that are over."""
        self._live: dict[str, SummaryReader] = {}
        self._looked_at = 0
        self._changed = ChangedRuns(root)
        self._rest_s = 0.0
        self._is_stopped: Callable[[], bool] = _never
        self._cache = cache
        self._is_loading: bool | None = None
        """Whether there may be more in the cache; None before the first poll."""
        self._loaded_to = LARGEST
        """The name behind which the others are taken from the cache."""
        self._unchecked: list[str] = []
        """Names whose cached summaries were not compared with their files yet, the newest last."""
        self._unsaved: set[str] = set()
        """Names whose summaries are not in the cache yet."""
        self._cached: set[str] = set()
        self._gone: set[str] = set()
        """Names that are in the cache, and no longer below the root."""

    def poll(
        self, budget_s: float | None = None, *, rest_s: float = 0.0, is_stopped: Callable[[], bool] | None = None
    ) -> list[RunSummary]:
        """Return up-to-date summaries of all runs, newest first.

        `budget_s`: seconds to read runs that are not known yet; `left` counts the others, and the next poll goes on
        with them. None: until all are read. `rest_s`: seconds to sleep after each of them, so that another thread of
        this process, such as that of a window, does not have to wait for long. `is_stopped`: true as soon as another
        thread wants what is known by now.
        """
        names = _names_below(self.root)
        self._until, self._rest_s, self._is_stopped = None, rest_s, is_stopped or _never
        self._read_until = None if budget_s is None else time.monotonic() + budget_s
        self.table_files = tuple(name for name in names if name.endswith(SCALING_SUFFIX) and name[0] != ".")
        self._drop_gone(set(names))
        self._load(names)
        self._check_some()
        for name in self._changed.names():
            self._look_at(name)
        self._look_at_some(names)
        found, read = [], 0
        self.left = 0
        for name in names:
            summary = self._known(name)
            is_new = summary is None and name not in self._live
            may_be_cached = self._is_loading and name < self._loaded_to  # in the part that was not taken yet
            if is_new and (may_be_cached or self._is_stopped() or (read >= MIN_READ and self._is_late())):
                self.left += 1
                continue
            if summary is None:
                path = self.root / name
                if not is_run(path):
                    if name in self._cached:
                        self._gone.add(name)
                    continue
                read += 1
                summary = self._read_any(path)
                if is_new:
                    self._rest()
            found.append(summary)
        self.total = len(found) + self.left
        return found

    @property
    def busy(self) -> bool:
        """Whether the next poll has more to do than to look for changes."""
        return bool(self.left or self._is_loading or self._unchecked)

    @property
    def unsaved(self) -> int:
        """Number of summaries that `save` would keep or forget."""
        return len(self._gone) + (len(self._unsaved) if len(self._over) >= MIN_CACHED else 0)

    def forget(self, path: Path) -> None:
        """Read this run again at the next poll: its name or its marks have changed."""
        self._over.pop(path.name, None)
        self._live.pop(path.name, None)

    def reread(self, path: Path) -> RunSummary | None:
        """Read one run again now, and return its summary; None if it is no longer there."""
        self.forget(path)
        self._until, self._is_stopped = None, _never
        return self._read_any(path) if is_run(path) else None

    def save(self) -> None:
        """Keep what is new in the cache; what cannot be written now may be later. Another thread may call this."""
        if self._cache is None or not self.unsaved:
            return
        names, gone = list(self._unsaved), list(self._gone)
        kept = {name: each for name in names if (each := self._over.get(name)) is not None}
        if self._cache.save(kept, gone):
            self._cached.update(kept)
            self._unsaved.difference_update([name for name in names if self._over.get(name) is kept.get(name)])
            self._gone.difference_update(gone)

    def _is_late(self) -> bool:
        return self._is_stopped() or (self._read_until is not None and time.monotonic() > self._read_until)

    def _rest(self) -> None:
        if self._rest_s:
            time.sleep(self._rest_s)

    def _drop_gone(self, names: set[str]) -> None:
        for name in self._over.keys() - names:
            del self._over[name]
            self._unsaved.discard(name)
            if name in self._cached:
                self._gone.add(name)
        for name in self._live.keys() - names:
            del self._live[name]

    def _load(self, names: list[str]) -> None:
        """Take summaries from the cache, the newest first: with a budget a page at the first poll, then what it allows.

        Without a budget all of them are taken.
        """
        is_first = self._is_loading is None
        if is_first:
            self._is_loading = self._cache is not None and len(names) >= MIN_CACHED
        present = set(names) if self._is_loading else set()
        while self._is_loading:
            self._load_page(present)
            self._rest()
            if self._is_late() or (is_first and self._read_until is not None):
                break

    def _load_page(self, present: set[str]) -> None:
        assert self._cache is not None
        loaded, last = self._cache.load(self._loaded_to, PAGE)
        self._is_loading, self._loaded_to = last is not None, last or ""
        self._cached.update(loaded)
        self._gone.update(loaded.keys() - present)
        fresh = [name for name in loaded if name in present and name not in self._over and name not in self._live]
        self._over.update((name, loaded[name]) for name in fresh)
        self._unchecked = [*reversed(fresh), *self._unchecked]

    def _check_some(self) -> None:
        """Compare cached summaries with the files of their runs, as far as there is time."""
        checked = 0
        while self._unchecked and (checked < LOOKED_AT or not self._is_late()):
            name, checked = self._unchecked.pop(), checked + 1
            kept, path = self._over.get(name), self.root / name
            if kept is not None and (kept.mark != mark(path) or kept.folders != folders_mark(path)):
                self.forget(path)
            if checked % LOOKED_AT == 0:
                self._rest()

    def _look_at_some(self, names: list[str]) -> None:
        """Forget those of the newest and of the next runs whose folders have changed since they were read."""
        for name in names[:NEWEST]:
            self._look_at(name)
        first = self._looked_at if self._looked_at < len(names) else NEWEST
        until, self._looked_at = time.monotonic() + LOOK_S, first
        for name in names[first:]:
            if self._looked_at >= first + LOOKED_AT and (self._is_stopped() or time.monotonic() > until):
                break
            self._look_at(name)
            self._looked_at += 1

    def _look_at(self, name: str) -> None:
        kept = self._over.get(name)
        if kept is not None and kept.folders != folders_mark(kept.summary.dir):
            self.forget(kept.summary.dir)

    def _known(self, name: str) -> RunSummary | None:
        kept = self._over.get(name)
        if kept is None:
            return None
        if kept.summary.state is RunState.FINISHED or kept.mark == mark(kept.summary.dir):
            return kept.summary
        self._over.pop(name, None)  # another thread may have forgotten it
        return None

    def _read_any(self, path: Path) -> RunSummary:
        """Read a run, whatever lies in its folder: one damaged run never hides the others."""
        try:
            return self._read(path)
        except Exception as error:
            log.exception("cannot read the run %s", path)
            self._live.pop(path.name, None)
            summary = RunSummary(
                dir=path, name=path.name, state=RunState.LOST, started=None, ended=None,
                error=tr("The run in {path} cannot be read: {kind}. Its files are damaged.", path=path,
                         kind=type(error).__name__),
                last_loss=None, step=0, plan=None, owner=owner_of_run(path),
            )
            self._over[path.name] = CachedSummary(summary, mark(path), folders_mark(path))
            return summary

    def _read(self, path: Path) -> RunSummary:
        if self._patience_s is not None and self._until is None:
            self._until = time.monotonic() + self._patience_s  # from here on: listing many runs takes longer
        before, folders = mark(path), folders_mark(path)
        reader = self._live.get(path.name)
        if reader is None:
            reader = self._live[path.name] = SummaryReader(path)
        summary = reader.summary((*before, *folders), self._until)
        if state_info(summary.state).over and reader.is_whole:
            self._over[path.name] = CachedSummary(summary, before, folders)
            if self._cache is not None:
                self._unsaved.add(path.name)
            del self._live[path.name]
        return summary


def _never() -> bool:
    return False
