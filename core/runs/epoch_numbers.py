"""Turn the measurements of a run into the numbers of each epoch, one line an epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.schema.events import Event

    Values = Mapping[str, Sequence[float | None]]

Line = tuple[float, str]
"""Unix seconds, and what is known of the epoch."""
OF_STEPS = frozenset({"loss", "learning_rate"})
"""Metrics of each step; all others are of an epoch or of a validation."""
VALIDATION = "val_"


@dataclass(slots=True)
class _Epoch:
    """An epoch whose steps are done; its validation may follow."""

    step: int
    time: float
    text: str


class EpochNumbers:
    """Follows one run. An epoch has its line once its validation is known, or the next step."""

    def __init__(self) -> None:
        self.steps_per_epoch: int | None = None
        """None until it is known, and for scripts."""
        self._sum, self._count = 0.0, 0
        self._at = 0
        """The last step whose loss was added."""
        self._open: _Epoch | None = None
        self._loss: float | None = None
        self._epochs_reported = 0

    def fold(self, event: Event) -> Iterator[Line]:
        """Add an event of the kind `metrics`, and yield the lines that it completes."""
        values: Values = event["values"]
        if "loss" in values:
            yield from self._add_losses(event)
        others = {name: series for name, series in values.items() if name not in OF_STEPS}
        if others and self.steps_per_epoch:
            yield from self._add_validation(int(event["first"]), float(event["t"]), others)
        elif any(name.startswith(VALIDATION) for name in others):
            validations = {name: series for name, series in others.items() if name.startswith(VALIDATION)}
            last = int(event["first"]) + max(map(len, validations.values())) - 1
            yield float(event["t"]), f"Step {last}: {_numbers(validations)}"

    def fold_progress(self, event: Event) -> Iterator[Line]:
        """Add a script's report of its progress, and yield a line if it counts epochs and one more is done."""
        done, total = float(event["done"]), float(event["total"])
        if event.get("unit") == "epochs" and math.isfinite(done) and int(done) > self._epochs_reported:
            self._epochs_reported = int(done)
            loss = "" if self._loss is None else f": loss {_number(self._loss)}"
            yield float(event["t"]), f"Epoch {int(done)} of {total:g} is done{loss}"

    def finish(self) -> Iterator[Line]:
        """Yield the line of an epoch whose validation does not follow."""
        if self._open is not None:
            yield self._open.time, self._open.text
            self._open = None

    def rewind(self, step: int) -> None:
        """Continue after an earlier step, or after the last one."""
        if step != self._at:  # the sum has losses that are void now
            self._sum, self._count, self._at = 0.0, 0, step

    def restart(self) -> None:
        """Forget a script's reports: it starts over."""
        self._epochs_reported, self._loss = 0, None

    def _add_losses(self, event: Event) -> Iterator[Line]:
        losses, first = event["values"]["loss"], int(event["first"])
        self._loss = next((float(loss) for loss in reversed(losses) if loss is not None), self._loss)
        per_epoch, used = self.steps_per_epoch, 0
        while per_epoch and used < len(losses):
            yield from self.finish()  # the next epoch has begun
            at = first + used
            end = -(-at // per_epoch) * per_epoch
            part = losses[used : used + end - at + 1]
            self._sum += sum(loss for loss in part if loss is not None)
            self._count += len(part)
            used += len(part)
            self._at = at + len(part) - 1
            if self._at == end:
                self._close(end, _time_of(event, used, len(losses)))

    def _close(self, step: int, time: float) -> None:
        assert self.steps_per_epoch is not None
        number = step // self.steps_per_epoch
        whole = self._count == self.steps_per_epoch  # else some were measured before the run was resumed
        text = f"Epoch {number}: loss {_number(self._sum / self._count)}" if whole else f"Epoch {number}"
        self._open = _Epoch(step=step, time=time, text=text)
        self._sum, self._count = 0.0, 0

    def _add_validation(self, step: int, time: float, values: Values) -> Iterator[Line]:
        """Yield the line of the epoch that ended at this step, or one of its own if there is none."""
        assert self.steps_per_epoch is not None
        numbers = _numbers(values)
        if self._open is not None and self._open.step == step:
            joint = ", " if ":" in self._open.text else ": "
            yield time, f"{self._open.text}{joint}{numbers}"
            self._open = None
        else:
            yield from self.finish()
            yield time, f"Epoch {-(-step // self.steps_per_epoch)}: {numbers}"


def _time_of(event: Event, used: int, count: int) -> float:
    """Return when the `used`-th of the event's steps ended; they count as evenly spaced."""
    until: float = event["t"]
    since: float = event.get("since", until)
    return until if count < 2 else since + (until - since) * (used - 1) / (count - 1)


def _numbers(values: Values) -> str:
    """Return `val. loss 0.55, val. accuracy 0.79`: the last value of each metric."""
    return ", ".join(f"{_title(name)} {_number(series[-1])}" for name, series in values.items() if series)


def _title(name: str) -> str:
    return name.replace(VALIDATION, "val. ", 1).replace("_", " ") if name.startswith(VALIDATION) else name


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
