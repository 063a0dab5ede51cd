"""Read metrics from a program's output: parse its lines and complete them with what earlier lines said.

Each reading is returned once. The reading of a progress bar is returned one redraw late, when the bar has advanced.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from core.language import tr
from core.metrics.common.reading import IN_VALIDATION
from core.metrics.dialects import pairs
from core.metrics.dialects.registry import BARS, PAIRS, STANDING, TABLES, statement_of
from core.metrics.rules.rule_set import RuleSet
from core.metrics.text.expression import Matcher
from core.metrics.text.open_table import OpenTable
from core.metrics.text.position import PositionTracker
from core.metrics.text.printed_lines import PrintedLines, holds
from core.metrics.text.progress_bars import ProgressBars
from core.metrics.text.roles import Roles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from core.metrics.common.reading import Reading
    from core.metrics.dialects.registry import Statement
    from core.metrics.rules.rule import Rule
    from core.metrics.text.expression import Expression
    from core.metrics.text.printed_lines import PrintedLine


class LogReader:
    """Takes a log's bytes as they come, cut anywhere, and returns their readings in order."""

    def __init__(self, expression: Expression | None = None, *, rules: Sequence[Rule] = ()) -> None:
        """`expression`: the user's, replaces the dialects until it is disabled. Call `end` then: it ends a process.

        `rules`: the user's; they win over the dialects, but are not used together with an expression.
        """
        self._rules = RuleSet(rules) if rules and expression is None else None
        self._taught: Reading | None = None  # what the rules say about the line at hand
        words = self._rules.words if self._rules else ()
        self._needs_all = expression is not None or words is None
        self._lines = PrintedLines(all_of_them=self._needs_all, words=words or ())
        self._matcher = Matcher(expression) if expression else None
        self._position = PositionTracker()
        self._bars = ProgressBars(self._position)
        self._table = OpenTable()
        self._roles = Roles()
        self._seen = self._found = 0  # lines for the expression, and those in which it found a number
        self._ended = self._validation_next = False
        self._headings_of_training = 0
        self._estimated: int | None = None  # the last step with a training and a validation loss in one line
        self._estimates = False  # whether that training loss is an estimate, not the step's
        self._standing: float | None = None  # the loss of the last validation
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
        held = [*self._bars.end(), *self._table.end()]
        return [*readings, *self._new(self._roles.take(held)), *self._new(self._roles.end())]

    def _read(self, lines: Iterable[PrintedLine]) -> list[Reading]:
        if self._matcher and not self._matcher.problem:
            return list(self._matched(self._matcher, lines))
        if self._rules:
            return [reading for line in lines for reading in self._ruled(self._rules, line)]
        return [reading for line in lines for reading in self._new(self._roles.take(self._line(line)))]

    def _ruled(self, rules: RuleSet, line: PrintedLine) -> Iterator[Reading]:
        """Yield what the dialects read in the part of a line that the rules leave them, then what the rules say."""
        text, self._taught = rules.taught(line.text)
        readings: list[Reading] = []
        if self._table.is_open or holds(text.encode()):
            readings = [_at(reading, rules.step_of) for reading in self._line(line._replace(text=text))]
        yield from self._new(self._roles.take(readings))
        if self._taught is not None:  # not a bar's, which were taken with the bar
            step = next((reading.step for reading in readings if reading.step is not None), None)
            yield from self._new([self._position.stepped(_at(self._taught, lambda _: step))])

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
            if reading.values or (place != self._place and place[0] is not None) or self._is_new_epoch(reading):
                yield reading
                self._place = place if reading.done is not None else (*self._place[:3], reading.epoch)

    def _is_new_epoch(self, reading: Reading) -> bool:
        return reading.done is None and reading.epoch not in {None, self._place[3]}

    def _line(self, line: PrintedLine) -> list[Reading]:
        if not self._table.is_open:
            return self._untabled(line)
        taken = self._table.take(line)
        readings = [*self._bars.release(), *map(self._position.stepped, taken.readings)] if taken.readings else []
        if not taken.is_row:
            readings += self._untabled(line)
        self._lines.all_of_them = self._needs_all or self._table.is_open
        return readings

    def _untabled(self, line: PrintedLine) -> list[Reading]:
        """Return what a line says that is no row of a table."""
        statement = statement_of(line.text)
        after_heading = self._is_after_heading(statement)
        if statement.dialect == TABLES:
            self._table.begin(line.text)
            self._lines.all_of_them = self._needs_all or self._table.is_open
        if statement.reading is None:
            return []
        if statement.dialect == BARS:
            return self._bars.draw(line, statement, self._with_taught(statement.reading))
        complete = self._bars.release()
        reading = pairs.as_validation(statement.reading) if after_heading else statement.reading
        if statement.dialect == PAIRS:
            return [*complete, self._pairs(statement, reading)]
        if statement.dialect == STANDING:
            reading = self._without_standing(reading)
        if reading.unit == "steps" and reading.step is None and reading.epoch is not None:
            return [*complete, self._position.within(reading, statement.epochs)]
        return [*complete, *self._bars.awaiting_step(self._position.stepped(reading))]

    def _is_after_heading(self, statement: Statement) -> bool:
        """Return whether a heading says that this line is about a validation.

        It holds for one line; in a program that also has headings of its training again and again, until the next one
        or a line with a place in the training.
        """
        reading, after = statement.reading, self._validation_next
        has_place = reading is not None and (reading.step, reading.epoch, reading.done) != (None, None, None)
        self._headings_of_training += statement.heading == pairs.TRAINING
        if statement.heading or has_place or self._headings_of_training < 2:
            self._validation_next = statement.heading == pairs.VALIDATION_NEXT
        return after and (not has_place or self._headings_of_training < 2)

    def _without_standing(self, reading: Reading) -> Reading:
        """Remove the loss of the last validation, which LitGPT repeats in each line with fewer digits."""
        value = reading.values.get("val_loss")
        if value is None or (self._standing is not None and math.isclose(value, self._standing, abs_tol=5.1e-4)):
            return replace(reading, values={name: each for name, each in reading.values.items() if name != "val_loss"})
        self._standing = value
        return reading

    def _with_taught(self, reading: Reading) -> Reading:
        """Return a bar's reading with what the rules say about its line: a value that a redraw repeats is one value."""
        taught, self._taught = self._taught, None
        return reading if taught is None else replace(reading, values={**reading.values, **taught.values})

    def _pairs(self, statement: Statement, reading: Reading) -> Reading:
        if not reading.values and reading.epoch is not None and reading.unit != "steps":
            return self._position.announce(reading, statement.epochs, over=statement.over)
        placed = self._position.place(reading, statement.epochs)
        if placed.values and placed.total is not None and placed.unit != IN_VALIDATION:
            self._bars.leave_progress_to_lines(placed.unit or "steps")
        return self._without_estimates(placed)

    def _without_estimates(self, reading: Reading) -> Reading:
        """Remove estimated training losses.

        nanoGPT prints `step 100: train loss 2.8, val loss 2.7` and `iter 100: loss 2.6`. Once one step has occurred in
        both lines, the training loss in the first is an estimate over several batches, not a second value.
        """
        values = reading.values
        if "loss" not in values:
            self._standing = values.get("val_loss", self._standing)
            return reading
        if "val_loss" not in values:
            self._estimates |= reading.step is not None and reading.step == self._estimated
        elif self._estimates:
            return replace(reading, values={name: each for name, each in values.items() if f"val_{name}" not in values})
        else:
            self._estimated = reading.step
        return reading


def _at(reading: Reading, step_of: Callable[[Collection[str]], int | None]) -> Reading:
    """Return a reading at the step for its metrics, unless it says itself where it belongs."""
    if reading.step is not None or reading.done is not None or not reading.values:
        return reading
    return replace(reading, step=step_of(reading.values.keys()))
