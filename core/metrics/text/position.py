"""Compute where in the whole training a reading belongs, from its line and the earlier lines.

Programs count within an epoch: "Epoch 2/5", then a bar at 45 of 375. That is step 420 of 1875. The epoch, the number
of epochs and their length are in other lines; only this module remembers them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from core.metrics.reading import IN_EPOCH, IN_VALIDATION, OF_VALIDATION, Reading
from core.metrics.text.statements import PAIRS, ROW, Statement

MIN_STEPS = 2
"""Steps after the first one, before a return to it is a second training."""


@dataclass(slots=True)
class ContinuousSteps:
    """The program's own count of steps, made continuous if it restarts with each epoch."""

    _epoch: float | None = None
    _last: int | None = None  # as printed
    _stride: int = 1
    _shift: int = 0
    _counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By the first metric of a line: its first step, its last step, and how many steps came."""

    def continuous(self, step: int, epoch: float | None, metric: str | None) -> int:
        """Return the step, counted from the start of the training. `metric`: the first training metric of the line."""
        begins_again = self._begins_again(metric, step) and epoch is None
        if begins_again:
            self._counts.clear()
        if self._last is not None and (
            begins_again or (step <= self._last and epoch is not None and epoch != self._epoch)
        ):
            self._shift += self._last + self._stride - step
        elif self._last is not None and step > self._last:
            self._stride = step - self._last
        self._epoch, self._last = epoch, step
        return step + self._shift

    def _begins_again(self, metric: str | None, step: int) -> bool:
        """Return whether a metric is back at its first step: a second training, and no loaded checkpoint."""
        if metric is None:
            return False
        first, last, steps = self._counts.get(metric, (step, step, 0))
        self._counts[metric] = (first, step, steps + (step != last))
        return step <= first and step < last and steps >= MIN_STEPS


@dataclass(slots=True)
class PositionTracker:
    """Where the training is, by all lines so far."""

    epoch: float | None = None
    epochs: float | None = None  # the total number of epochs
    first_epoch: int = 1  # the number of the first epoch, as the program counts them
    closed: bool = False  # the epoch has reached its last step: an evaluation or another fit follows
    _offset: int = 0  # steps of an earlier fit, before this count of epochs began
    _begin: int | None = None  # the step before the first of this epoch
    _reached: int = 0  # the last step returned
    _count: float = 0  # that step within its epoch or pass
    _first: float | None = None  # the first count of this epoch
    _from_zero: bool = False  # the lines count the steps of an epoch from 0
    _length: float | None = None  # steps of an epoch
    _over_all_epochs: bool = False  # "step 400/1875" counts over all epochs
    _beyond_epochs: bool = False  # "step 100/94" does, too, but its total is an epoch's
    _measured: tuple[int, int] = (0, 0)  # lines with values since an epoch was announced, and in the epoch before
    _announces: bool = False  # the progress is that of epochs that were announced
    _steps: ContinuousSteps = field(default_factory=ContinuousSteps)

    def take(self, statement: Statement) -> Reading:
        """Return the reading of a statement, which is no bar's, with its epoch, its step and its progress."""
        reading = statement.reading
        assert reading is not None
        self._measured = (self._measured[0] + bool(reading.values), self._measured[1])
        self._announces &= reading.total is None
        counts_in_epoch = reading.unit == "steps" and reading.epoch is not None
        if statement.dialect != PAIRS:
            within = counts_in_epoch and reading.step is None and statement.dialect != ROW
            return self.within(reading, statement.epochs) if within else self.stepped(reading)
        if not reading.values and reading.epoch is not None and not counts_in_epoch:
            return self._announced(reading, statement.epochs, over=statement.over)
        return self.place(reading, statement.epochs)

    def _announced(self, reading: Reading, epochs: float | None, *, over: bool) -> Reading:
        """Enter the epoch that a line announces, or end it with `over`. Return the reading with its progress."""
        assert reading.epoch is not None
        if reading.epoch != self.epoch or self.closed:
            self._enter(reading.epoch, epochs)
            self._measured = (0, self._measured[0])
        self.closed, self._announces = over, not over
        if self.epochs is None:
            return reading
        done = reading.epoch - self.first_epoch + over
        return replace(reading, done=min(done, self.epochs), total=self.epochs, unit="epochs")

    def completed(self) -> Reading | None:
        """Return the progress at the end of the log, if the last epoch was announced and has all its lines."""
        if self.epochs is None or self.epoch is None or not self._announces:
            return None
        since, before = self._measured
        if self.epoch - self.first_epoch + 1 < self.epochs or not since or since < before:
            return None
        return Reading(values={}, epoch=self.epoch, done=self.epochs, total=self.epochs, unit="epochs")

    def reached(self) -> int | None:
        """Return the last counted step; None if there is none."""
        return self._reached or None

    def close(self) -> None:
        """Close the epoch: its bar is complete, and the next bar does not count its steps."""
        self.closed = self.epoch is not None

    def begin_again(self, epoch: float, epochs: float | None) -> None:
        """Note a bar of this epoch that is under way. If the epoch was complete, a second training begins."""
        if self.closed and epoch == self.epoch:
            self._enter(epoch, epochs)

    def switch(self, *, counted: bool) -> None:
        """Take another bar as the training's from now on; `counted`: the bar before was training, too."""
        self._offset = self._reached if counted else 0
        self._count, self._length = 0, None

    def place(self, reading: Reading, epochs: float | None) -> Reading:
        """Complete a reading of a text line with its epoch, step and progress.

        `epochs`: the total number of epochs, if the line has it.
        """
        if reading.epoch == 0:
            self.first_epoch = 0
        if reading.unit == IN_VALIDATION:
            return self.stepped(reading)
        if reading.unit == "epochs":
            done = (reading.done or 0) + 1 - self.first_epoch
            return replace(reading, done=min(done, reading.total or done))
        if reading.total is not None and (reading.step is None or self.epoch is not None):
            return self._of_line(replace(reading, step=None), epochs)
        return self.stepped(reading)

    def _of_line(self, reading: Reading, epochs: float | None) -> Reading:
        """Complete a line's reading whose `done` and `total` count within its epoch."""
        if reading.unit != "steps" or reading.done is None or not reading.values:
            return self.within(reading, epochs)
        self._from_zero |= reading.done == 0
        first = self._first
        if reading.epoch == self.epoch is not None and first is not None and reading.done <= first < self._count:
            self._enter(self.epoch, epochs)  # the same epoch once more: a second training
        placed = self.within(reading, epochs)
        if self._first is None:
            self._first = reading.done
        if not self._from_zero or placed.done is None or placed.total is None:
            return placed
        return replace(placed, done=min(placed.done + 1, placed.total))

    def stepped(self, reading: Reading) -> Reading:
        """Complete a reading that has the program's own step, or no step."""
        reading = self._with_epoch(reading)
        if reading.step is None:
            return reading
        metric = next((name for name in reading.values if not name.startswith(OF_VALIDATION)), None)
        step = self._steps.continuous(reading.step, reading.epoch, metric)
        return reading if step == reading.step else replace(reading, step=step)

    def within(self, reading: Reading, epochs: float | None) -> Reading:
        """Complete a reading whose `done` and `total` count within its epoch, or within a pass without epochs."""
        if reading.epoch is not None and reading.epoch != self.epoch:
            self._enter(reading.epoch, epochs)
        reading = self._with_epoch(reading)
        if reading.done is None:
            return reading
        if reading.unit == "steps":
            reading = self._counted(reading, reading.done, reading.total)
        if self.epoch is None or reading.done is None or reading.total is None:
            return reading if self.epoch is None else replace(reading, unit=IN_EPOCH)
        done, passed = reading.done, (self.epoch - self.first_epoch) * reading.total
        if self._over_all_epochs and not self._beyond_epochs:
            return reading
        if self._over_all_epochs:  # "100/94" in the second epoch
            done -= passed
        if self.epochs is None:
            return replace(reading, done=done, unit=IN_EPOCH)  # its share of the training is unknown
        return replace(reading, done=passed + done, total=self.epochs * reading.total)

    def _enter(self, epoch: float, epochs: float | None) -> None:
        if epoch == 0:
            self.first_epoch = 0
        if self.epoch is not None and epoch <= self.epoch:  # the count restarts: a second fit
            self._offset, self.epochs = self._reached, None
        self.epochs = epochs or self.epochs
        self.epoch, self._begin, self._first, self.closed = epoch, None, None, False

    def _counted(self, reading: Reading, count: float, length: float | None) -> Reading:
        """Return the reading with its step, and remember its count."""
        if self.epoch is not None:
            begin = self._epoch_begin(count, length)
        elif count < self._count:  # passes without epochs follow one another
            self._offset = begin = self._offset + int(self._length or self._count)
        else:
            begin = self._offset
        self._count, self._length, self._reached = count, length or self._length, begin + int(count)
        return replace(reading, step=self._reached)

    def _with_epoch(self, reading: Reading) -> Reading:
        return reading if reading.epoch is not None or self.epoch is None else replace(reading, epoch=self.epoch)

    def _epoch_begin(self, count: float, length: float | None) -> int:
        """Return the step before the first of this epoch, for a reading at `count` of `length`."""
        assert self.epoch is not None
        index = max(0, int(self.epoch) - self.first_epoch)
        if self._begin is None:  # the first reading of an epoch
            ended = self._length is not None and self._count >= self._length
            self._over_all_epochs |= length == self._length and count > self._count > 0 and not ended
            self._begin = self._reached
        if length is not None and count > length:
            self._over_all_epochs = self._beyond_epochs = True
        if self._over_all_epochs:
            return self._offset
        return self._begin if length is None else self._offset + index * int(length)
