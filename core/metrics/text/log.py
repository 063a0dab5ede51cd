"""What a program prints, as readings: its lines, in the dialects, with what was said before.

A reading is given once. Of a bar that is redrawn it is given when the bar has gone on: one redraw late.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from core.metrics.dialects import pairs
from core.metrics.text.barring import Bars
from core.metrics.text.expression import Matcher
from core.metrics.text.position import PositionTracker
from core.metrics.text.shapes import Shapes
from core.metrics.text.statement import BARS, PAIRS
from core.metrics.text.text import PrintedLines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from core.metrics.common.reading import Reading
    from core.metrics.text.expression import Expression
    from core.metrics.text.statement import Statement
    from core.metrics.text.text import PrintedLine


class LogReader:
    """Takes a log's bytes as they come, cut anywhere, and gives what they say, in their order."""

    def __init__(
        self, expression: Expression | None = None, *, state: Callable[[str], Statement] | None = None
    ) -> None:
        """`expression`: the user's own, in place of the dialects until it is given up. `end` must be called then: it
        ends a process.

        `state`: says what a line says; without, it is `statement.state`, with the shapes of lines learned.
        """
        self._state = state or Shapes().state
        self._lines = PrintedLines(all_of_them=expression is not None)
        self._matcher = Matcher(expression) if expression else None
        self._position = PositionTracker()
        self._bars = Bars(self._position)
        self._seen = self._found = 0  # lines that the expression was tried on, and such as it found a number in
        self._ended = self._validation_next = False
        self._estimated: int | None = None  # the last step of which a training and a validation loss were told together
        self._estimates = False  # and whether that training loss was none of the step's
        self._place: tuple[float | None, float | None, str, float | None] = (None, None, "", None)

    @property
    def problem(self) -> str | None:
        """Why the user's expression is not used any more, or was of no use, in a sentence; None while it is."""
        if self._matcher is None or self._matcher.problem or not (self._ended and self._seen) or self._found:
            return self._matcher.problem if self._matcher else None
        return (
            f"The expression found nothing in the {self._seen} lines that were printed, so no curve was read from "
            "them. Try another on this log (trainyard try), or leave it out: most programs are understood without."
        )

    def take(self, data: bytes) -> list[Reading]:
        """What is known now that these bytes have come, too."""
        return self._read(self._lines.take(data))

    def end(self) -> list[Reading]:
        """What was held back, when nothing more will come."""
        given = self._read(self._lines.end())
        self._ended = True
        if self._matcher:
            self._matcher.close()
        return [*given, *self._new(self._bars.end())]

    def _read(self, lines: list[PrintedLine]) -> list[Reading]:
        if self._matcher and not self._matcher.problem:
            return list(self._expressed(self._matcher, lines))
        return [reading for line in lines for reading in self._new(self._line(line))]

    def _expressed(self, matcher: Matcher, lines: list[PrintedLine]) -> Iterator[Reading]:
        """What the user's expression finds; steps that begin anew with an epoch are counted on."""
        self._seen += len(lines)
        for groups in matcher.match([line.text for line in lines]):
            reading = matcher.expression.reading(groups) if groups else None
            if reading is not None:
                self._found += 1
                within = reading.unit == "steps" and reading.epoch is not None
                position = self._position
                yield position.within(replace(reading, step=None), None) if within else position.stepped(reading)

    def _new(self, readings: list[Reading]) -> Iterator[Reading]:
        """Those that say something that the one before did not say."""
        for reading in readings:
            place = (reading.done, reading.total, reading.unit, reading.epoch)
            if reading.values or (place != self._place and place[0] is not None) or self._epoch_alone(reading):
                yield reading
                self._place = place if reading.done is not None else (*self._place[:3], reading.epoch)

    def _epoch_alone(self, reading: Reading) -> bool:
        return reading.done is None and reading.epoch not in {None, self._place[3]}

    def _line(self, line: PrintedLine) -> list[Reading]:
        after_heading = self._validation_next
        said = self._state(line.text)
        self._validation_next = said.heading
        if said.reading is None:
            return []
        if said.dialect == BARS:
            return self._bars.draw(line, said, said.reading)
        given = self._bars.release()
        reading = pairs.as_validation(said.reading) if after_heading else said.reading
        if said.dialect != PAIRS:
            return [*given, *self._bars.awaiting_step(self._position.stepped(reading))]
        return [*given, self._pairs(said, reading)]

    def _pairs(self, said: Statement, reading: Reading) -> Reading:
        if not reading.values and reading.epoch is not None and reading.unit != "steps":
            return self._position.announce(reading, said.epochs, over=said.over)
        return self._without_estimates(self._position.place(reading, said.epochs))

    def _without_estimates(self, reading: Reading) -> Reading:
        """nanoGPT's `step 100: train loss 2.8, val loss 2.7` stands beside `iter 100: loss 2.6`, which is that step's.

        Once the same step was told in both ways, the former is an estimate over several batches, and no second value.
        """
        values = reading.values
        if "loss" not in values:
            return reading
        if "val_loss" not in values:
            self._estimates |= reading.step is not None and reading.step == self._estimated
        elif self._estimates:
            return replace(reading, values={name: each for name, each in values.items() if f"val_{name}" not in values})
        else:
            self._estimated = reading.step
        return reading
