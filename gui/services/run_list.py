"""All runs under the window's folder, and the devices that live runs use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.errors import RunError
from core.runs.device_use import DeviceUsers
from core.runs.index import RunIndex
from core.runs.search import Search
from core.runs.states import state_info
from gui.viewmodels.run.run_rows import run_title

if TYPE_CHECKING:
    from pathlib import Path

    from core.runs.index import RunSummary

PERIOD_S = 1.0
PATIENCE_S = 0.01
"""Seconds of a poll to search for the best validations: long runs have them anywhere in megabytes."""


class RunListService(QObject):
    """Polled once a second; runs that are over are read once."""

    changed = Signal()

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.summaries: list[RunSummary] = []
        """Newest first."""
        self.found: list[RunSummary] = []
        """Those that the search finds, in its order."""
        self.search = Search()
        self.on_devices: dict[str, tuple[RunSummary, ...]] = {}
        """By device id, the live runs that use it, the newest first."""
        self._index = RunIndex(root, patience_s=PATIENCE_S)
        self._occupancy = DeviceUsers()
        self._polled_at: float | None = None

    def poll(self, *, now: bool = False) -> None:
        """Read what is new if a second has passed, or `now` in any case."""
        if not now and self._polled_at is not None and time.monotonic() - self._polled_at < PERIOD_S:
            return
        self._polled_at = time.monotonic()
        try:
            summaries = self._index.poll()
        except RunError:
            return  # keep what is known; the check of a start reports the folder
        if summaries != self.summaries:
            self.summaries = summaries
            self.found = self.search.find(summaries)
            self.on_devices = self._occupancy.on_devices(summaries)
            self.changed.emit()

    def set_search(self, search: Search) -> None:
        """Search for other runs: `found` has them from now on."""
        self.search = search
        found = search.find(self.summaries)
        if found != self.found:
            self.found = found
            self.changed.emit()

    def summary(self, run_dir: str) -> RunSummary | None:
        """Return the summary of the run in a directory; None if there is none."""
        return next((each for each in self.summaries if str(each.dir) == run_dir), None)

    def reread(self, run_dir: Path) -> None:
        """Read a run again now: its name has changed."""
        self._index.forget(run_dir)
        self.poll(now=True)

    @property
    def titles(self) -> dict[str, tuple[str, ...]]:
        """By device id, the titles of the live runs that use it."""
        now = time.time()
        return {device: tuple(run_title(each, now) for each in runs) for device, runs in self.on_devices.items()}

    def newest_live(self) -> Path | None:
        """Return the directory of the live run that was started last."""
        return next((each.dir for each in self.summaries if not state_info(each.state).over), None)
