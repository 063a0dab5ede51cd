"""The steps that a training has reached, and when: there a validation belongs that is numbered on its own."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from core.metrics.common.names import OF_VALIDATION

if TYPE_CHECKING:
    from core.metrics.common.reading import Reading

MAX_TIMES = 50_000
"""Training steps whose times are kept; every second one is dropped at this limit."""


@dataclass(slots=True)
class _Epochs:
    """The epochs as one kind of source counts them: from 0, from 1, or from where the training was resumed."""

    first: int | None = None
    ends: dict[int, int] = field(default_factory=dict)
    """The largest known step of each epoch."""


class KnownSteps:
    """The steps that a training has reached, as far as its sources say."""

    def __init__(self) -> None:
        self.last: int | None = None
        """The largest step of any source."""
        self._of_source: dict[str, int] = {}
        self._epochs: dict[str, _Epochs] = {}
        self.version = 0
        """Increases when the end of an epoch becomes known."""

    def learn(self, kind: str, source: str, reading: Reading) -> None:
        """Note the step and the epoch of a reading."""
        if reading.step is not None:
            self.last = reading.step if self.last is None else max(self.last, reading.step)
            self._of_source[source] = reading.step
        if reading.epoch is not None:
            epochs, epoch = self._epochs.setdefault(kind, _Epochs()), int(reading.epoch)
            epochs.first = epoch if epochs.first is None else min(epochs.first, epoch)
            if reading.step is not None and epochs.ends.get(epoch, -1) < reading.step:
                epochs.ends[epoch] = reading.step
                self.version += 1

    def of(self, source: str) -> int | None:
        """Return the last step of a source; None if it has given none."""
        return self._of_source.get(source)

    def end_of(self, kind: str, epoch: int) -> int | None:
        """Return the last step of an epoch as `kind` counts epochs; None if it is unknown.

        Other kinds may count from another number: the first epoch of each kind is assumed to be the same.
        """
        own = self._epochs.get(kind, _Epochs())
        if epoch in own.ends:
            return own.ends[epoch]
        for other in self._epochs.values():
            if other is not own and own.first is not None and other.first is not None:
                end = other.ends.get(epoch - own.first + other.first)
                if end is not None:
                    return end
        return None


@dataclass(slots=True)
class _OwnCount:
    """How a validation metric of a file is numbered."""

    first: int
    values: int = 0
    own: bool = True
    """Whether its values were numbered one after another, so far."""


class TrainingTimes:
    """When a training reached its steps, by the times in its files.

    A program may write the training's loss at its steps, 938 an epoch, and the validation's at 1, 2, 3. Such a value
    belongs to the step that the training had reached when it was written.
    """

    def __init__(self) -> None:
        self._times: list[float] = []
        self._steps: list[int] = []
        self._counts: dict[tuple[str, str], _OwnCount] = {}

    def placed(self, source: str, reading: Reading) -> Reading:
        """Return a reading with the training's step, if it is of a validation that is numbered on its own."""
        step, time = reading.step, reading.time
        if step is None or time is None or not reading.values:
            return reading
        name = next(iter(reading.values))
        if not name.startswith(OF_VALIDATION):
            self._note(step, time)
            return reading
        count = self._counts.setdefault((source, name), _OwnCount(step))
        count.own &= count.first in {0, 1} and step == count.first + count.values
        count.values += 1
        reached = self._reached(time) if count.own else None
        return reading if reached is None or reached <= 2 * step + 2 else replace(reading, step=reached)

    def _note(self, step: int, time: float) -> None:
        if self._times and (time < self._times[-1] or step <= self._steps[-1]):
            return
        if len(self._times) >= MAX_TIMES:
            del self._times[::2], self._steps[::2]
        self._times.append(time)
        self._steps.append(step)

    def _reached(self, time: float) -> int | None:
        at = bisect_right(self._times, time)
        return self._steps[at - 1] if at else None
