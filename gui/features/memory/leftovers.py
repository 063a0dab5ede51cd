"""Processes of former runs that still live: their search, and the message about them."""

from __future__ import annotations

import time
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QPushButton

from core.history import leftovers
from core.history.leftovers import OrphanedProcess
from core.language import tr
from core.system import processes
from core.system.procfs import PROC
from gui.base.jobs import Jobs, keep_as_it_is
from gui.widgets.buttons import compact_button
from gui.widgets.messages import MessageStrip

PERIOD_S = 1.0
"""Seconds between two checks whether the processes that were found are still alive."""


class OrphanScanner(QObject):
    """`poll` never blocks."""

    changed = Signal()

    def __init__(self, root: Path, *, is_here: bool = True) -> None:
        """`is_here`: whether the runs are those of this machine; processes of another one are not searched here."""
        super().__init__()
        self._is_here = is_here
        self.found: tuple[OrphanedProcess, ...] = ()
        self._root = root
        self._jobs = Jobs(self, "leftovers")
        self._asked = 0.0

    def scan(self) -> None:
        """Search all processes in the background."""
        root = self._root
        if self._is_here:
            self._jobs.start(lambda: find_orphans(root), lambda found: self._show(tuple(found)), keep_as_it_is)

    def poll(self) -> None:
        """Drop the processes that have ended."""
        if self.found and time.monotonic() - self._asked > PERIOD_S:
            self._asked = time.monotonic()
            self._show(tuple(each for each in self.found if processes.is_alive(each.process)))

    def _show(self, found: tuple[OrphanedProcess, ...]) -> None:
        if [each.process for each in found] != [each.process for each in self.found]:
            self.found = found
            self.changed.emit()


def find_orphans(root: Path) -> list[OrphanedProcess]:
    """Return the orphaned processes of runs, oldest first. Blocks for a while.

    `root`: the folder of runs, for processes that do not name theirs.
    """
    return leftovers.find([root], PROC)


class LeftoversStrip(MessageStrip):
    """A message with two buttons."""

    show_asked = Signal()
    end_asked = Signal()

    def __init__(self) -> None:
        super().__init__("leftoversStrip")
        self.show_button = self._button("showLeftovers", tr("Show"), tr("Show these processes"))
        self.end_button = self._button("endLeftovers", tr("End…"), tr("End these processes (asks first)"))
        self.show_button.clicked.connect(self.show_asked)
        self.end_button.clicked.connect(self.end_asked)

    def _button(self, name: str, text: str, tip: str) -> QPushButton:
        button = compact_button(name, text, tip, spoken=tip)
        self.add_button(button)
        return button
