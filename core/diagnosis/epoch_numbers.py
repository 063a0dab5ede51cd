"""Turn the measurements of a run into the numbers of each epoch, one line an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.language import tr
from core.schema.event_kinds import RunProgress
from core.schema.events import Event, last_step
from core.text import join_phrases

Values = Mapping[str, Sequence[float | None]]

LOSS, RATE, VALIDATION = "loss", "learning_rate", "val_"


class EpochLine(NamedTuple):
    """What is known of an epoch. Its text is made when it is shown: there may be a million epochs."""

    time: float
    """Unix seconds."""
    epoch: int
    """Its number, from 1; of a script that counts steps, 0."""
    step: int
    """The last step before it was measured."""
    loss: float | None = None
    """The mean over its steps; None if some of them are not known."""
    metrics: Mapping[str, float] | None = None
    """The means of the other metrics over its measured steps, by name; None where the loss is None."""
    values: Mapping[str, float | None] | None = None
    """The means of its validation by name."""
    of: float | None = None
    """The number of epochs that a script reports."""

    @property
    def text(self) -> str:
        """The line in words."""
        loss = [] if self.loss is None else [tr("loss {value}", value=_number(self.loss))]
        numbers = join_phrases([*loss, *_numbers(self.metrics or {}), *_numbers(self.values or {})])
        if self.of is not None:
            done = tr("Epoch {epoch} of {epochs:g} is done", epoch=self.epoch, epochs=self.of)
            return tr("{what}: {numbers}", what=done, numbers=numbers) if numbers else done
        which = tr("Epoch {epoch}", epoch=self.epoch) if self.epoch else tr("Step {step}", step=self.step)
        return tr("{what}: {numbers}", what=which, numbers=numbers) if numbers else which


class EpochNumbers:
    """Follows one run. An epoch has its line once its validation is known, or the next step."""

    def __init__(self) -> None:
        self.steps_per_epoch: int | None = None
        """None until it is known, and for scripts."""
        self._sum, self._count = 0.0, 0
        self._metrics: dict[int, dict[str, tuple[float, int]]] = {}
        """The other metrics' sums over the steps of epochs that are not done, and their counts, by epoch and name."""
        self._at = 0
        """The last step whose loss was added."""
        self._open: EpochLine | None = None
        """The last epoch whose steps are done, while its validation may follow."""
        self._loss: float | None = None
        self._epochs_reported = 0

    def fold(self, event: Event) -> list[EpochLine]:
        """Add an event of the kind `metrics`, and return the lines that it completes."""
        values: Values = event["values"]
        if len(values) == 1 and LOSS in values:  # as nearly all events are
            return self._add_losses(event, values[LOSS])
        if self.steps_per_epoch:
            self._add_metrics(event, self.steps_per_epoch)
        lines = self._add_losses(event, values[LOSS]) if LOSS in values else []
        validated = {name: series for name, series in values.items() if name.startswith(VALIDATION)}
        return lines + self._add_validation(event, validated) if validated else lines

    def fold_progress(self, progress: RunProgress) -> list[EpochLine]:
        """Add a script's report of its progress, and return a line if it counts epochs and one more is done."""
        if progress.unit != "epochs" or int(progress.done) <= self._epochs_reported:
            return []
        self._epochs_reported = int(progress.done)
        return [EpochLine(progress.time, self._epochs_reported, self._at, self._loss, of=progress.total)]

    def finish(self) -> list[EpochLine]:
        """Return the line of an epoch whose validation does not follow."""
        found, self._open = self._open, None
        return [found] if found is not None else []

    def rewind(self, step: int) -> None:
        """Continue after an earlier step, or after the last one."""
        if step != self._at:  # the sum has losses that are void now
            self._sum, self._count, self._at = 0.0, 0, step
            self._metrics.clear()

    def restart(self) -> None:
        """Forget a script's reports: it starts over."""
        self._epochs_reported, self._loss = 0, None

    def _add_losses(self, event: Event, losses: Sequence[float | None]) -> list[EpochLine]:
        self._loss = self._loss if losses[-1] is None else losses[-1]
        lines: list[EpochLine] = []
        at, used, per_epoch = event["first"], 0, self.steps_per_epoch
        while per_epoch and used < len(losses):
            lines += self.finish()  # the next epoch has begun
            end = -(-at // per_epoch) * per_epoch
            part = losses[used : used + end - at + 1]
            total, count = _sum(part)
            self._sum += total
            self._count += count
            used, at = used + len(part), at + len(part)
            if at > end:
                whole = self._count == per_epoch  # else some are missing, or were measured before a resume
                mean = self._sum / per_epoch if whole else None
                means = self._take_means(end // per_epoch)
                means = means if whole else None
                self._open = EpochLine(_time_of(event, used, len(losses)), end // per_epoch, end, mean, means)
                self._sum, self._count = 0.0, 0
        self._at = event["first"] + len(losses) - 1
        return lines

    def _add_metrics(self, event: Event, per_epoch: int) -> None:
        """Add what was measured on training batches, other than the loss. It may come before the losses."""
        first, every = event["first"], event.get("every", 1)
        for name, series in event["values"].items():
            if name in {LOSS, RATE} or name.startswith(VALIDATION):
                continue
            for at, value in enumerate(series):
                if value is not None:
                    sums = self._metrics.setdefault(-(-(first + at * every) // per_epoch), {})
                    total, count = sums.get(name, (0.0, 0))
                    sums[name] = total + value, count + 1

    def _take_means(self, epoch: int) -> Mapping[str, float] | None:
        """Return the means of the other metrics over the epoch's measured steps."""
        found = self._metrics.pop(epoch, {})
        return {name: total / count for name, (total, count) in found.items()}

    def _add_validation(self, event: Event, values: Values) -> list[EpochLine]:
        """Return the line of the epoch that ended at this step, or one of its own if there is none."""
        step = last_step(event)
        last = {name: series[-1] for name, series in values.items() if series}
        opened = self._open
        if opened is not None and opened.step == step:
            self._open = None
            return [opened._replace(time=event["t"], values=last)]
        epoch = -(-step // self.steps_per_epoch) if self.steps_per_epoch else 0
        return [*self.finish(), EpochLine(event["t"], epoch, step, values=last)]


def _sum(losses: Sequence[float | None]) -> tuple[float, int]:
    """Return the sum and the number of the losses that are known."""
    try:
        return sum(losses), len(losses)  # type: ignore[arg-type]  # almost always all are numbers
    except TypeError:
        known = [loss for loss in losses if loss is not None]
        return sum(known), len(known)


def _time_of(event: Event, used: int, count: int) -> float:
    """Return when the `used`-th of the event's steps ended; they count as evenly spaced."""
    until: float = event["t"]
    since: float = event.get("since", until)
    return until if used == count else since + (until - since) * (used - 1) / (count - 1)


def _numbers(values: Mapping[str, float | None]) -> list[str]:
    """Return `val. loss 0.55`, `val. accuracy 0.79`."""
    return [f"{metric_title(name)} {_number(value)}" for name, value in values.items()]


def metric_title(name: str) -> str:
    """Return `val. loss` for `val_loss`: a loss in the language in use, other metrics as they are named."""
    if not name.startswith(VALIDATION):
        return tr("loss") if name == LOSS else name.replace("_", " ")
    metric = name.removeprefix(VALIDATION).replace("_", " ")
    return tr("val. loss") if metric == LOSS else tr("val. {metric}", metric=metric)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
