"""What the epochs of a training have given, and in which steps the recipe's metrics are measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ...language import tr, tr_plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Values = Mapping[str, Sequence[float]]
    """The means of a validation by name, a list of one value each. Empty without one or if it was cut short."""

LOSS = "loss"


def means_by_name(names: Sequence[str]) -> Callable[[Sequence[float]], Values]:
    """Return a function that makes the means of a validation from the sums of all ranks.

    It gets the sum of each of these measurements, the number of items, and how many ranks were cut short.
    """

    def means(sums: Sequence[float]) -> Values:
        *totals, items, cut = sums
        if cut or not items:  # on any rank: the sum is equal on all, so all end here
            return {}
        return {f"val_{name}": [total / items] for name, total in zip(names, totals, strict=True)}

    return means


class EpochMeans:
    """The means over the steps of the current epoch by name, as they come: of the loss, and of what else is wanted."""

    def __init__(self) -> None:
        self.keeps_all = False
        """Whether other means than the loss's are wanted. Equal on all ranks."""
        self.sums: dict[str, tuple[float, int]] = {}
        """Sum and number of the values so far; a new dict for each epoch."""

    def add(self, name: str, values: Sequence[float]) -> None:
        """Count more values of steps; a metric may have been measured in some steps only."""
        if name == LOSS or self.keeps_all:
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = total + sum(values), count + len(values)

    def take(self) -> dict[str, float]:
        """Return the means so far and start new ones."""
        sums, self.sums = self.sums, {}
        return {name: total / count for name, (total, count) in sums.items() if count}


