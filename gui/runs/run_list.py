"""All runs under the window's folder, the devices that live runs use, and the queue."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

from PySide6.QtCore import QObject, Signal

from core.errors import RunError
from core.history.device_use import DeviceUsers
from core.history.differences import Differences
from core.history.index import RunIndex
from core.history.search import Search
from core.history.summary import RunSummary
from core.history.summary_cache import SummaryCache
from core.queue.control import revive
from core.queue.listing import QueuedRun, QueueView, queue_view
from core.runs.facts import state_info
from gui.base.jobs import Jobs, keep_as_it_is, reason
from gui.runs.rows import run_title

PERIOD_S = 1.0
PATIENCE_S = 0.01
"""Seconds of a poll to search for the best validations: long runs have them anywhere in megabytes."""
FEW = 200
"""Runs up to which a poll takes some milliseconds, and is done between two frames."""
BUDGET_S, BACKGROUND_BUDGET_S = 0.02, 0.2
"""Seconds to read runs that are not known yet: between two frames, and on a thread until they are shown."""
REST_S = 0.001
"""Seconds that the thread sleeps after each run: the window's thread would wait for Python's lock at every event."""
Listed = tuple[list["RunSummary"], int]
"""Summaries, and how many runs are not read yet."""


class RunListService(QObject):
    """Polled once a second; runs that are over are read once. Many runs are read on a thread."""

    changed = Signal()
    """Other runs are found, or they have changed, or more of them were read."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.summaries: list[RunSummary] = []
        """Newest first."""
        self.found: list[RunSummary] = []
        """The runs that the search finds, in its order."""
        self.search = Search()
        self.on_devices: dict[str, tuple[RunSummary, ...]] = {}
        """By device id, the live runs that use it, the newest first."""
        self.differences = Differences()
        """What makes each of the runs different, in words."""
        self.left = 0
        """Runs that are not read yet."""
        self._index = RunIndex(root, patience_s=PATIENCE_S, cache=SummaryCache(root))
        self._reading, self._saving = Jobs(self, "list of runs"), Jobs(self, "index of runs")
        self._reader = _Reader(self._index)
        self._occupancy = DeviceUsers()
        self._polled_at: float | None = None

    def poll(self, *, now: bool = False) -> None:
        """Read what is new if a second has passed, or `now` in any case."""
        if not self._fetch(wait=now) or not (now or self._is_due()):
            return
        self._polled_at = time.monotonic()
        if not now and (self._index.total > FEW or self._index.busy):
            self._reading.start(self._reader.start().read_all, self._take, keep_as_it_is)
        else:
            self._take(self._reader.read(BUDGET_S))

    def _fetch(self, *, wait: bool) -> bool:
        """Take what the thread has read; return whether it has ended. `wait`: end it, which takes some milliseconds."""
        if self._reading.busy and wait:
            self._reader.stop()
            self._reading.finish()
        elif self._reading.busy and (result := self._reader.take()) is not None:
            self._take(result)
        return not self._reading.busy

    def set_search(self, search: Search) -> None:
        """Search for other runs: `found` has them from now on."""
        before, self.search = self.search, search
        found = search.find(self.summaries)
        if found != self.found or search.text != before.text:  # scaling tables are unfolded by any search
            self.found = found
            self.changed.emit()

    def summary(self, run_dir: str) -> RunSummary | None:
        """Return the summary of the run in a directory; None if there is none."""
        return next((each for each in self.summaries if str(each.dir) == run_dir), None)

    @property
    def table_files(self) -> tuple[str, ...]:
        """The names of the files of scaling tables below the root."""
        return self._index.table_files

    def reread(self, run_dir: Path) -> None:
        """Read a run again now: its name or its marks have changed. The others stay as they were read last."""
        self._fetch(wait=True)  # it might have read the run before the change, and note it after this
        summary = self._index.reread(run_dir)
        place = next((at for at, each in enumerate(self.summaries) if each.dir == run_dir), None)
        if summary is None or place is None:
            self.poll(now=True)
            return
        summaries = [*self.summaries]
        summaries[place] = summary
        self._take((summaries, self.left))

    def forget(self, run_dir: Path) -> None:
        """Read a run again at the next poll."""
        self._fetch(wait=True)  # it might have read the run before the change, and note it after it is forgotten
        self._index.forget(run_dir)

    def newest_live(self) -> Path | None:
        """Return the directory of the live run that was started last."""
        return next((each.dir for each in self.summaries if state_info(each.state).live), None)

    def _is_due(self) -> bool:
        return self._polled_at is None or self._index.busy or time.monotonic() - self._polled_at >= PERIOD_S

    def _take(self, result: Listed | RunError) -> None:
        """Show what was read, and keep it in the user's cache folder."""
        if isinstance(result, RunError):
            return  # keep what is known; the check of a start reports the folder
        summaries, left = result
        if summaries != self.summaries or left != self.left:
            self.summaries, self.left = summaries, left
            self.differences.follow(summaries)
            self.found = self.search.find(summaries)
            self.on_devices = self._occupancy.on_devices(summaries)
            self.changed.emit()
        if self._index.unsaved and not left and not self._saving.busy:
            self._saving.start(self._index.save, keep_as_it_is, keep_as_it_is)


