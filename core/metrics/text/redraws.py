"""Progress bars, drawn again and again: each of their values once, at the step it was measured at.

A bar's last redraw at a step has that step's values, and so each is held until the bar has gone on. tqdm shows a value
until another is set: what it merely repeats is no value. And where a program sets the values before the bar counts the
step, which shows at the very first one ("0/100, loss=2.3"), the values are those of the step that is being made.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.metrics.common.reading import Reading


@dataclass(slots=True)
class Bar:
    """One bar: as it is on the screen, and what of it has not been given yet."""

    repeats: bool  # whether it shows a value until another is set
    epochs: float | None = None  # how many there will be, where it says so
    _shown: dict[str, str] = field(default_factory=dict)
    _done: float = -1
    _given: float = 0  # the last step that values were given for
    _ahead: bool = False
    _held: Reading | None = None

    def draw(self, reading: Reading) -> list[Reading]:
        """The bar drawn anew; gives the reading that it is done with, if any."""
        given: list[Reading] = []
        if reading.done is not None and reading.done < self._done:
            self._ahead, self._given = False, 0
        fresh = self._fresh(reading.values, same_step=reading.done == self._done and not self._ahead)
        if self.repeats and fresh and reading.done == 0:
            self._ahead = True
        if self._ahead and fresh and reading.done is not None:
            given = self.release()
            self._done = reading.done
            self._given = max(reading.done, self._given) + 1
            of = min(self._given, reading.total or self._given)
            return [*given, replace(reading, values=fresh, done=of)]
        if self._held is not None and reading.done == self._done:
            fresh = {**self._held.values, **fresh}
        else:
            given = self.release()
        self._done = self._done if reading.done is None else reading.done
        self._held = replace(reading, values=fresh)
        return given

    def release(self) -> list[Reading]:
        """What is still held: nothing more comes for it."""
        held, self._held = self._held, None
        return [] if held is None else [held]

    def _fresh(self, values: Mapping[str, float], *, same_step: bool) -> dict[str, float]:
        """The values that have been set since the bar was drawn before."""
        if not self.repeats:
            return dict(values)
        before, self._shown = self._shown, {name: repr(value) for name, value in values.items()}
        if self._shown == before:
            return {}
        return {
            name: value
            for name, value in values.items()
            if before.get(name) != self._shown[name] or not (same_step or _stays(name))
        }


def _stays(name: str) -> bool:
    """Whether a value is set once in an epoch, and stays on the bar while others change."""
    return name.startswith("val_") or name.endswith("_epoch")
