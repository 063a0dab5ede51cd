"""Stop own workers step by step: ask, SIGINT, SIGTERM, SIGKILL. Each step follows after the timeout of the last."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.schema.settings import EscalationSteps

REPEAT_AFTER = 1 / 3
"""Share of SIGINT's timeout after which it is sent again to workers that train on: as a user presses Ctrl-C again."""


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
        self._repeat_at: float | None = None
        self._still_trains_at = 0.0
        """A measurement after this time shows that training goes on."""

    def begin(self, first: str | None = None) -> None:
        """Take the step called `first`, or the mildest, now. Does nothing once begun."""
        if self._due is None:
            while first is not None and self._steps[0][0] != first:
                self._steps.pop(0)
            self._advance()

    def tick(self, measured_at: float = float("-inf")) -> None:
        """Take the next step if it is due.

        `measured_at`: when the last measurement came, in seconds of `time.monotonic`. If they go on, a SIGINT is
        sent once more: Keras, for one, loses an interrupt that comes within a callback. A program that saves its state
        has none.
        """
        now = time.monotonic()
        if self._due is None:
            return
        if self._steps and now >= self._due:
            self._advance()
        elif self._repeat_at is not None and now >= self._repeat_at and measured_at >= self._still_trains_at:
            self._repeat_at = None
            self._record(signal.SIGINT.name, self._due - now)
            self._send(signal.SIGINT)

    def force(self) -> None:
        """Take the last step at once."""
        if self._steps:
            self._steps = self._steps[-1:]
            self._advance()

    def _advance(self) -> None:
        name, number, timeout_s = self._steps.pop(0)
        now = time.monotonic()
        self._due = now + (timeout_s or 0.0)
        wait_s = REPEAT_AFTER * (timeout_s or 0.0)
        self._repeat_at = now + wait_s if number is signal.SIGINT else None
        self._still_trains_at = now + wait_s / 2
        self._record(name, timeout_s)
        if number is not None:
            self._send(number)