class _Reader:
    """Reads an index, on a thread if there is much to read. It holds no `QObject`: see `Jobs`."""

    def __init__(self, index: RunIndex) -> None:
        self._index = index
        self._so_far: list[Listed | RunError] = []
        self._stopped = Event()

    def start(self) -> _Reader:
        """Forget an earlier `stop`."""
        self._stopped.clear()
        return self

    def stop(self) -> None:
        """Let `read_all` end soon."""
        self._stopped.set()

    def take(self) -> Listed | RunError | None:
        """Return what `read_all` has read so far, once; None if there is nothing new."""
        return self._so_far.pop() if self._so_far else None

    def read(
        self, budget_s: float, rest_s: float = 0.0, is_stopped: Callable[[], bool] | None = None
    ) -> Listed | RunError:
        """Return the summaries, and how many runs are not read yet. The others are those of `RunIndex.poll`."""
        try:
            return self._index.poll(budget_s, rest_s=rest_s, is_stopped=is_stopped), self._index.left
        except RunError as error:
            return error

    def read_all(self) -> Listed | RunError:
        """Read until nothing is left, or until `stop`."""
        result = self.read(BACKGROUND_BUDGET_S, REST_S, self._stopped.is_set)
        while self._index.busy and not self._stopped.is_set() and not isinstance(result, RunError):
            self._so_far[:] = [result]
            result = self.read(BACKGROUND_BUDGET_S, REST_S, self._stopped.is_set)
        self._so_far.clear()
        return result


QUEUE_S = 2.0
"""Seconds between two readings, which take half a millisecond: other users and folders have runs, too."""


class QueueService(QObject):
    """`poll` never blocks."""

    changed = Signal()
    revived = Signal(list)
    """The directories of the runs that were taken up again, if there are any; once."""
    failed = Signal(str)
    """Why the queue cannot be read, or the empty string when it can be read again; each once."""

    def __init__(self, run_list: RunListService, *, is_here: bool = True) -> None:
        """`is_here`: whether the runs are those of this machine; the queue of another one is not read."""
        super().__init__()
        self._is_here = is_here
        self._run_list = run_list
        self.view = QueueView()
        """The queue of the window's folder, and what others have claimed, as last read."""
        self._reading, self._reviving = Jobs(self, "queue"), Jobs(self, "queue")
        self._is_revived = False
        self._due = time.monotonic() + QUEUE_S
        self._problem = ""
        self._queued: tuple[Path, ...] = ()
        self._summaries: list[RunSummary] | None = None
        """The summaries among which queued runs were last looked for."""
        run_list.changed.connect(self._look_at_list)

    @property
    def runs(self) -> tuple[QueuedRun, ...]:
        """The queued runs, in their order."""
        return self.view.runs

    @property
    def users(self) -> dict[str, dict[str, str]]:
        """By device id, the titles of the live runs that use it, by their directories; then those in other folders."""
        now, claimed = time.time(), self.view.claimed
        listed = {
            device: {str(each.dir): run_title(each, now) for each in runs}
            for device, runs in self._run_list.on_devices.items()
        }
        return {device: {**listed.get(device, {}), **claimed.get(device, {})} for device in {**listed, **claimed}}

    @property
    def titles(self) -> dict[str, tuple[str, ...]]:
        """By device id, the titles of the runs that use it."""
        return {device: tuple(titles.values()) for device, titles in self.users.items()}

    def queued(self, run_dir: str) -> QueuedRun | None:
        """Return a queued run by its directory; None if it is not queued."""
        return next((each for each in self.runs if str(each.run_dir) == run_dir), None)

    def poll(self, *, now: bool = False) -> None:
        """Read the queue again if it is time, or `now` in any case, and take that at once."""
        if not self._is_here or not (now or time.monotonic() >= self._due):
            return
        root, queued = self._run_list.root, self._queued
        if not self._is_revived:
            self._is_revived = self._reviving.start(
                lambda: revive(root), self._tell_revived, lambda error: self.failed.emit(reason(error))
            )
        if self._reading.start(
            lambda: queue_view(root, queued), self._take, lambda error: self._note(reason(error))
        ):
            self._due = time.monotonic() + QUEUE_S
        if now:
            self._reading.finish()

    def _tell_revived(self, found: list[Path]) -> None:
        if found:
            self.revived.emit(found)
            self.outdate()

    def outdate(self) -> None:
        """Read the queue again at the next poll: it was changed."""
        self._due = 0.0

    def _look_at_list(self) -> None:
        if self._run_list.summaries is self._summaries:
            return  # only the search has changed
        self._summaries = self._run_list.summaries
        queued = tuple(each.dir for each in self._run_list.summaries if state_info(each.state).waits)
        if queued != self._queued:
            self._queued = queued
            self.outdate()

    def _take(self, view: QueueView) -> None:
        self._note("")
        if view != self.view:
            self.view = view
            self.changed.emit()

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self.failed.emit(problem)
