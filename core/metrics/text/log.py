"""Read metrics from a program's output: parse its lines and complete them with what earlier lines said.

Each reading is returned once. The reading of a progress bar is returned one redraw late, when the bar has advanced.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from core.language import tr
from core.metrics.dialects.registry import BARS
from core.metrics.rules.rule_set import RuleSet
from core.metrics.text.expression import Matcher
from core.metrics.text.open_table import OpenTable
from core.metrics.text.position import PositionTracker
from core.metrics.text.printed_lines import PrintedLines, holds
from core.metrics.text.progress_bars import ProgressBars
from core.metrics.text.roles import Headings, RepeatedLosses, Roles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from core.metrics.common.reading import Reading
    from core.metrics.dialects.registry import Statement
    from core.metrics.rules.rule import Rule
    from core.metrics.text.expression import Expression
    from core.metrics.text.printed_lines import PrintedLine


class Stage(Protocol):
    """One step between a line and its readings. It remembers what the lines before have said."""

    def take(self, line: PrintedLine, statement: Statement, /) -> Statement:
        """Return what is known of a line after this stage."""


class LogReader:
    """Takes a log's bytes as they come, cut anywhere, and returns their readings in order.

    `OpenTable` says what a line means, each stage completes it, and `Roles` leaves out what is not to be recorded.
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
        self._bars = ProgressBars(self._position)
        self._stages: tuple[Stage, ...] = (Headings(), self._bars, RepeatedLosses())
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
        held = [*self._bars.end(), *self._table.end()]
        return [*readings, *self._new(self._roles.take(held)), *self._new(self._roles.end())]

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
        for stage in self._stages:
            statement = stage.take(line, statement)
        return statement.readings

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
