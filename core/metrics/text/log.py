"""Read metrics from a program's output: parse its lines and complete them with what earlier lines said.

Each reading is returned once. The reading of a progress bar is returned one redraw late, when the bar has advanced.

What a reading is of, the training, a validation, a mean that repeats other values or settings, a line alone does not
say. The lines before it do:

- **Headings.** `Validating...` says what the lines after it are about.
- **Losses that repeat.** A line may have an estimate beside the values of the steps, or the last validation once more.
- **Means of an epoch.** Once a metric has come with a place within an epoch, its values without one are means of these,
  unless they come again and again with no other value between them.
- **Batches of a validation.** Of the lines that count through a validation pass the last one is kept, until something
  else comes. A summary after it has the better values for the names that it has.
- **Settings.** A learning rate is only a setting before the first metric or the first place in the training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from core.language import tr
from core.metrics.dialects import pairs
from core.metrics.reading import IN_VALIDATION, OF_BAR, OF_VALIDATION, Reading, canonical, certainty
from core.metrics.rules import Rule, RuleSet
from core.metrics.text.expression import Expression, Matcher
from core.metrics.text.position import PositionTracker
from core.metrics.text.printed_lines import PrintedLine, PrintedLines, holds
from core.metrics.text.progress_bars import ProgressBars
from core.metrics.text.statements import BARS, PAIRS, ROW, STANDING, OpenTable, Statement


class LogReader:
    """Takes a log's bytes as they come, cut anywhere, and returns their readings in order.

    `OpenTable` says what a line means; headings, bars and repeated losses, which remember the lines before, complete
    it; `Roles` leaves out what is not to be recorded.
    """

    def __init__(self, expression: Expression | None = None, *, rules: Sequence[Rule] = ()) -> None:
        """`expression`: the user's, replaces the dialects until it is disabled. Call `end` then: it ends a process.

        `rules`: the user's; they win over the dialects, but are not used together with an expression.
        """
        self._rules = RuleSet(rules) if rules and expression is None else None
        words = self._rules.words if self._rules else ()
        self._needs_all = expression is not None or words is None
        self._lines = PrintedLines(all_of_them=self._needs_all, words=words or ())
        self._matcher = Matcher(expression) if expression else None
        self._table, self._position, self._roles = OpenTable(), PositionTracker(), Roles()
        self._headings, self._bars, self._repeated = Headings(), ProgressBars(self._position), RepeatedLosses()
        self._seen = self._found = 0  # lines for the expression, and those in which it found a number
        self._ended = False
        self._place: tuple[float | None, float | None, str, float | None] = (None, None, "", None)

    @property
    def problem(self) -> str | None:
        """A sentence that says why the user's expression was disabled or found nothing; None otherwise."""
        if self._matcher is None or self._matcher.problem or not (self._ended and self._seen) or self._found:
            return self._matcher.problem if self._matcher else None
        return tr(
            "The expression found nothing in the {seen} printed lines, so there is no curve. "
            "Try another on this log (trainyard try), or remove it: the output of most programs needs no expression.",
            seen=self._seen,
        )

    @property
    def about_rules(self) -> list[str]:
        """Sentences on rules that match nothing or contradict each other, once the log has ended."""
        return self._rules.problems if self._rules and self._ended else []

    def take(self, data: bytes) -> list[Reading]:
        """Take more bytes, and return the readings that are complete now."""
        return self._read(self._lines.take(data))

    def end(self) -> list[Reading]:
        """Return the held readings, after all bytes have come."""
        readings = self._read(self._lines.end())
        self._ended = True
        if self._matcher:
            self._matcher.close()
        last = [each for statement in self._table.end() for each in self._staged(PrintedLine(""), statement)]
        held = [*last, *self._bars.end()]
        completed = self._position.completed()
        readings += [*self._new(self._roles.take(held)), *self._new(self._roles.end())]
        return [*readings, *([completed] if completed else [])]

    def _read(self, lines: Iterable[PrintedLine]) -> list[Reading]:
        if self._matcher and not self._matcher.problem:
            return list(self._matched(self._matcher, lines))
        if self._rules:
            return [reading for line in lines for reading in self._ruled(self._rules, line)]
        return [
            reading
            for line in lines
            for statement in self._table.take(line)
            for reading in self._new(self._roles.take(self._staged(line, statement)))
        ]

    def _staged(self, line: PrintedLine, statement: Statement) -> list[Reading]:
        """Return the readings that are complete with a statement."""
        self._lines.all_of_them = self._needs_all or self._table.is_open
        said = self._repeated.take(self._bars.take(line, self._headings.take(statement)))
        return [*said.earlier] if said.reading is None else [*said.earlier, said.reading]

    def _ruled(self, rules: RuleSet, line: PrintedLine) -> Iterator[Reading]:
        """Yield what the dialects read in the part of a line that the rules leave them, then what the rules say."""
        text, taught = rules.taught(line.text)
        line = line._replace(text=text)
        readings: list[Reading] = []
        for said in self._table.take(line) if self._table.is_open or holds(text.encode()) else ():
            statement = said
            if taught is not None and said.dialect == BARS and said.reading is not None:
                # The bar takes these values, too: a value that its redraws repeat is one value.
                values, taught = {**said.reading.values, **taught.values}, None
                statement = said._replace(reading=replace(said.reading, values=values))
            readings += [_at(reading, rules.step_of) for reading in self._staged(line, statement)]
        yield from self._new(self._roles.take(readings))
        if taught is not None:
            step = next((reading.step for reading in readings if reading.step is not None), None)
            yield from self._new([self._position.stepped(_at(taught, lambda _: step))])

    def _matched(self, matcher: Matcher, lines: Iterable[PrintedLine]) -> Iterator[Reading]:
        """Yield what the user's expression finds; steps that restart with each epoch are made continuous."""
        texts = [line.text for line in lines]
        self._seen += len(texts)
        for groups in matcher.match(texts):
            reading = matcher.expression.reading(groups) if groups else None
            if reading is not None:
                self._found += 1
                within = reading.unit == "steps" and reading.epoch is not None
                position = self._position
                yield position.within(replace(reading, step=None), None) if within else position.stepped(reading)

    def _new(self, readings: Iterable[Reading]) -> Iterator[Reading]:
        """Yield the readings that add something to the one before."""
        for reading in readings:
            place = (reading.done, reading.total, reading.unit, reading.epoch)
            is_new = reading.epoch not in {None, self._place[3]} if reading.done is None else place != self._place
            if reading.values or is_new:
                yield reading
                self._place = place if reading.done is not None else (*self._place[:3], reading.epoch)


