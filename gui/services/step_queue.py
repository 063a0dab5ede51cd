"""Do work of the window's thread in steps, each in a turn of the event loop of its own, so that none is held up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, QTimer


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
