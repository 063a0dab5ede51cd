"""Progress bars, and the lines beside them: find the training's bar, and take each value of a bar once, at its step.

Several bars can be on the screen: one for preparing data, one for an evaluation, one over epochs around one over steps.
The training's bar is the longest of those that show metrics, or of all if none does.

The last redraw of a bar at a step has the values of that step. So each redraw is held until the bar advances. tqdm
shows a value until another is set: a value that repeats is ignored. If a program sets the values before the bar counts
the step, as the very first redraw shows ("0/100, loss=2.3"), the values belong to the step that is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.metrics.dialects import bars, pairs
from core.metrics.reading import IN_VALIDATION, OF_BAR, OF_VALIDATION, Reading
from core.metrics.text.position import PositionTracker
from core.metrics.text.printed_lines import PrintedLine
from core.metrics.text.statements import BARS, OTHER, PAIRS, STANDING, Statement

MAX_BARS = 32
"""Bars to remember at a time."""
Title = tuple[str, float | None]
"""A bar's name and its total."""
KERAS: Title = (bars.KERAS_BAR, None)
NONE: Title = ("", None)


class ProgressBars:
    """All bars of a log, by their titles. They tell `position` where the training is, and ask it."""

    def __init__(self, position: PositionTracker) -> None:
        self._position = position
        self._bars: dict[Title, Bar] = {}
        self._main = NONE
        self._size: tuple[bool, float] = (False, 0)  # of the main bar: whether it shows metrics, and its total
        self._waiting: list[Reading] = []
        self._reached: float = 0  # the last count of the main bar
        self._outer = NONE  # the bar around the others
        self._counts_steps = False  # the main bar does
        self._steps_beside: dict[str, int] = {}  # of metrics that are printed beside it without a step
        self._closed: Reading | None = None  # the last redraw of the Keras bar that closed an epoch
        self._lines_tell = ""  # the unit of the progress that lines with metrics tell
        self._epoch: float | None = None  # of the last bar of rich
        self._full: dict[tuple[Title, float | None], Reading] = {}  # full bars of rich, by title and epoch

    def take(self, line: PrintedLine, statement: Statement) -> Statement:
        """Return the statement with its reading at its place, after the readings of bars that are complete now."""
        if statement.reading is None:
            return statement
        if statement.dialect == BARS:
            return statement._replace(reading=None, earlier=self._draw(line, statement, statement.reading))
        bare = (statement.reading.step, statement.reading.epoch, statement.reading.done) == (None, None, None)
        complete = self._release()
        placed = self._position.take(statement)
        if statement.dialect == PAIRS and placed.values and placed.total is not None and placed.unit != IN_VALIDATION:
            # Bars without metrics tell no progress any more: the lines that are printed do.
            self._lines_tell = placed.unit or "steps" if self._lines_tell in {"", "epochs"} else self._lines_tell
        if bare and statement.dialect == PAIRS and (statement.beside or self._steps_beside):
            placed = self._at_bar(placed, beside=statement.beside != "")
        if statement.dialect in {OTHER, STANDING}:
            complete += self._take_waiting()
            # The Hugging Face trainer prints no step in its dictionaries, but redraws its bar right after them.
            if placed.step is None and placed.values and self._main != NONE and self._position.epoch is None:
                self._waiting = [placed]
                return statement._replace(reading=None, earlier=complete)
        return statement._replace(reading=placed, earlier=complete)

    def _at_bar(self, reading: Reading, *, beside: bool) -> Reading:
        """Return a line's reading, without a place of its own, at the step of the bar that it is printed beside.

        The bar may be drawn less often than a line comes for each step: then the lines count.
        """
        steps, reached = self._steps_beside, self._position.reached() or 0
        name = next((name for name in reading.values if not name.startswith(OF_VALIDATION)), None)
        if not self._counts_steps or not (beside or name is None or name in steps):
            return reading
        if name is None:
            return replace(reading, step=max(reached, *steps.values(), 0))
        steps[name] = max(reached, steps.get(name, 0) + 1)
        return replace(reading, step=steps[name])

    def end(self) -> list[Reading]:
        """Return all held readings."""
        released, reached = self._release(), self._position.reached()
        return released + [replace(reading, step=reached, unit=OF_BAR) for reading in self._take_waiting()]

    def _draw(self, line: PrintedLine, statement: Statement, reading: Reading) -> list[Reading]:
        """Take a redraw of a bar, and return the readings that are complete now."""
        keras, title = statement.bar == bars.KERAS_BAR, (statement.bar, statement.length)
        if title[1] is None and title[0] == self._main[0]:
            title = self._main  # tqdm leaves the total out once the bar is beyond it
        if bars.RICH in statement.line and self._is_drawn_again(title, reading):
            return []
        complete = self._release(but=title)
        if title not in self._bars and len(self._bars) >= MAX_BARS:
            del self._bars[next(iter(self._bars))]
        bar = self._bars.setdefault(title, Bar(repeats=not keras))
        self._nest(title, bar, reading)
        if not keras and reading.done is not None and reading.unit not in {"epochs", IN_VALIDATION}:
            self._choose_main(title, reading)
        if title in {KERAS, self._main}:
            self._counts_steps = reading.unit == "steps"
        complete += self._with_awaited_step(title, reading)
        if keras and (added := self._added_to_closed(reading)) is not None:
            return [*complete, added]
        if "poch" in statement.line:
            bar.epochs = statement.epochs
        complete += self._placed(title, bar, bar.draw(reading))
        if not line.redrawn:
            complete += self._placed(title, bar, bar.release())
            self._end_line(title, reading)
        return complete

    def _nest(self, title: Title, bar: Bar, reading: Reading) -> None:
        """Note the outer bar: it counts epochs, or has moved on, and is not full, when another one begins again."""
        if reading.done is None or reading.total is None or reading.unit == IN_VALIDATION:
            return
        before = reading.done if bar.count is None else bar.count
        if reading.unit == "epochs":
            self._outer = title
        elif reading.done < before:
            moved = [(each, other) for each, other in self._bars.items() if other.moved]
            around = [each for each, other in moved if other is not bar and (other.count or 0) < other.total]
            self._outer = around[0] if around else self._outer
            for _, other in moved:
                other.moved = False
        bar.count, bar.total, bar.moved = reading.done, reading.total, bar.moved or reading.done > before

    def _is_drawn_again(self, title: Title, reading: Reading) -> bool:
        """Return whether a bar of rich is the full one of an earlier epoch, drawn again with the bars below it."""
        again = self._epoch != reading.epoch and self._full.get((title, reading.epoch)) == reading
        if not again:
            self._epoch = reading.epoch
        if reading.done is not None and reading.done == reading.total:
            self._full[title, reading.epoch] = reading
        return again

    def _release(self, but: Title = NONE) -> list[Reading]:
        """Return the held readings of all bars except `but`: after other output they are not redrawn in place."""
        return [
            reading
            for title, bar in self._bars.items()
            if title != but
            for reading in self._placed(title, bar, bar.release())
        ]

    def _take_waiting(self) -> list[Reading]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _with_awaited_step(self, title: Title, reading: Reading) -> list[Reading]:
        """Return the waiting readings, if this redraw gives their step."""
        if not self._waiting or title != self._main or reading.done is None or reading.unit != "steps":
            return []
        self._size = (True, self._size[1])  # its metrics are in the dictionaries
        return [replace(waiting, step=int(reading.done), unit=OF_BAR) for waiting in self._take_waiting()]

    def _choose_main(self, title: Title, reading: Reading) -> None:
        """Make a bar the training's if it is the first that shows metrics, or if it is longer."""
        size = (bool(reading.values), reading.total or 0)
        if title == self._main:
            self._size = max(size, self._size)
        elif size == self._size and title[1] == self._main[1] and not size[0] and (reading.done or 0) > self._reached:
            self._main = title  # its description has changed
        elif size > self._size:
            if self._main != NONE:
                self._position.switch(counted=self._size[0])
            self._main, self._size = title, size
        if title == self._main:
            self._reached = reading.done or 0

    def _end_line(self, title: Title, reading: Reading) -> None:
        """Note the end of a bar's line. If the bar was full, its epoch or pass is complete."""
        if reading.done is None or reading.total is None or reading.done < reading.total:
            return
        if title in {KERAS, self._main}:
            self._closed = None if self._position.closed or title != KERAS else reading
            self._position.close()
        if title == self._main and not self._size[0]:
            self._size = (False, 0)

    def _added_to_closed(self, reading: Reading) -> Reading | None:
        """Return what a redraw of the bar that closed an epoch adds to it; None if the reading is another bar's.

        Keras draws an epoch's bar once more with the values of the validation. A line that a callback prints before
        ends the bar's line, so that only its total and its values show that it is the same bar.
        """
        closed = self._closed
        if closed is None or not self._position.closed or (reading.done, reading.total) != (closed.done, closed.total):
            return None
        shared = closed.values.keys() & reading.values.keys()
        same = shared and all(repr(closed.values[name]) == repr(reading.values[name]) for name in shared)
        if not same and not any(name.startswith(OF_VALIDATION) for name in reading.values):
            return None
        values = {name: value for name, value in reading.values.items() if name not in shared}
        return replace(reading, values=values, step=self._position.reached(), done=None, total=None, unit="")

    def _placed(self, title: Title, bar: Bar, readings: list[Reading]) -> list[Reading]:
        return [self._place(title, bar, reading) for reading in readings]

    def _place(self, title: Title, bar: Bar, reading: Reading) -> Reading:
        if reading.unit == "epochs":
            return replace(self._position.place(reading, None), done=reading.done)
        if reading.unit == IN_VALIDATION:
            return replace(reading, step=self._position.reached())
        if reading.done is None:
            return self._position.stepped(reading)
        if self._position.closed and reading.epoch is None:  # after an epoch's bar: an evaluation or a prediction
            ended = reading.done >= (reading.total or 0)  # before its end it shows intermediate means
            reading = replace(reading, values=reading.values if ended else {}, step=self._position.reached())
            return pairs.as_validation(reading)
        lines_tell = self._lines_tell != "" and (self._lines_tell != "epochs" or self._position.epoch is None)
        measures = title == KERAS or self._size[0]
        if title not in {KERAS, self._main} or (lines_tell and not measures):
            return replace(reading, unit="") if title == self._outer else _without_progress(reading)
        if reading.values and reading.epoch is not None and (reading.done or 0) < (reading.total or 0):
            self._position.begin_again(reading.epoch, bar.epochs)
        placed = self._position.within(reading, bar.epochs)
        if self._outer not in {NONE, title} and self._position.epochs is None:
            placed = _without_progress(placed)
        # A bar without metrics may count anything: it does not say at which step other lines are.
        return placed if measures else replace(placed, step=None)


