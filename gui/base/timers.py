"""The timer that polls, a queue of steps between events, and the collection of garbage at a time of our choice."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, QTimer, Signal


class StepQueue(QObject):
    """Steps that are done in their order. Keys, clicks and repainting come between two of them."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._steps: deque[Callable[[], object]] = deque()
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._take)

    @property
    def busy(self) -> bool:
        """Whether there are steps left."""
        return bool(self._steps)

    def start(self, steps: Iterable[Callable[[], object]]) -> None:
        """Add steps."""
        self._steps.extend(steps)
        self._timer.start()

    def stop(self) -> None:
        """Leave out what is left."""
        self._steps.clear()
        self._timer.stop()

    def _take(self) -> None:
        if self._steps:
            self._steps.popleft()()
        if not self._steps:
            self._timer.stop()


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


INTERVAL_MS = 1000
"""Milliseconds between two looks at how much garbage there may be. Each look collects one generation at most."""


class GarbageCollector(QObject):
    """Takes the place of Python's automatic collection, from `start` on, in the thread that made it."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(collect_due)

    def start(self) -> None:
        """Switch the automatic collection off, and collect from a timer.

        What there is now is left out from then on: it stays, and going through it would take 30 milliseconds.
        """
        gc.disable()
        gc.freeze()
        self._timer.start()


def collect_due() -> None:
    """Collect the oldest generation whose threshold has been passed, as the automatic collection would."""
    counts, thresholds = gc.get_count(), gc.get_threshold()
    for generation in (2, 1, 0):
        if 0 < thresholds[generation] < counts[generation]:  # 0 is never: so has Python 3.14 for the oldest
            gc.collect(generation)
            return


def collect_all() -> None:
    """Collect everything that is garbage, also of what was left out at the start. Takes some tenths of a second."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
