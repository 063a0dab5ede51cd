"""The stop ladder: ask, SIGINT, SIGTERM, SIGKILL; each rung after the grace of the one before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from core.schema.settings import EscalationSteps


class StopEscalation:
    """Climbs when it is time; the caller says when all is over by no longer calling `tick`."""

    def __init__(
        self,
        steps: EscalationSteps,
        *,
        send: Callable[[signal.Signals], None],
        record: Callable[[str, float | None], None],
    ) -> None:
        self._steps = list(steps)
        self._send, self._record = send, record
        self._due: float | None = None

    def begin(self, first: str = "asked") -> None:
        """Take the rung called `first` now. Does nothing once begun."""
        if self._due is None:
            while self._steps[0][0] != first:
                self._steps.pop(0)
            self._climb()

    def tick(self) -> None:
        """Take the next rung if its time has come."""
        if self._due is not None and self._steps and time.monotonic() >= self._due:
            self._climb()

    def force(self) -> None:
        """Take the last rung at once."""
        if self._steps:
            self._steps = self._steps[-1:]
            self._climb()

    def _climb(self) -> None:
        name, number, grace_s = self._steps.pop(0)
        self._due = time.monotonic() + (grace_s or 0.0)
        self._record(name, grace_s)
        if number is not None:
            self._send(number)