class EpochResults:
    """Takes the results of each epoch and compares its loss with the best so far: the validation's, if there is one."""

    def __init__(self, means: EpochMeans, *, patience: int | None, validates: bool) -> None:
        """`patience`: epochs without a better loss after which training has stagnated; None for no end."""
        self._means, self._patience, self._validates = means, patience, validates
        self._best, self._best_epoch, self.since_best = math.inf, 0, 0
        """`since_best`: epochs since the one with the lowest loss so far."""
        self._undone = self._best, self._best_epoch, self.since_best, means.sums
        self._value: float | None = None
        self.numbers: dict[str, float] = {}
        """The numbers of the last epoch: `epoch`, from 1, `step`, `learning_rate`, and means of loss and metrics."""

    @property
    def value(self) -> float | None:
        """The loss of the last epoch; None if it is unknown or not finite."""
        return _finite(self._value)

    @property
    def has_stagnated(self) -> bool:
        """Whether the loss has not become better for so long that training is to end."""
        return self._patience is not None and self.since_best >= self._patience

    def end_epoch(self, values: Values, *, epoch: int, step: int, rate: float) -> None:
        """Take the results of an epoch, counted from 1, that has ended with this step and learning rate."""
        self._undone = self._best, self._best_epoch, self.since_best, self._means.sums
        means = self._means.take()
        if self._means.keeps_all:
            validated = {name: value[0] for name, value in values.items()}
            self.numbers = {"epoch": epoch, "step": step, "learning_rate": rate, **means, **validated}
        self._value = values["val_loss"][0] if "val_loss" in values else means.get(LOSS)
        if self._validates and not values:
            self._value = None  # cut short: there is nothing to compare
        elif self._value is not None and self._value < self._best:
            self._best, self._best_epoch, self.since_best = self._value, epoch, 0
        else:
            self.since_best += 1

    def reopen_epoch(self) -> None:
        """Take the last call of `end_epoch` back: the resumed training will end the epoch again."""
        self._best, self._best_epoch, self.since_best, self._means.sums = self._undone

    def early_stop(self, epoch: int) -> str:
        """Return the sentence that training ends early after an epoch, counted from 1."""
        if not math.isfinite(self._best):
            return tr("Early stopping after epoch {epoch}: no epoch so far had a finite loss.", epoch=epoch)
        return tr_plural(
            "Early stopping after epoch {epoch}: the loss has not been better than {best:.6g} for {count} epoch.",
            "Early stopping after epoch {epoch}: the loss has not been better than {best:.6g} for {count} epochs.",
            self.since_best,
            epoch=epoch,
            best=self._best,
        )

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        sums = {name: [_finite(total), count] for name, (total, count) in self._means.sums.items()}
        total, count = sums.pop(LOSS, [0.0, 0])
        return {
            "best": _finite(self._best), "best_epoch": self._best_epoch, "since_best": self.since_best,
            "loss_sum": total, "loss_count": count, "metric": "val_loss" if self._validates else LOSS,
            **({"other_means": sums} if sums else {}),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Continue from what `to_json` returned."""
        self._best = math.inf if kept["best"] is None else kept["best"]
        self.since_best, self._best_epoch = kept["since_best"], kept.get("best_epoch", 0)
        sums = {LOSS: (kept["loss_sum"], kept["loss_count"]), **kept.get("other_means", {})}
        self._means.sums = {
            name: (math.nan if total is None else total, count) for name, (total, count) in sums.items()
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


BUDGET = 0.008
"""Share of the time for the recipe's metrics. What the reports of their values take comes to it."""
GROWTH = 8
"""How many times less often a report may let metrics be measured."""
MICRO = 1e6
"""Microseconds in a second. Costs are whole microseconds, so that their sum is the same on all ranks."""


class Cost(NamedTuple):
    """What measuring took since the last report, added up over ranks."""

    spent_us: float
    measured: float
    """Measured steps."""
    elapsed_us: float
    """What the steps since the last report took on rank 0."""

    @classmethod
    def of(cls, spent_s: float, measured: int, elapsed_s: float) -> Cost:
        """Return these costs, in whole microseconds."""
        return cls(float(round(spent_s * MICRO)), float(measured), float(round(elapsed_s * MICRO)))


class TrainingMetrics:
    """Lets every n-th step be measured, the same steps on all ranks, and keeps their values until the next report.

    A report chooses n, from the costs on all ranks. A framework adds how to measure and what that takes.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.is_due = True
        """Whether the current step is measured."""
        self.always = False
        """Whether every step is measured, whatever it costs."""
        self.every = 1
        self.first = 0
        """The first measured step since the last report."""
        self._from = 0
        self._cost_us: float | None = None
        self._rows: list[Any] = []
        """The values of the measured steps since the last report, each a row in the order of `names`."""

    def begin_step(self, step: int) -> None:
        """Decide whether a step is measured."""
        self.is_due = (step - self._from) % self.every == 0

    def count_from(self, step: int) -> None:
        """Measure this step, and every n-th after it. Call it only when all measured steps have been reported."""
        self._from = step
        self.begin_step(step)

    def end_step(self, step: int) -> None:
        """Keep what was measured in a step, for the next report."""
        raise NotImplementedError

    def take(self, elapsed_s: float) -> tuple[list[float], Cost]:
        """Return what this rank has measured since the last report, so many seconds ago, and what it took.

        The values are step by step, in the order of the metrics.
        """
        raise NotImplementedError

    def plan(self, cost: Cost, steps: int) -> None:
        """Choose how often to measure, from what the last `steps` steps took on all ranks."""
        if cost.measured:
            found = cost.spent_us / cost.measured
            self._cost_us = found if self._cost_us is None else (self._cost_us + found) / 2
        if self.always or self._cost_us is None or not steps or cost.elapsed_us <= 0:
            return
        wanted = self._cost_us * steps / (BUDGET * cost.elapsed_us)
        every = 1
        while every < wanted:
            every *= 2
        # Gradually: a pause makes steps seem long, and the first measurement takes longer than the others.
        self.every = min(max(every, self.every // 2), self.every * (GROWTH if cost.measured else 1))

    def _keep(self, step: int, row: Any) -> None:  # noqa: ANN401 (the framework's own)
        if not self._rows:
            self.first = step
        self._rows.append(row)


def median(values: Sequence[float]) -> float:
    """Return the median; 0 of none."""
    return sorted(values)[len(values) // 2] if values else 0.0
