"""The one timer of the window: what is looked at is brought up to date at every beat."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

LIVE_MS = 100
CALM_MS = 250
"""While no run is live that somebody looks at: readings come twice a second at most."""
UNWATCHED_MS = 500
FIRST_MS = 15
"""Long enough for the first picture to be painted."""


class PollTimer(QObject):
    """Beats fast while somebody looks at a live run, slowly otherwise. The first beat comes once the window stands."""

    timeout = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.setInterval(UNWATCHED_MS)
        self._timer.timeout.connect(self.timeout)
        self._first = QTimer(self)
        self._first.setSingleShot(True)
        self._first.timeout.connect(self.timeout)

    def start(self) -> None:
        """Begin to beat."""
        self._first.start(FIRST_MS)
        self._timer.start()

    @property
    def interval_ms(self) -> int:
        """Milliseconds from one timeout to the next."""
        return self._timer.interval()

    def stop(self) -> None:
        """No beat from now on."""
        self._first.stop()
        self._timer.stop()

    def set_pace(self, *, watched: bool, live: bool) -> None:
        """Beat as somebody looks at the window, or as nobody does; at a run that is live, or at none."""
        pace_ms = UNWATCHED_MS if not watched else LIVE_MS if live else CALM_MS
        if self._timer.interval() != pace_ms:  # set anew, it would count from now
            self._timer.setInterval(pace_ms)
