"""At which step of the training a value belongs, by all that the sources of its program say.

- `KnownSteps`, `TrainingTimes`: the steps that a training has reached, and when. There a validation belongs that is
  numbered on its own.
- `SecondTrainings`: a second training in one program, which writes files to a folder of its own, continues the curves
  of the first. Trainers that run one after the other write to `version_0` and `version_1`, and count their steps from
  the beginning. That the first one has ended shows in the times: all its values are older than the first value of the
  second. The rows of tables have no times: the first table was last written before the second was created.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.metrics.reading import OF_VALIDATION, Reading

MAX_TIMES = 50_000
"""Training steps whose times are kept; every second one is dropped at this limit."""
NUMBER = re.compile(r"\d+")
MIN_VALUES = 3
"""Values that a training has written before another one can follow it."""


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
    """How a metric of a file is numbered."""

    first: int
    values: int = 0
    own: bool = True
    """Whether its values were numbered one after another, so far."""


@dataclass(slots=True)
class _Reached:
    """When the steps of a training were reached, by its files or by its text."""

    times: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def note(self, step: int, time: float) -> None:
        if self.times and (time < self.times[-1] or step <= self.steps[-1]):
            return
        if len(self.times) >= MAX_TIMES:
            del self.times[::2], self.steps[::2]
        self.times.append(time)
        self.steps.append(step)

    def at(self, time: float) -> int:
        """Return the step reached at a time; 0 before the first one."""
        after = bisect_right(self.times, time)
        return self.steps[after - 1] if after else 0


class TrainingTimes:
    """When a training reached its steps, by the times in its files and by when its text came.

    A program may write the training's loss at its steps, 938 an epoch, and the validation's at 1, 2, 3. Such a value
    belongs to the step that the training had reached when it was written. If the text prints the steps, this holds of
    every metric of a file that counts epochs only.
    """

    def __init__(self) -> None:
        self._files, self._text = _Reached(), _Reached()
        self._counts: dict[tuple[str, str], _OwnCount] = {}

    def note_text(self, readings: Sequence[Reading], now: float | None) -> None:
        """Note the last step of the training in a piece of text that was written just now."""
        for reading in reversed(readings):
            if reading.step is not None and _trains(reading):
                time = now if reading.time is None else reading.time
                if time is not None:
                    self._text.note(reading.step, time)
                return

    def placed(self, source: str, reading: Reading) -> Reading:
        """Return a file's reading with the training's step, if its metric is numbered on its own."""
        step, time = reading.step, reading.time
        if step is None or time is None or not reading.values:
            return reading
        name = next(iter(reading.values))
        count = self._counts.setdefault((source, name), _OwnCount(step))
        count.own &= count.first in {0, 1} and step == count.first + count.values
        count.values += 1
        reached = self._text.at(time) if count.own else 0
        if _trains(reading) and reached <= 2 * step + 2:
            self._files.note(step, time)
            return reading
        reached = max(reached, self._files.at(time)) if count.own else 0
        return reading if reached <= 2 * step + 2 else replace(reading, step=reached)


def _trains(reading: Reading) -> bool:
    return any(not name.startswith(OF_VALIDATION) for name in reading.values)


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
    """The folder, or the table, of the training that this one follows."""
    table: bool = False


class SecondTrainings:
    """All trainings of a program that write files with times."""

    def __init__(self) -> None:
        self._trainings: dict[str, _Training] = {}

    def placed(self, source: str, reading: Reading, *, table: bool = False) -> Reading:
        """Return a file's reading with its step counted from the beginning of the first training.

        `table`: it is the row of a table, which may count epochs instead.
        """
        step, epoch, time = reading.step, reading.epoch, reading.time
        if step is None and table and epoch is not None:
            step = int(epoch)
        key = source if table else folder_of(source)
        training = self._trainings.get(key)
        if training is None and table:
            time = modified(Path(source.partition(":")[2]).parent)
        if step is None or not reading.values or (time is None and not table):
            return reading
        if training is None:
            training = self._trainings[key] = _Training(step, step, time or 0.0, table=table)
            self._follow(key, training, reading)
        training.values += 1
        training.names.update(reading.values)
        step += training.shift
        if step > training.last:
            training.stride, training.last = step - training.last, step
        training.time = max(training.time, time or 0.0)
        if not training.shift:
            return reading
        return replace(reading, epoch=float(step)) if reading.step is None else replace(reading, step=step)

    def follows(self, source: str, before: str) -> bool:
        """Return whether a file is of a training that began when another one had ended."""
        training = self._trainings.get(source) or self._trainings.get(folder_of(source))
        return training is not None and training.after in {before, folder_of(before)}

    def _follow(self, key: str, training: _Training, reading: Reading) -> None:
        """Continue the training that ended last, if this one is its successor."""
        ended = [
            (modified(Path(folder.partition(":")[2])) or 0.0 if other.table else other.time, folder)
            for folder, other in self._trainings.items()
            if other is not training
            and not other.names.isdisjoint(reading.values)
            and (not training.table or _may_follow(folder, key))
        ]
        if not ended:
            return
        time, folder = max(ended)
        before = self._trainings[folder]
        is_over = before.values >= MIN_VALUES and time <= training.time
        if is_over and training.first <= before.first:
            training.after, training.shift = folder, before.last + before.stride - training.first
            training.last = before.last


def _may_follow(before: str, after: str) -> bool:
    """Return whether one table may go on where another one ended: in one folder their names differ in a number."""
    same_folder = before.rpartition("/")[0] == after.rpartition("/")[0]
    return not same_folder or NUMBER.sub("", before) == NUMBER.sub("", after)


def modified(path: Path) -> float | None:
    """Return when a file was last written, or a folder last got or lost one, in unix seconds; None if it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def folder_of(source: str) -> str:
    """Return the kind of a source and the folder of its file."""
    kind, _, path = source.partition(":")
    return f"{kind}:{Path(path).parent}"