def _at(reading: Reading, step_of: Callable[[Collection[str]], int | None]) -> Reading:
    """Return a reading at the step for its metrics, unless it says itself where it belongs."""
    if reading.step is not None or reading.done is not None or not reading.values:
        return reading
    return replace(reading, step=step_of(reading.values.keys()))


TOP = re.compile(r"(.*\b(?:val_)?(?:acc|top|accuracy|prec|err))(@?)(\d{1,3})")
"""`acc1` and `acc@1` are one metric."""
MANY_MEANS = 3
"""So many values without a place, one after another, are no means."""


@dataclass(slots=True)
class Headings:
    """What the headings of a log say about the lines after them.

    A heading holds for one line. In a program that prints headings of its training again and again, it holds until the
    next heading or until a line with a place in the training.
    """

    _validation_next: bool = False
    _of_training: int = 0

    def take(self, statement: Statement) -> Statement:
        """Return the statement, with the names of a validation if a heading says so."""
        if statement.dialect == ROW:
            return statement
        reading, after = statement.reading, self._validation_next
        has_place = reading is not None and (reading.step, reading.epoch, reading.done) != (None, None, None)
        self._of_training += statement.heading == pairs.TRAINING
        if statement.heading or has_place or self._of_training < 2:
            self._validation_next = statement.heading == pairs.VALIDATION_NEXT
        if reading is None or statement.dialect == BARS or not after or (has_place and self._of_training >= 2):
            return statement
        return statement._replace(reading=pairs.as_validation(reading))


@dataclass(slots=True)
class RepeatedLosses:
    """Removes the losses that a program repeats in other lines. Takes statements with the steps of the training.

    nanoGPT prints `step 100: train loss 2.8, val loss 2.7` and `iter 100: loss 2.6`. Once one step has occurred in both
    lines, the training loss in the first is an estimate over several batches, not a second value. LitGPT repeats the
    loss of the last validation in each line, with fewer digits.
    """

    _estimated: int | None = None  # the last step with a training and a validation loss in one line
    _estimates: bool = False
    _validated: bool = False  # a validation has been told

    def take(self, statement: Statement) -> Statement:
        """Return the statement without such losses."""
        reading = statement.reading
        if reading is None or statement.dialect not in {PAIRS, STANDING}:
            return statement
        repeated = self._estimates_of(reading) if statement.dialect == PAIRS else self._validation_of(reading)
        if not repeated:
            return statement
        values = {name: value for name, value in reading.values.items() if name not in repeated}
        return statement._replace(reading=replace(reading, values=values))

    def _estimates_of(self, reading: Reading) -> Collection[str]:
        values = reading.values
        if "loss" not in values:
            self._validated |= "val_loss" in values
        elif "val_loss" not in values:
            self._estimates |= reading.step is not None and reading.step == self._estimated
        elif self._estimates:
            return [name for name in values if f"val_{name}" in values]
        else:
            self._estimated = reading.step
        return ()

    def _validation_of(self, reading: Reading) -> Collection[str]:
        told, self._validated = self._validated, self._validated or "val_loss" in reading.values
        return ("val_loss",) if told else ()


