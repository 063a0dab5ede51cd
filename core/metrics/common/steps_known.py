"""At which steps a training is and was, as far as its sources say: for what is counted by epochs, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.metrics.common.reading import Reading


@dataclass(slots=True)
class _Epochs:
    """The epochs as one kind of source counts them: from 0, from 1, or from where training was resumed."""

    first: int | None = None
    ends: dict[int, int] = field(default_factory=dict)
    """By epoch, the largest step that was told of it."""


class StepsKnown:
    """Told of all readings, in the order in which they are placed."""

    def __init__(self) -> None:
        self.last: int | None = None
        """The largest step that any source told."""
        self._of_source: dict[str, int] = {}
        self._epochs: dict[str, _Epochs] = {}
        self.version = 0
        """Rises when the end of an epoch was learned."""

    def learn(self, kind: str, source: str, reading: Reading) -> None:
        """Take in where a reading says that training is."""
        if reading.step is not None:
            self.last = reading.step if self.last is None else max(self.last, reading.step)
            self._of_source[source] = reading.step
        if reading.epoch is not None:
            epochs, epoch = self._epochs.setdefault(kind, _Epochs()), int(reading.epoch)
            epochs.first = epoch if epochs.first is None else min(epochs.first, epoch)
            if reading.step is not None and epochs.ends.get(epoch, -1) < reading.step:
                epochs.ends[epoch] = reading.step
                self.version += 1

    def of(self, source: str) -> int | None:
        """The step that this source told last; None when it tells no steps."""
        return self._of_source.get(source)

    def end_of(self, kind: str, epoch: int) -> int | None:
        """The last step of an epoch, which `kind` counts so; None when no source has told it.

        Other kinds may begin to count elsewhere: the first epoch of each is taken to be the same.
        """
        own = self._epochs.get(kind, _Epochs())
        if epoch in own.ends:
            return own.ends[epoch]
        for other in self._epochs.values():
            if other is not own and own.first is not None and other.first is not None:
                end = other.ends.get(epoch - own.first + other.first)
                if end is not None:
                    return end
        return None
