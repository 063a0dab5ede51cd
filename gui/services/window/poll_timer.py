"""The one timer that brings the window up to date."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

LIVE_MS = 100
"""Milliseconds between two polls while the window shows a live run and can be seen."""
CALM_MS = 250
"""Milliseconds between two polls of a window that can be seen: devices have two readings a second at most."""
UNWATCHED_MS = 500
FIRST_MS = 50
"""Milliseconds until the preparations of the first poll, so that the first frame is painted before."""


class PollTimer(QObject):
    """Fires fast while a live run can be seen, and slowly otherwise."""

    timeout = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, interval=UNWATCHED_MS)
        self._timer.timeout.connect(self.timeout)
        self._first = QTimer(self, singleShot=True)
        self._first.timeout.connect(self._prepare)
        self._preparations: deque[Callable[[], object]] = deque()

    def start(self, *preparations: Callable[[], object]) -> None:
        """Fire from now on. Call `preparations` before; the window reacts between any two of them."""
        self._preparations.extend(preparations)
        self._first.start(FIRST_MS)
        self._timer.start()

    @property
    def interval_ms(self) -> int:
        """Milliseconds from one timeout to the next."""
        return self._timer.interval()

    def stop(self) -> None:
        """Fire no more."""
        self._first.stop()
        self._timer.stop()

    def set_pace(self, *, watched: bool, live: bool) -> None:
        """Set the pace for a window that can be seen or not, and for a run that is live or not."""
        pace_ms = UNWATCHED_MS if not watched else LIVE_MS if live else CALM_MS
        if self._timer.interval() != pace_ms:  # setting an interval restarts the timer
            self._timer.setInterval(pace_ms)

    def _prepare(self) -> None:
        if self._preparations:
            self._preparations.popleft()()
            self._first.start(0)
        else:
            self.timeout.emit()
