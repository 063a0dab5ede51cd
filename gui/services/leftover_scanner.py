"""Sweeper: looks for what runs have left behind, once at the start, and knows when it is gone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.runs import leftovers
from core.system import processes
from core.system.procfs import PROC

from .background_task import BackgroundTask

if TYPE_CHECKING:
    from pathlib import Path

    from core.runs.leftovers import OrphanedProcess

PERIOD_S = 1.0
"""So often those that were found are asked whether they are there still, which is cheap."""


class OrphanScanner(QObject):
    """`poll`, called at every beat, never waits."""

    changed = Signal()

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.found: tuple[OrphanedProcess, ...] = ()
        self._root = root
        self._aside: BackgroundTask[list[OrphanedProcess] | None] = BackgroundTask("leftovers")
        self._asked = 0.0

    def look(self) -> None:
        """Look through all processes, on a thread of its own."""
        self._aside.start(lambda: look_for(self._root), lambda _: None)  # then what is known stays

    def poll(self) -> None:
        """Take in what was found, and drop what has gone."""
        found = self._aside.poll()
        if found is not None:
            self._show(tuple(found))
        elif self.found and time.monotonic() - self._asked > PERIOD_S:
            self._asked = time.monotonic()
            self._show(tuple(each for each in self.found if processes.is_alive(each.process)))

    def _show(self, found: tuple[OrphanedProcess, ...]) -> None:
        if [each.process for each in found] != [each.process for each in self.found]:
            self.found = found
            self.changed.emit()


def look_for(root: Path) -> list[OrphanedProcess]:
    """What runs have left behind, oldest first; takes a while. `root`: where runs are that a process does not name."""
    return leftovers.find([root], PROC)
