"""Merge the readings of several sources of one program: each metric has one curve, and each value occurs once.

The rules:

- **Source of a metric.** Each metric has one source at a time. A more reliable source takes the metric over, in this
  order: the file named by `TRAINYARD_METRICS`; TensorBoard; tables, JSON lines and files of trackers; the user's
  expression; the log's text. But a curve by steps is more reliable than any curve by epochs or of numbered lines. A
  source that has less than a third of another's values, up to the same step, never keeps the metric from it, however
  reliable: a program may print its loss at each step and write an estimate of that name to TensorBoard every 500. The
  only exception is `TRAINYARD_METRICS`, which the user asked for: nothing replaces its curves.
- **A new source restarts the curve.** Two sources may count steps differently (one from 0, the other from 1; numbered
  lines count no steps at all). So the old curve is deleted: the first value of the new one has `restarts`. The new
  source has given its whole history since the run's start.
- **Two sources of one kind** (two event files, say): the first keeps the metric, and `notices` mentions the other. Two
  files in one folder have one writer, which opened a second file: values beyond the last step continue the curve. So
  do those of a folder that a second training began when the first one had ended (`steps`).
- **Step of a value.** The program's, if the reading has one. Otherwise the last step of the same source. A value of an
  epoch gets the step at which that epoch ended, if a reading had both. Otherwise values that came together
  are spread evenly up to the last known step. Otherwise they are numbered as the program numbers its epochs, and
  recorded again at their steps once these are known. If nothing is known, a metric's values are numbered from 1, and
  those of the other metrics of the source get the number that was reached. A validation that is numbered on its own in
  a file gets the step that the training had reached when it was written.
- **Test sets.** A metric on a test set is the validation's, unless the program has another validation with that metric.
- **No duplicates.** A recorded step is not recorded again. If a source gives a metric by steps, its value of an
  epoch is the mean of them and is skipped.
- **Going back.** If a source returns to an earlier step and continues from there, the program has loaded a checkpoint:
  the new values replace the old ones from there on. A single older value is skipped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from core.language import tr
from core.metrics.reading import MAX_STEP, OF_VALIDATION, Reading, as_test
from core.metrics.steps import KnownSteps, SecondTrainings, TrainingTimes

OWN, TENSORBOARD, CSV, JSON, TRACKER = "own", "tensorboard", "csv", "json", "tracker"
EXPRESSION, TEXT = "expression", "text"
RELIABILITY = {OWN: 4, TENSORBOARD: 3, CSV: 2, JSON: 2, TRACKER: 2, EXPRESSION: 1, TEXT: 0}
"""By kind of source. A source is named by its kind, or by `kind:path` if there are several files of that kind."""
MAX_KEPT = 10_000
"""Values by epoch to keep for the case that their steps become known."""

SPARSE = 3
"""A source with less than one value for this many of another is sparse."""
SETTLED = 64
"""With so many values a source that is not sparse keeps the metric for good."""
MAX_READINGS = 10_000
"""Readings to keep of one source. With more it cannot take the metric over any more."""

NO_NAMES: frozenset[str] = frozenset()

SourceClaim = tuple[bool, bool, int]
"""Whether the user asked for it, whether it counts steps, how reliable its kind is: the greatest one wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedReading(Reading):
    """A reading to record; it always has a step."""

    restarts: frozenset[str] = frozenset()
    """Metrics whose curves begin with this value: their earlier values are void."""
    counts_epochs: bool = False
    """Whether its step is the number of an epoch, because no steps were known."""


@dataclass(slots=True)
class Values:
    """The values of one metric from one source."""

    count: int = 0
    first: int | None = None
    last: int | None = None
    readings: list[Reading] = field(default_factory=list)
    """All of them; empty if there were too many."""

    def add(self, reading: Reading) -> None:
        """Count a value, and keep its reading."""
        if len(self.readings) == self.count < MAX_READINGS:
            self.readings.append(reading)
        elif self.readings:
            self.readings = []
        self.count += 1
        if reading.step is not None:
            self.first, self.last = reading.step if self.first is None else self.first, reading.step

    def prevails(self, holder: Values, *, more_reliable: bool) -> bool:
        """Return whether these values replace those of `holder`, which are recorded now."""
        if len(self.readings) < self.count:
            return False
        return not self._is_sparse_beside(holder) if more_reliable else holder._is_sparse_beside(self)

    def settled_beside(self, rival: Values) -> bool:
        """Return whether a less reliable rival cannot take the metric from these values any more."""
        return self.count >= SETTLED and not self._is_sparse_beside(rival)

    def drop(self) -> None:
        """Forget the readings: the source does not take the metric over any more."""
        self.readings, self.count = [], self.count + 1

    def _is_sparse_beside(self, other: Values) -> bool:
        if self.count == 1 and other.count > SPARSE:  # one value does not show how often they come
            return True
        return self.count * SPARSE < other._count_until(None if self._counts_epochs() else self.last)

    def _counts_epochs(self) -> bool:
        """Return whether these values may be numbered on their own: 1, 2, 3. Such numbers are no steps of others."""
        return self.first in {0, 1} and self.last is not None and self.count == self.last - self.first + 1

    def _count_until(self, step: int | None) -> float:
        """Return about how many of the values are at most at a step; all of them if they have no steps."""
        if step is None or self.first is None or self.last is None or step >= self.last:
            return self.count
        return max(0.0, self.count * (step - self.first + 1) / (self.last - self.first + 1))