@dataclass(slots=True)
class Bar:
    """One bar: its state on the screen, and the reading that is held."""

    repeats: bool  # whether it shows a value until another is set
    epochs: float | None = None  # the total number of epochs
    count: float | None = None  # the last one, if it counts a training
    total: float = 0
    moved: bool = False  # since a bar began again
    _shown: dict[str, str] = field(default_factory=dict)
    _done: float = -1
    _last: float = 0  # the last step with values
    _ahead: bool = False
    _held: Reading | None = None

    def draw(self, reading: Reading) -> list[Reading]:
        """Take a redraw, and return the readings that are complete now."""
        complete: list[Reading] = []
        if reading.done is not None and reading.done < self._done:
            self._ahead, self._last = False, 0
            self._shown = {} if reading.unit == IN_VALIDATION else self._shown
        fresh = self._fresh(reading.values, same_step=reading.done == self._done and not self._ahead)
        if self.repeats and fresh and reading.done == 0:
            fresh = fresh if any(fresh.values()) else {}  # zeros are shown before anything has been measured
            self._ahead = bool(fresh)
        if self._ahead and fresh and reading.done is not None:
            complete = self.release()
            self._done = reading.done
            self._last = max(reading.done, self._last) + 1
            of = min(self._last, reading.total or self._last)
            return [*complete, replace(reading, values=fresh, done=of)]
        if self._ahead and reading.done is not None:  # a redraw without news is not behind the step under way
            reading = replace(reading, done=max(reading.done, min(self._last, reading.total or self._last)))
        if self._held is not None and reading.done == self._done:
            fresh = {**self._held.values, **fresh}
        else:
            complete = self.release()
        self._done = self._done if reading.done is None else reading.done
        self._held = replace(reading, values=fresh)
        return complete

    def release(self) -> list[Reading]:
        """Return the held reading, if any."""
        held, self._held = self._held, None
        return [] if held is None else [held]

    def _fresh(self, values: Mapping[str, float], *, same_step: bool) -> dict[str, float]:
        """Return the values that have been set since the last redraw."""
        if not self.repeats:
            return dict(values)
        before, self._shown = self._shown, {name: repr(value) for name, value in values.items()}
        if self._shown == before:
            return {}
        return {
            name: value
            for name, value in values.items()
            if before.get(name) != self._shown[name] or not (same_step or _is_of_epoch(name))
        }


def _without_progress(reading: Reading) -> Reading:
    return replace(reading, done=None, total=None, unit="")


def _is_of_epoch(name: str) -> bool:
    """Return whether a value is set once an epoch, and stays on the bar while others change."""
    return name.startswith("val_") or name.endswith("_epoch")
