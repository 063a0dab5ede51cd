"""The queue as it is now, read in the background: often while runs of the window are queued, else now and then.

At first, queued runs for which no process waits any more are taken up again, as after a reboot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.history.summary import RunSummary
from core.queue.control import revive
from core.queue.listing import queue_view
from core.runs.facts.states import state_info
from gui.services.jobs import Jobs, reason

from .run_list import RunListService

if TYPE_CHECKING:
    from core.queue.listing import QueuedRun, QueueView

PERIOD_S = 2.0
"""Seconds between two readings while a run under the window's folder is queued."""
RARELY_S = 10.0
"""As `PERIOD_S`, while none is: another user may have devices set aside."""


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
        self._view: QueueView | None = None
        self._reading, self._reviving = Jobs(self, "queue"), Jobs(self, "queue")
        self._is_revived = False
        self._due = time.monotonic() + PERIOD_S
        self._problem = ""
        self._queued: tuple[Path, ...] = ()
        self._summaries: list[RunSummary] | None = None
        """The summaries among which queued runs were last looked for."""
        run_list.changed.connect(self._look_at_list)

    @property
    def runs(self) -> tuple[QueuedRun, ...]:
        """The queued runs of the window's folder, in their order, as last read."""
        return self._view.runs if self._view is not None else ()

    @property
    def set_aside(self) -> Mapping[str, str]:
        """By device id, a sentence for whom a free device is kept."""
        return self._view.set_aside if self._view is not None else {}

    def queued(self, run_dir: str) -> QueuedRun | None:
        """Return a queued run by its directory; None if it is not queued."""
        return next((each for each in self.runs if str(each.run_dir) == run_dir), None)

    def poll(self) -> None:
        """Read the queue again if it is time."""
        if not self._is_here or time.monotonic() < self._due:
            return
        root, queued = self._run_list.root, self._queued
        if not self._is_revived:
            self._is_revived = self._reviving.start(
                lambda: revive(root), self._tell_revived, lambda error: self.failed.emit(reason(error))
            )
        if self._reading.start(lambda: queue_view(root, queued), self._take, self._take_error):
            self._due = time.monotonic() + (PERIOD_S if self._queued else RARELY_S)

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
        if view != self._view:
            self._view = view
            self.changed.emit()

    def _take_error(self, error: Exception) -> None:
        self._note(reason(error))

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self.failed.emit(problem)
