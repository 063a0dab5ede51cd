"""The bars of a log: which of them is the training's, and what each of their redraws says.

Several can be on the screen: of data that is prepared, of an evaluation in between, one over epochs around one over
steps. The training's is the longest of those that show metrics, or of all where none does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from core.metrics.dialects import bars, pairs
from core.metrics.text.redraws import Bar

if TYPE_CHECKING:
    from core.metrics.common.reading import Reading
    from core.metrics.text.position import PositionTracker
    from core.metrics.text.statement import Statement
    from core.metrics.text.text import PrintedLine

MOST = 32
"""Bars that are remembered at a time."""
PATIENCE = 8
"""A dictionary without a step waits for so many redraws of bars for one that says it."""
Title = tuple[str, float | None]
"""A bar's name, and of how many it counts."""
KERAS: Title = (bars.KERAS_BAR, None)
NONE: Title = ("", None)


class Bars:
    """All bars of a log, by their titles."""

    def __init__(self, position: PositionTracker) -> None:
        """`position` learns from the bars how far the training is."""
        self._position = position
        self._bars: dict[Title, Bar] = {}
        self._main = NONE
        self._size: tuple[bool, float] = (False, 0)  # of the main bar: whether it shows metrics, and of how many steps
        self._waiting: list[Reading] = []
        self._patience = 0

    def draw(self, line: PrintedLine, said: Statement, reading: Reading) -> list[Reading]:
        """A bar is drawn anew, and its line has said `reading`: what is known now."""
        keras, title = said.bar == bars.KERAS_BAR, (said.bar, said.length)
        given = self.release(but=title)
        if not keras and reading.done is not None and reading.unit != "epochs":
            self._weigh(title, reading)
        given += self._answered(title, reading)
        bar = self._bar(title, repeats=not keras)
        if "poch" in line.text:
            bar.epochs = said.epochs
        given += self._placed(title, bar, bar.draw(reading))
        if not line.redrawn:
            given += self._placed(title, bar, bar.release())
            self._ended(title, reading)
        return given

    def release(self, but: Title = NONE) -> list[Reading]:
        """What is held of all bars but one: something else was printed, and they are not drawn at that place again."""
        return [
            reading
            for title, bar in self._bars.items()
            if title != but
            for reading in self._placed(title, bar, bar.release())
        ]

    def awaiting_step(self, reading: Reading) -> list[Reading]:
        """A dictionary's reading. The Hugging Face trainer prints no step in it, and its bar, drawn anew just behind,
        says it: then the reading is held until the bar has come."""
        given = self._gone_on() if self._waiting else []
        if reading.step is not None or not reading.values or self._main == NONE or self._position.epoch is not None:
            return [*given, reading]
        self._waiting, self._patience = [reading], PATIENCE
        return given

    def end(self) -> list[Reading]:
        """What is held."""
        return [*self._gone_on(), *self.release()]

    def _gone_on(self) -> list[Reading]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _answered(self, title: Title, reading: Reading) -> list[Reading]:
        """What waited for a step, when it has come, or when the patience is over."""
        if not self._waiting:
            return []
        if title == self._main and reading.done is not None and reading.unit == "steps":
            self._size = (True, self._size[1])  # its metrics are in the dictionaries
            return [replace(waiting, step=int(reading.done)) for waiting in self._gone_on()]
        self._patience -= 1
        return [] if self._patience else self._gone_on()

    def _weigh(self, title: Title, reading: Reading) -> None:
        """Take a bar for the training's if it shows metrics, or is longer."""
        size = (bool(reading.values), reading.total or 0)
        if title == self._main:
            self._size = max(size, self._size)
        elif size > self._size:
            if self._main != NONE:
                self._position.switch(counted=self._size[0])
            self._main, self._size = title, size

    def _ended(self, title: Title, reading: Reading) -> None:
        """A bar's line has ended; where the bar was full, so is what it counted."""
        if reading.done is None or reading.total is None or reading.done < reading.total:
            return
        if title in {KERAS, self._main}:
            self._position.close()
        if title == self._main and not self._size[0]:
            self._size = (False, 0)

    def _bar(self, title: Title, *, repeats: bool) -> Bar:
        if title not in self._bars:
            if len(self._bars) >= MOST:
                del self._bars[next(iter(self._bars))]
            self._bars[title] = Bar(repeats=repeats)
        return self._bars[title]

    def _placed(self, title: Title, bar: Bar, readings: list[Reading]) -> list[Reading]:
        return [self._place(title, bar, reading) for reading in readings]

    def _place(self, title: Title, bar: Bar, reading: Reading) -> Reading:
        if reading.unit == "epochs":
            return self._position.place(reading, None)
        if reading.done is None:
            return self._position.stepped(reading)
        if self._position.closed and reading.epoch is None:  # behind an epoch's bar: an evaluation, or a prediction
            ended = reading.done >= (reading.total or 0)  # before its end it shows means of what it has seen
            reading = replace(reading, values=reading.values if ended else {}, step=self._position.reached())
            return pairs.as_validation(reading)
        if title not in {KERAS, self._main}:
            return replace(reading, done=None, total=None, unit="")
        return self._position.within(reading, bar.epochs)
