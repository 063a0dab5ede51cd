"""Collect cyclic garbage in the window's thread only.

Python collects such garbage on whichever thread happens to allocate. It may have Qt objects in it, and Qt allows their
end only in the thread that they live in: on another one the window would crash.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

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
