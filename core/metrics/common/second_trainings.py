"""Let a second training in one program, which writes files to a folder of its own, continue the curves of the first.

Trainers that run one after the other write to `version_0` and `version_1`, and count their steps from the beginning.
That the first one has ended shows in the times: all its values are older than the first value of the second.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.metrics.common.reading import Reading

MIN_VALUES = 3
"""Values that a training has written before another one can follow it."""


@dataclass(slots=True)
class _Training:
    """What one folder holds."""

    first: int  # as written
    last: int
    time: float
    shift: int = 0
    stride: int = 1
    values: int = 0
    names: set[str] = field(default_factory=set)
    after: str | None = None
    """The folder of the training that this one follows."""


class SecondTrainings:
    """All trainings of a program that write files with times."""

    def __init__(self) -> None:
        self._trainings: dict[str, _Training] = {}

    def placed(self, source: str, reading: Reading) -> Reading:
        """Return a file's reading with its step counted from the beginning of the first training."""
        step, time = reading.step, reading.time
        if step is None or time is None or not reading.values:
            return reading
        folder = folder_of(source)
        training = self._trainings.get(folder)
        if training is None:
            training = self._trainings[folder] = _Training(step, step, time)
            self._follow(training, reading)
        training.values += 1
        training.names.update(reading.values)
        step += training.shift
        if step > training.last:
            training.stride, training.last = step - training.last, step
        training.time = max(training.time, time)
        return replace(reading, step=step) if training.shift else reading

    def follows(self, source: str, before: str) -> bool:
        """Return whether a file is of a training that began when another one had ended."""
        training = self._trainings.get(folder_of(source))
        return training is not None and training.after == folder_of(before)

    def _follow(self, training: _Training, reading: Reading) -> None:
        """Continue the training that ended last, if this one is its successor."""
        ended = [
            (other.time, folder)
            for folder, other in self._trainings.items()
            if other is not training and not other.names.isdisjoint(reading.values)
        ]
        if not ended:
            return
        time, folder = max(ended)
        before = self._trainings[folder]
        is_over = before.values >= MIN_VALUES and time < training.time
        if is_over and training.first <= before.first:
            training.after, training.shift = folder, before.last + before.stride - training.first
            training.last = before.last


def folder_of(source: str) -> str:
    """Return the kind of a source and the folder of its file."""
    kind, _, path = source.partition(":")
    return f"{kind}:{Path(path).parent}"
