"""Several sources of one program's metrics made into one: every metric has one curve, and no value is in it twice.

The rules:

- **Who tells a metric.** One source at a time. Another takes it over when it is surer, in this order: the file
  named by `TRAINYARD_METRICS`; TensorBoard; tables and JSON lines; the user's expression; the log's text. But of what
  the program itself counts by step a curve by epochs or of numbered lines never takes the place, and a curve by
  step takes the place of such a one, whatever found it (not that of `TRAINYARD_METRICS`: that was meant so).
- **Taking over is beginning anew.** The steps of two sources cannot be trusted to be the same count (one begins at 0,
  another at 1; lines that were numbered count no steps at all), so nothing of the old curve is left beside the new one:
  the first value is marked with `anew`. A source that takes over has told its whole history, from the run's start.
- **Two of a kind** (two event files, say): the first keeps the metric, and `notices` tells of the other. In one folder
  they are one writer's that opened a second file: then what is beyond the last step goes on with the curve.
- **Which step.** The program's, where a reading has one. Without: the step that the same source told last. A value
  of an epoch: the step with which that epoch ended, where a reading told both; else those that came at once are
  spread evenly up to the last step that is known; else they are numbered as the program numbers its epochs, and told
  anew, at their steps, should these become known. Where nothing is known, a metric's values are numbered from 1.
- **Once.** A step that was told is not told again. Of a metric that a source tells by step, its value of an
  epoch is the mean of what was told, and is passed over.
- **Back.** A source that goes back and goes on from there has walked these steps anew (it loaded a checkpoint):
  what it says replaces what was told from there on. For that it must have gone on: a single older value is passed over.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from core.metrics.common.reading import Reading
from core.metrics.common.steps_known import StepsKnown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OWN, TENSORBOARD, CSV, JSON, EXPRESSION, TEXT = "own", "tensorboard", "csv", "json", "expression", "text"
SURENESS = {OWN: 4, TENSORBOARD: 3, CSV: 2, JSON: 2, EXPRESSION: 1, TEXT: 0}
"""By kind of source. A source is named by its kind, or by `kind:path` where it reads one file of several."""
MAX_KEPT = 10_000
"""So many values by epoch are kept in case that their steps become known; a training with more has told by then."""

FARTHEST = 2**53
"""Steps beyond it are no counts; columns of float64 would not keep them apart."""

NO_NAMES: frozenset[str] = frozenset()

SourceClaim = tuple[bool, bool, int]
"""Whether the user asked for it, whether it counts steps, how sure its kind is: the greater tells the metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedReading(Reading):
    """A reading that is to be recorded; it always has a step."""

    anew: frozenset[str] = frozenset()
    """Metrics whose curves begin with this value: what was recorded of them before is void."""


@dataclass(slots=True)
class _Curve:
    """What was told of one metric, and by which source."""

    source: str
    claim: SourceClaim
    begins_anew: bool = False
    last: int | None = None
    value: float = math.nan
    numbered: bool = False
    """Whether its steps are numbers of ours or epochs, as no steps were known."""
    of_epochs: list[MergedReading] | None = field(default_factory=list)
    """All of its values while they are all of epochs; None when they are not."""
    held: MergedReading | None = None
    """A value that goes back, until the next one shows whether the source goes on from there."""


