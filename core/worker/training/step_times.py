"""Measure where the time of a step goes: in few steps, and of several ranks in the same ones."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ...schema.event_kinds import StepTime
from .metrics import median

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..context import Context

SHARE = 1 / 200
"""Largest share of the time that measuring may take."""
LEAST_S, KEPT = 1.0, 400
"""After a measured step, no other is measured for this many seconds, nor for the age of the training divided by
`KEPT`: a rank records about 2500 events in a day."""
FIRST = 4
"""Reports with plain steps before the first measured step: first steps are slow, and a cost needs steps to compare."""
AHEAD = 8
"""Steps from a report to the measured one, at most: by then the host is ahead of a GPU again."""
RECENT = 16
"""Measurements of which a median is the cost of the next."""


class StepTimes:
    """Measures a step between two reports if rank 0 decides so at the first of them; its number follows from both.

    It lasts from the end of the step before to its own. A step after a validation, a checkpoint or a report that came
    between two steps is not measured. The clock is the host's: of what a device does later, this class sees nothing.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.at = 0
        """The number of the step to measure; 0 for none."""
        self.runs = False
        """Whether the current step is measured."""
        self._marks: list[tuple[str, Any]] = []
        self._step = self._steps = 0
        """The number of the measured step, until it is recorded; those done at the last report."""
        self._began = self._planned = self._measured = time.monotonic()
        self._plain_s, self._costs_s = deque[float](maxlen=RECENT), deque[float](maxlen=RECENT)

    def is_due(self) -> bool:
        """Return whether a step before the next report is to be measured. Only rank 0's answer counts."""
        now = time.monotonic()
        gap_s = max(LEAST_S, median(self._costs_s) / SHARE, (now - self._began) / KEPT)
        # After a measured step, plain ones are needed to compare with.
        return not self._step and len(self._plain_s) >= FIRST and now - self._measured >= gap_s

    def plan(self, steps: int, interval: int, *, due: bool) -> None:
        """Record what was measured, and plan the next: at each report, on all ranks with the same numbers.

        `steps`: those done. `interval`: steps until the next report.
        """
        began, done = time.monotonic(), steps - self._steps
        if self._step:
            more_s = max(0.0, self._record() - median(self._plain_s))
            self._costs_s.append(time.monotonic() - began + more_s)
            self._measured = began
        elif done > 0:
            self._plain_s.append((began - self._planned) / done)
        self._planned, self._steps, self._step, self.runs = time.monotonic(), steps, 0, False
        self.at = steps + max(1, min(interval // 2, AHEAD)) if due else 0

    def begin(self) -> None:
        """Begin to measure, at the end of the step before."""
        self.runs, self._marks = True, [("", self.mark())]

    def lap(self, part: str) -> None:
        """Count the time since the last mark as this part of the step: a field of `StepTime`, or "" for the loop."""
        self._marks.append((part, self.mark()))

    def end(self, step: int, loss: Any) -> None:  # noqa: ANN401, ARG002 (the framework's, for its own classes)
        """End the measured step, which has this number and loss."""
        self.lap("")
        self.runs, self._step = False, step

    def timed(self, function: Callable[..., Any], before: str, after: str | None = None) -> Callable[..., Any]:
        """Return a function that also ends the part `before` when it is called, and the part `after` at its end."""

        def timed(*arguments: Any) -> Any:  # noqa: ANN401 (the function's)
            if not self.runs:
                return function(*arguments)
            self.lap(before)
            found = function(*arguments)
            if after is not None:
                self.lap(after)
            return found

        return timed

    def mark(self) -> Any:  # noqa: ANN401 (of a device's clock)
        """Return the time now, in a form that `seconds` reads."""
        return time.monotonic()

    def seconds(self, marks: list[Any]) -> list[float]:
        """Return the marks in seconds of `time.monotonic`. Called at a report, when the device has done the step."""
        return marks

    def _record(self) -> float:
        """Record the measured step, and return its seconds."""
        times = self.seconds([mark for _, mark in self._marks])
        found: dict[str, float] = {}
        for at, (part, _) in enumerate(self._marks[1:], start=1):
            if part:
                found[part] = found.get(part, 0.0) + times[at] - times[at - 1]
            if part == "backward" and self._context.world_size > 1:
                found["arrived"] = times[at]
        if found and self._context.assignment.kind == "cpu":
            found.setdefault("copy", 0.0)  # batches are there already
        took = times[-1] - times[0]
        if found:  # else the loop tells nothing apart
            self._context.record(StepTime(rank=self._context.rank, step=self._step, seconds=took, **found))
        return took