@dataclass(slots=True)
class Roles:
    """Takes the readings of one log in order and returns those to record."""

    _begun: bool = False
    _within_epochs: dict[str, int] = field(default_factory=dict)  # metrics that came with a place within an epoch, and
    # how many values without one have come since
    _pass: Reading | None = None  # the last reading of a validation pass
    _kinds: dict[str, str] = field(default_factory=dict)  # of each name: the words that it leaves out
    _at_sign: str | None = None  # between `acc` and `1`, as the program wrote it first

    def take(self, readings: Iterable[Reading]) -> Iterator[Reading]:
        """Yield the readings to record."""
        for reading in map(self._respelled, readings):
            if reading.unit == IN_VALIDATION:
                yield from self._count_pass(reading)
                continue
            if self._pass is not None and (reading.values or reading.epoch is not None):
                yield from self._end_pass(besides=reading.values)
            self._begun = self._begun or self._begins(reading)
            if reading.values and not self._begun and all(certainty(name) == "plain" for name in reading.values):
                continue  # settings, and no result of an evaluation alone
            yield self._without_means(reading)

    def end(self) -> Iterator[Reading]:
        """Yield what the end of the log completes: a validation pass, unless it was under way."""
        held = self._pass
        if held is not None and held.done is not None and held.total is not None and held.done + 1 >= held.total:
            yield from self._end_pass()

    def _count_pass(self, reading: Reading) -> Iterator[Reading]:
        held = self._pass
        if held is not None and (reading.done or 0) < (held.done or 0):
            yield from self._end_pass()
            held = None
        if held is not None:
            reading = replace(reading, values={**held.values, **reading.values}, step=held.step, epoch=held.epoch)
        if reading.values:
            self._begun, self._pass = True, reading

    def _end_pass(self, besides: Iterable[str] = ()) -> Iterator[Reading]:
        """Yield the held reading, without the metrics that a summary gives."""
        held, self._pass = self._pass, None
        assert held is not None
        values = {name: value for name, value in held.values.items() if name not in besides}
        if values:
            yield replace(held, values=values, done=None, total=None, unit="")

    def _begins(self, reading: Reading) -> bool:
        """Return whether a reading is of a training that has begun, and not of settings."""
        if reading.step is not None or reading.epoch is not None or reading.done is not None:
            return True
        return any(
            certainty(name) in {"known", "cautious"} and not name.startswith(OF_VALIDATION) for name in reading.values
        )

    def _without_means(self, reading: Reading) -> Reading:
        values, within = reading.values, self._within_epochs
        if reading.unit == OF_BAR:
            return replace(reading, unit="")
        if reading.step is not None or (reading.done is not None and reading.unit != "epochs"):
            within.update(dict.fromkeys(values, 0))
            return reading
        if within.keys().isdisjoint(values):
            return reading
        return replace(reading, values={name: value for name, value in values.items() if not self._is_mean(name)})

    def _is_mean(self, name: str) -> bool:
        """Return whether a value without a place within an epoch is a mean of those with one."""
        if name.startswith(OF_VALIDATION) or name not in self._within_epochs:
            return False
        self._within_epochs[name] += 1
        if self._within_epochs[name] < MANY_MEANS:
            return True
        del self._within_epochs[name]
        return False

    def _respelled(self, reading: Reading) -> Reading:
        """Return the reading with `acc1` written as the first such name of the log.

        What a name leaves out tells it from another of this name: `Content Loss`, and on other lines `Texture Loss`.
        """
        values = {}
        for printed, value in reading.values.items():
            name, kind = self._spelled(printed), reading.kinds.get(printed, "")
            if not kind or self._kinds.setdefault(name, kind) == kind:
                values[name] = value
                self._kinds[name] = kind
            else:
                phase = OF_VALIDATION if name.startswith(OF_VALIDATION) else ""
                values[phase + canonical(f"{kind} {name.removeprefix(phase)}")] = value
        return replace(reading, values=values)

    def _spelled(self, name: str) -> str:
        parts = _top(name)
        if parts is None:
            return name
        self._at_sign = parts[1] if self._at_sign is None else self._at_sign
        return f"{parts[0]}{self._at_sign}{parts[2]}"


@lru_cache(maxsize=1024)
def _top(name: str) -> tuple[str, str, str] | None:
    """Return `acc`, the sign and the number of a name such as `acc@1`; None for another name."""
    match = TOP.fullmatch(name)
    return (match[1], match[2], match[3]) if match else None