class Merge:
    """Told what every source reads, it says what is to be recorded. Each rank of a run has its own."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        """What was passed over and people may want to know: a sentence each."""
        self._curves: dict[str, _Curve] = {}
        self._steps = StepsKnown()
        self._seen_version = 0

    def take(self, source: str, readings: Iterable[Reading]) -> list[MergedReading]:
        """What is to be recorded of these, in order: a metric's steps rise, but where values replace others.

        `source` is a kind, or `kind:path` of the file it was read from. A reading without metrics only tells where
        training is. Of `done` and `total` nothing is made here. Take what has steps first: the log's text, then files.
        """
        readings = [reading for reading in readings if _is_sound(reading)]
        kind = _kind(source)
        left = Counter(name for reading in readings if _is_of_epoch(reading) for name in reading.values)
        told: list[MergedReading] = []
        for reading in readings:
            self._steps.learn(kind, source, reading)
            claim = _claim(kind, reading)
            if self._all_go_on(source, claim, reading):
                told.append(
                    MergedReading(values=reading.values, step=reading.step, epoch=reading.epoch, time=reading.time)
                )
                continue
            taken = (self._take(name, source, claim, reading, left.get(name, 0)) for name in reading.values)
            told += _joined([each for of_name in taken for each in of_name])
            if _is_of_epoch(reading):
                left.subtract(reading.values.keys())
        return told + self._placed_anew()

    def _all_go_on(self, source: str, claim: SourceClaim, reading: Reading) -> bool:
        """Whether all metrics of a reading simply go on with their curves, as nearly all do; then they have done so."""
        step = reading.step
        if step is None or not reading.values:
            return False
        curves = [(self._curves.get(name), value) for name, value in reading.values.items()]
        for curve, _ in curves:
            if curve is None or curve.source != source or curve.claim != claim or curve.begins_anew:
                return False
            if curve.last is not None and step <= curve.last:
                return False
        for curve, value in curves:
            assert curve is not None
            curve.last, curve.value, curve.held, curve.of_epochs = step, value, None, None
        return True

    def _take(self, name: str, source: str, claim: SourceClaim, reading: Reading, left: int) -> Iterator[MergedReading]:
        """What is to be recorded of one metric: nothing, a value, or two where the first had been held back.

        `left`: how many of its values of epochs have come at once, from this one on.
        """
        curve = self._curve(name, source, claim, reading)
        step = None if curve is None else self._step(curve, reading, reading.values[name], left)
        if curve is None or step is None:
            return
        value = MergedReading(
            values={name: reading.values[name]},
            step=step,
            epoch=reading.epoch,
            time=reading.time,
            anew=frozenset({name}) if curve.begins_anew else NO_NAMES,
        )
        if curve.last is not None and step <= curve.last:
            if curve.held is None or _step_of(curve.held) >= step:
                curve.held = value if step < curve.last else curve.held
                return
            yield curve.held
        curve.last, curve.value, curve.begins_anew, curve.held = step, reading.values[name], False, None
        _keep(curve, value if _is_of_epoch(reading) else None)
        yield value

    def _curve(self, name: str, source: str, claim: SourceClaim, reading: Reading) -> _Curve | None:
        """The curve that this reading of a metric begins or goes on with; None when it is passed over."""
        curve = self._curves.get(name)
        if curve is not None and curve.source == source and curve.claim == claim:
            return curve
        if curve is None:
            curve = self._curves[name] = _Curve(source, claim)
        elif curve.source == source:
            if _is_of_epoch(reading) and curve.claim > claim:
                return None
            if claim > curve.claim and curve.numbered and not _is_beyond(curve, reading):
                curve = self._curves[name] = _Curve(source, claim, begins_anew=True)
            curve.claim = max(curve.claim, claim)
        elif claim > curve.claim:
            curve = self._curves[name] = _Curve(source, claim, begins_anew=True)
        elif claim == curve.claim and _folder(source) == _folder(curve.source) and _is_beyond(curve, reading):
            curve.source, curve.held = source, None  # the writer opened a second file
        else:
            self._note(name, curve.source, source)
            return None
        return curve

    def _step(self, curve: _Curve, reading: Reading, value: float, left: int) -> int | None:
        """Where the curve goes on; None when it has the value already."""
        if reading.step is not None:
            return reading.step
        at, last = self._steps.of(curve.source), curve.last
        if at is not None:
            if last is None or at > last:
                return at
            return None if at == last and _is_same(value, curve.value) else last + 1
        if reading.epoch is not None:
            step = self._step_of_epoch(_kind(curve.source), reading.epoch, last or 0, left)
            if step is not None:
                return step
        curve.numbered = True
        number = 1 if reading.epoch is None else int(reading.epoch)
        return number if last is None else max(last + 1, number)

    def _step_of_epoch(self, kind: str, epoch: float, last: int, left: int) -> int | None:
        end = self._steps.end_of(kind, int(epoch)) if epoch == int(epoch) else None
        if end is not None and end > last:
            return end
        if self._steps.last is None or self._steps.last <= last:
            return None
        return last + math.ceil((self._steps.last - last) / max(left, 1))

    def _placed_anew(self) -> list[MergedReading]:
        """The curves that were numbered by epochs, of which the steps have become known by now."""
        if self._seen_version == self._steps.version:
            return []
        self._seen_version = self._steps.version
        return [each for curve in self._curves.values() if curve.numbered for each in self._placed(curve)]

    def _placed(self, curve: _Curve) -> list[MergedReading]:
        values = curve.of_epochs or []
        ends = [self._steps.end_of(_kind(curve.source), int(value.epoch or 0)) for value in values]
        steps = [end for end in ends if end is not None]
        if not values or len(steps) < len(ends) or any(one >= other for one, other in pairwise(steps)):
            return []
        told = [replace(value, step=step, anew=frozenset()) for value, step in zip(values, steps, strict=True)]
        told[0] = replace(told[0], anew=frozenset(told[0].values))
        curve.of_epochs, curve.numbered, curve.last = told, False, steps[-1]
        return told

    def _note(self, name: str, shown: str, source: str) -> None:
        """Two of a kind in two folders: people should know that there is another curve."""
        if _kind(shown) != _kind(source) or _folder(shown) == _folder(source):
            return
        beginning = f"{_folder(source)} has a curve of"
        if not any(notice.startswith(beginning) for notice in self.notices):
            self.notices.append(f"{beginning} {name}, too. Shown is the one of {_folder(shown)}.")


def _keep(curve: _Curve, value: MergedReading | None) -> None:
    if value is None or curve.of_epochs is None or len(curve.of_epochs) >= MAX_KEPT:
        curve.of_epochs = None
    else:
        curve.of_epochs.append(value)


def _joined(told: list[MergedReading]) -> list[MergedReading]:
    """Those of one step as one, in the order in which the steps came."""
    if len(told) < 2:
        return told
    by_step: dict[int, list[MergedReading]] = {}
    for each in told:
        by_step.setdefault(_step_of(each), []).append(each)
    return [each[0] if len(each) == 1 else _as_one(each) for each in by_step.values()]


def _as_one(told: list[MergedReading]) -> MergedReading:
    first = told[0]
    values = {name: value for each in told for name, value in each.values.items()}
    anew = first.anew.union(*[each.anew for each in told])
    return MergedReading(values=values, step=first.step, epoch=first.epoch, time=first.time, anew=anew)


def _kind(source: str) -> str:
    return source.partition(":")[0]


def _folder(source: str) -> Path:
    return Path(source.partition(":")[2]).parent


def _claim(kind: str, reading: Reading) -> SourceClaim:
    return kind == OWN, reading.step is not None, SURENESS[kind]


def _is_of_epoch(reading: Reading) -> bool:
    return reading.step is None and reading.epoch is not None


def _is_beyond(curve: _Curve, reading: Reading) -> bool:
    return reading.step is not None and (curve.last is None or reading.step > curve.last)


def _is_sound(reading: Reading) -> bool:
    """Whether its counts are such; a source says what it read, not that it makes sense."""
    return abs(reading.step or 0) < FARTHEST and abs(reading.epoch or 0) < FARTHEST


def _is_same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _step_of(told: MergedReading) -> int:
    assert told.step is not None
    return told.step