@dataclass(slots=True)
class _Curve:
    """The state of one metric's curve."""

    source: str
    claim: SourceClaim
    restarts: bool = False
    last: int | None = None
    value: float = math.nan
    numbered: bool = False
    """Whether its steps are numbers of values or epochs, because no steps were known."""
    of_epochs: list[MergedReading] | None = field(default_factory=list)
    """All values, as long as each belongs to an epoch; None otherwise."""
    of_test: bool = False
    """Whether it is a validation metric measured on a test set."""
    watched: bool = False
    """Whether a less reliable source may take it over, if this one turns out to have few values."""
    values: Values = field(default_factory=Values)
    """All its readings, in case that another source takes it over and turns out to have fewer."""
    held: MergedReading | None = None
    """A value at an earlier step, kept until the next one shows whether the source continues from there."""


class MetricMerger:
    """Takes the readings of all sources of one rank and returns the readings to record."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        """Sentences about skipped curves that the user may want to know of."""
        self._noted: set[Path] = set()
        """Folders of which there is a notice."""
        self._curves: dict[str, _Curve] = {}
        self._rivals: dict[tuple[str, str], Values] = {}
        """By metric and source: the readings that were not recorded, as another source has the metric."""
        self._steps = KnownSteps()
        self._times = TrainingTimes()
        self._trainings = SecondTrainings()
        self._numbers: dict[str, int] = {}
        """By source: the largest number that its values without steps were given."""
        self._seen_version = 0

    def take(self, source: str, readings: Iterable[Reading], now: float | None = None) -> list[MergedReading]:
        """Return the readings to record, in order: a metric's steps rise, except where values replace others.

        `source` is a kind, or `kind:path` of the file. A reading without metrics only says where the training is;
        `done` and `total` are ignored. Take sources with steps first: the log's text, then files. `now`: when the
        readings came, in unix seconds, for those without a time.
        """
        # Sources do not check whether these are possible counts.
        readings = [each for each in readings if abs(each.step or 0) < MAX_STEP and abs(each.epoch or 0) < MAX_STEP]
        kind = _kind(source)
        if kind in {TENSORBOARD, TRACKER}:
            readings = [self._trainings.placed(source, reading) for reading in readings]
            readings = [self._times.placed(source, reading) for reading in readings]
        elif kind in {CSV, JSON}:
            readings = [self._trainings.placed(source, reading, table=reading.time is None) for reading in readings]
        elif kind == TEXT:
            self._times.note_text(readings, now)
        left = Counter(name for reading in readings if _is_of_epoch(reading) for name in reading.values)
        merged: list[MergedReading] = []
        for reading in map(self._named, readings):
            self._steps.learn(kind, source, reading)
            claim = _claim(kind, reading)
            if self._extend_all(source, claim, reading):
                merged.append(
                    MergedReading(values=reading.values, step=reading.step, epoch=reading.epoch, time=reading.time)
                )
                continue
            taken = (self._take(name, source, claim, reading, left.get(name, 0)) for name in reading.values)
            merged += _joined([each for of_name in taken for each in of_name])
            if _is_of_epoch(reading):
                left.subtract(reading.values.keys())
        if self._seen_version != self._steps.version:  # curves numbered by epochs, whose steps have become known
            self._seen_version = self._steps.version
            merged += [each for curve in self._curves.values() if curve.numbered for each in self._at_steps(curve)]
        return merged

    def _extend_all(self, source: str, claim: SourceClaim, reading: Reading) -> bool:
        """Extend the curves of all metrics of a reading, if all of them simply continue; return whether they do.

        This is the fast path: nearly all readings continue their curves.
        """
        step = reading.step
        if step is None or not reading.values:
            return False
        curves = [(self._curves.get(name), value) for name, value in reading.values.items()]
        for curve, _ in curves:
            if curve is None or curve.source != source or curve.claim != claim or curve.restarts:
                return False
            if curve.watched or (curve.of_test and not reading.of_test):
                return False
            if curve.last is not None and step <= curve.last:
                return False
        for curve, value in curves:
            assert curve is not None
            curve.last, curve.value, curve.held, curve.of_epochs = step, value, None, None
            curve.values.add(reading)
        return True

    def _named(self, reading: Reading) -> Reading:
        """Rename the metrics of a test set to `test_...` if the program also reports a validation set."""
        if not reading.of_test:
            return reading
        curves = {name: curve for name, curve in self._curves.items() if name.startswith(OF_VALIDATION)}
        of_test = [curves[name].of_test for name in reading.values if name in curves]
        if all(of_test) if of_test else all(curve.of_test for curve in curves.values()):
            return reading
        values = {
            as_test(name) if name.startswith(OF_VALIDATION) else name: value for name, value in reading.values.items()
        }
        return replace(reading, values=values)

    def _take(self, name: str, source: str, claim: SourceClaim, reading: Reading, left: int) -> Iterator[MergedReading]:
        """Yield the values to record for one metric: none, one, or two if the first had been held.

        `left`: how many of its values of epochs have come together, from this one on.
        """
        curve = self._curve(name, source, claim, reading)
        if curve is None:
            yield from self._challenge(name, source, claim, reading)
            return
        curve.values.add(reading)
        step = self._step(curve, reading, reading.values[name], left)
        if step is None:
            return
        if curve.numbered and reading.step is None:
            self._numbers[source] = max(step, self._numbers.get(source, 0))
        value = MergedReading(
            values={name: reading.values[name]},
            step=step,
            epoch=reading.epoch,
            time=reading.time,
            restarts=frozenset({name}) if curve.restarts else NO_NAMES,
            counts_epochs=curve.numbered and reading.step is None and step == reading.epoch,
        )
        if curve.last is not None and step <= curve.last:
            if curve.held is None or _step_of(curve.held) >= step:
                curve.held = value if step < curve.last else curve.held
                return
            yield curve.held
        curve.last, curve.value, curve.restarts, curve.held = step, reading.values[name], False, None
        if curve.of_epochs is None or not _is_of_epoch(reading) or len(curve.of_epochs) >= MAX_KEPT:
            curve.of_epochs = None
        else:
            curve.of_epochs.append(value)
        yield value
        if curve.watched:
            yield from self._compare(name, curve)

    def _curve(self, name: str, source: str, claim: SourceClaim, reading: Reading) -> _Curve | None:
        """Return the curve that this reading of a metric starts or continues; None if another source has it."""
        curve = self._curves.get(name)
        if curve is not None and curve.of_test and not reading.of_test and name.startswith(OF_VALIDATION):
            curve = self._curves[name] = _Curve(source, claim, restarts=True)  # it was the test set's only until now
        if curve is None:
            curve = self._curves[name] = _Curve(source, claim, of_test=reading.of_test)
        if curve.source != source:
            same_writer = _folder(source) == _folder(curve.source) or self._trainings.follows(source, curve.source)
            if not (claim == curve.claim and same_writer and _is_beyond(curve, reading)):
                return None
            curve.source, curve.held = source, None  # the program opened a second file
        if curve.claim != claim:
            if _is_of_epoch(reading) and curve.claim > claim:
                return None
            if claim > curve.claim and curve.numbered and not _is_beyond(curve, reading):
                curve = self._curves[name] = _Curve(source, claim, restarts=True, of_test=curve.of_test)
            curve.claim = max(curve.claim, claim)
        return curve

    def _challenge(self, name: str, source: str, claim: SourceClaim, reading: Reading) -> Iterator[MergedReading]:
        """Note a reading of a metric that another source has; yield the source's whole curve if it takes it over."""
        curve = self._curves[name]
        if curve.source == source:
            return
        if _kind(curve.source) == _kind(source):
            folder, shown = _folder(source), _folder(curve.source)
            if folder != shown and folder not in self._noted:
                self._noted.add(folder)
                self.notices.append(
                    tr("{source} has a curve of {name}, too. Only the curve in {shown} is shown.",
                       source=folder, name=name, shown=shown)
                )
            if claim <= curve.claim:
                return
        if curve.claim[0] and not claim[0]:
            return
        rival = self._rivals.setdefault((name, source), Values())
        if reading.step is None and (reached := self._steps.of(source)) is not None:
            reading = replace(reading, step=reached)  # where it would be recorded now
        rival.add(reading)
        if claim[0] or rival.prevails(curve.values, more_reliable=claim > curve.claim):
            yield from self._hand_over(name, source, claim, rival.readings or [reading])

    def _hand_over(
        self, name: str, source: str, claim: SourceClaim, readings: list[Reading]
    ) -> Iterator[MergedReading]:
        """Yield a metric's curve again, as another source gave it."""
        before = self._curves[name]
        self._rivals[name, before.source] = before.values
        self._rivals.pop((name, source), None)
        curve = self._curves[name] = _Curve(source, claim, restarts=True, of_test=before.of_test)
        for each in readings:
            yield from self._take(name, source, _claim(_kind(source), each), each, 1)
        curve.watched = claim > before.claim and not claim[0]

    def _compare(self, name: str, curve: _Curve) -> Iterator[MergedReading]:
        """Yield the curve of a less reliable source, if the one that took it over has too few values."""
        rivals = {key: rival for key, rival in self._rivals.items() if key[0] == name}
        for (_, source), rival in rivals.items():
            claim = _claim(_kind(source), rival.readings[0]) if rival.readings else curve.claim
            if claim < curve.claim and rival.prevails(curve.values, more_reliable=False):
                yield from self._hand_over(name, source, claim, rival.readings)
                return
        if all(curve.values.settled_beside(rival) for rival in rivals.values()):
            curve.watched = False
            for rival in rivals.values():
                rival.drop()

    def _step(self, curve: _Curve, reading: Reading, value: float, left: int) -> int | None:
        """Return the step of a value; None if the curve has the value already."""
        if reading.step is not None:
            return reading.step
        current, last = self._steps.of(curve.source), curve.last
        if current is not None:
            if last is None or current > last:
                return current
            return None if current == last and _is_same(value, curve.value) else last + 1
        if reading.epoch is not None:
            step = self._step_of_epoch(_kind(curve.source), reading.epoch, last or 0, left)
            if step is not None:
                return step
        curve.numbered = True
        number = max(1 if reading.epoch is None else int(reading.epoch), self._numbers.get(curve.source, 0))
        return number if last is None else max(last + 1, number)

    def _step_of_epoch(self, kind: str, epoch: float, last: int, left: int) -> int | None:
        end = self._steps.end_of(kind, int(epoch)) if epoch == int(epoch) else None
        if end is not None and end > last:
            return end
        if self._steps.last is None or self._steps.last <= last:
            return None
        return last + math.ceil((self._steps.last - last) / max(left, 1))

    def _at_steps(self, curve: _Curve) -> list[MergedReading]:
        """Return the values of a curve numbered by epochs at their steps; none unless all steps are known."""
        values = curve.of_epochs or []
        ends = [self._steps.end_of(_kind(curve.source), int(value.epoch or 0)) for value in values]
        steps = [end for end in ends if end is not None]
        if not values or len(steps) < len(ends) or any(one >= other for one, other in pairwise(steps)):
            return []
        moved = [
            replace(value, step=step, restarts=NO_NAMES, counts_epochs=False)
            for value, step in zip(values, steps, strict=True)
        ]
        moved[0] = replace(moved[0], restarts=frozenset(moved[0].values))
        curve.of_epochs, curve.numbered, curve.last = moved, False, steps[-1]
        return moved


def _joined(readings: list[MergedReading]) -> list[MergedReading]:
    """Join the readings of each step to one, in the order of the first reading of each step."""
    if len(readings) < 2:
        return readings
    by_step: dict[int, list[MergedReading]] = {}
    for each in readings:
        by_step.setdefault(_step_of(each), []).append(each)
    return [
        replace(
            of_step[0],
            values={name: value for each in of_step for name, value in each.values.items()},
            restarts=NO_NAMES.union(*[each.restarts for each in of_step]),
        )
        for of_step in by_step.values()
    ]


def _kind(source: str) -> str:
    return source.partition(":")[0]


def _folder(source: str) -> Path:
    return Path(source.partition(":")[2]).parent


def _claim(kind: str, reading: Reading) -> SourceClaim:
    return kind == OWN, reading.step is not None, RELIABILITY[kind]


def _is_of_epoch(reading: Reading) -> bool:
    return reading.step is None and reading.epoch is not None


def _is_beyond(curve: _Curve, reading: Reading) -> bool:
    step = reading.epoch if reading.step is None and curve.numbered else reading.step
    return step is not None and (curve.last is None or step > curve.last)


def _is_same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _step_of(reading: MergedReading) -> int:
    assert reading.step is not None
    return reading.step
