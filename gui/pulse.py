"""The one timer of the window: what is looked at is brought up to date at every beat."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

WATCHED_MS = 100
UNWATCHED_MS = 500
FIRST_MS = 15
"""Long enough for the first picture to be painted."""


class Pulse(QObject):
    """Beats fast while somebody looks, slowly otherwise. The first beat comes once the window stands."""

    beat = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.setInterval(UNWATCHED_MS)
        self._timer.timeout.connect(self.beat)
        self._first = QTimer(self)
        self._first.setSingleShot(True)
        self._first.timeout.connect(self.beat)

    def start(self) -> None:
        """Begin to beat."""
        self._first.start(FIRST_MS)
        self._timer.start()

    def stop(self) -> None:
        """No beat from now on."""
        self._first.stop()
        self._timer.stop()

    def set_watched(self, watched: bool) -> None:
        """Beat as somebody looks, or as nobody does."""
        self._timer.setInterval(WATCHED_MS if watched else UNWATCHED_MS)
