"""Stop own workers step by step: ask, SIGINT, SIGTERM, SIGKILL. Each step follows after the timeout of the last."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from core.schema.settings import EscalationSteps


class StopEscalation:
    """Takes each step when it is due. The caller stops calling `tick` when all workers have exited."""

    def __init__(
        self,
        steps: EscalationSteps,
        *,
        send: Callable[[signal.Signals], None],
        record: Callable[[str, float | None], None] = lambda *_: None,
    ) -> None:
        """`send` signals the workers. `record` receives the name and the timeout in seconds of each step taken."""
        self._steps = list(steps)
        self._send, self._record = send, record
        self._due: float | None = None

    def begin(self, first: str | None = None) -> None:
        """Take the step called `first`, or the mildest, now. Does nothing once begun."""
        if self._due is None:
            while first is not None and self._steps[0][0] != first:
                self._steps.pop(0)
            self._advance()

    def tick(self) -> None:
        """Take the next step if it is due."""
        if self._due is not None and self._steps and time.monotonic() >= self._due:
            self._advance()

    def force(self) -> None:
        """Take the last step at once."""
        if self._steps:
            self._steps = self._steps[-1:]
            self._advance()

    def _advance(self) -> None:
        name, number, timeout_s = self._steps.pop(0)
        self._due = time.monotonic() + (timeout_s or 0.0)
        self._record(name, timeout_s)
        if number is not None:
            self._send(number)
