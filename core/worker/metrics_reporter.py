"""Measurements of the steps: kept on the device, fetched now and then, at least once a second, not per step."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .context import REPORT_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .context import Context


REPORTS_SHARE = 1 / 200
"""Of the time, what reports for which ranks meet shall take. Where they take longer they are made less often,"""
SELDOM_S = 1.0
"""but at least so often, whatever they take: a request is heard at a report."""
OFTEN = 8
"""Who reports so many times in an epoch, two seconds of steps or more, loses nothing by reporting at its end, too."""


class NotFiniteError(RuntimeError):
    """A loss that is no number, where the run was to end at it."""


class TrainingEnd(NamedTuple):
    """An end of an epoch that is told with the next report."""

    many: int
    """Losses gathered before it since the last report."""
    since: float | None
    until: float | None
    """Unix times of the first and of the last step before it."""
    numbers: Sequence[float]
    """This rank's sums of the validation; none without one."""
    tell: Callable[[Sequence[float]], None]
    """To be called with their sums over all ranks."""


class MetricsReporter:
    """Gathers the losses of one process and reports them every quarter of a second."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.steps = 0
        """Optimizer steps done."""
        self.asked = 0
        """What was asked for as of the last report: bits of `Asked`; who has answered it sets it to 0."""
        self.look: Callable[[], int] = context.asked
        """Tells what is asked for; only rank 0's answer counts."""
        self.rate: Callable[[int], float] | None = None
        """The learning rate of a step, where it varies from step to step."""
        self.mean = _Mean()
        """Of the losses since the epoch began, as far as reported."""
        self._losses: list[Any] = []
        self._ends: list[TrainingEnd] = []
        self._since: float | None = None
        self._until: float | None = None
        self._learning_rate: float | None = None
        self._told_of_nan = False
        self._interval = 1  # steps between two reports
        self._reported = time.monotonic()
        self._due = 0.0  # the first step is reported at once, so that the curve begins when training does

    def step(self, loss: Any, share: float = 1.0) -> int:  # noqa: ANN401, ARG002 (a scalar of the framework's; ranks share)
        """Count one optimizer step with its detached loss; returns what is asked for.

        `share`: what the loss weighs in the global batch's, where ranks have parts of it.
        """
        self._losses.append(loss)
        self.steps += 1
        if self._since is None:
            self._since = time.time()
        if time.monotonic() >= self._due:
            self.report()
        return self.asked

    def learning_rate(self, rate: float) -> None:
        """Record the learning rate of the epoch that ends, if it is another than before: few lines for long runs."""
        if self.rate is None and rate != self._learning_rate and self._context.rank == 0:
            self._learning_rate = rate
            self._context.measured(self.steps, {"learning_rate": [rate]})

    def validated(
        self, values: Mapping[str, Sequence[float]], *, step: int | None = None, ended: float | None = None
    ) -> None:
        """Record the means of a validation; what the steps before it measured comes first.

        `step`, `ended`: after which it was, and its end as a unix time; None for now.
        """
        if self._context.rank == 0:
            self._context.measured(self.steps if step is None else step, values, until=ended)

    def steps_end(self, *, meets: bool) -> None:
        """Something else begins, such as a validation: while one that may be long goes on, the curve is up to date.

        `meets`: whether all that is measured is told at its end, too.
        """
        if meets and self._is_behind:
            self.report()
        self._until = time.time()  # what is reported later was measured until now

    @property
    def _is_behind(self) -> bool:
        """Whether the curve lacks more than a moment."""
        return True

    def put_off(self, numbers: Sequence[float], tell: Callable[[Sequence[float]], None]) -> None:
        """An epoch ends here, which the next report tells: it calls `tell` with the sums of `numbers` over all ranks.

        What is measured is recorded in its order: losses before the end, the end, losses after it.
        """
        self._ends.append(TrainingEnd(len(self._losses), self._since, self._until, numbers, tell))
        self._until = None
        if numbers:  # what `tell` records comes between the losses: the next ones are a batch of their own
            self._since = None

    def meets_often_in(self, steps: int) -> bool:
        """Whether reports come so often that one more in so many steps is nothing: the same on all ranks."""
        return self._interval == 1 or steps >= OFTEN * self._interval

    def report(self, numbers: Sequence[float] = ()) -> list[float]:
        """Fetch what was gathered (the only wait for the device), record it, look for requests.

        Returns the sums of `numbers` over all ranks, each of which has to give as many.
        """
        self._interval = self._next_interval()
        self._tell(self._fetch(self._losses) if self._losses else [], self._of_ends)
        self.asked = self.look()
        self._reported = time.monotonic()
        self._due = self._reported + REPORT_EVERY_S
        return list(numbers)

    def agree(self, number: float) -> float:
        """The number that rank 0 gives here. Every rank has to ask."""
        return number

    def all_well(self, *, ok: bool) -> bool:
        """Whether all ranks say so; none goes on before all have said it."""
        return ok

    def add_up(self, numbers: list[float]) -> list[float]:
        """Their sums over all ranks, each of which has to ask for as many."""
        return numbers

    def _next_interval(self) -> int:
        """Steps until the next report, at most twice as many as before."""
        elapsed = time.monotonic() - self._reported
        if not self._losses or elapsed <= 0:
            return self._interval
        wanted = int(len(self._losses) / elapsed * self._every_s)
        return max(1, min(wanted, 2 * self._interval))

    @property
    def _every_s(self) -> float:
        """Seconds between two reports."""
        return REPORT_EVERY_S

    def _fetch(self, losses: list[Any]) -> list[float]:
        """The losses as numbers, in one transfer from the device."""
        return [float(loss) for loss in losses]

    @property
    def _of_ends(self) -> list[float]:
        """The numbers of all ends that were put off."""
        return [number for end in self._ends for number in end.numbers]

    def _tell(self, losses: list[float], sums: Sequence[float]) -> None:
        """Record losses and ends of epochs in their order; `sums`: of the numbers of all ends, over all ranks."""
        first = self.steps - len(losses) + 1
        recorded = counted = told = 0
        for many, since, until, numbers, tell in self._ends:
            self.mean.add(losses[counted:many])
            counted = many
            if numbers:
                self._record(first + recorded, losses[recorded:many], since, until)
                recorded = many
            tell(sums[told : told + len(numbers)])
            told += len(numbers)
        self.mean.add(losses[counted:])
        self._record(first + recorded, losses[recorded:], self._since, self._until)
        self._losses, self._ends, self._since, self._until = [], [], None, None

    def _record(self, first: int, losses: list[float], since: float | None, until: float | None) -> None:
        if not losses or self._context.rank:
            return
        values = {"loss": losses}
        if self.rate is not None:
            values["learning_rate"] = [self.rate(step) for step in range(first, first + len(losses))]
        self._context.measured(first, values, since=since, until=until)
        if not math.isfinite(sum(losses)):
            self._tell_of_nan(first, losses)

    def _tell_of_nan(self, first: int, losses: list[float]) -> None:
        at, loss = next(((at, loss) for at, loss in enumerate(losses) if not math.isfinite(loss)), (0, 0.0))
        if math.isfinite(loss):
            return  # only their sum is too large for a float
        what = f"The loss is {loss} at step {first + at}."
        advice = "A lower learning rate, warm-up or gradient clipping may help; look for such values in the data, too."
        if self._context.training.stop_on_nan:
            raise NotFiniteError(f"{what} Training was to stop at it. {advice}")
        if not self._told_of_nan:
            self._told_of_nan = True
            self._context.notice(f"{what} Training goes on. {advice}")


class RankedMetricsReporter(MetricsReporter):
    """Gathers the losses of all ranks; only rank 0 decides, and tells the others in the same reduction.

    The steps between two reductions are agreed beforehand: ranks that looked at a clock or a file
    each for itself would enter the collective at different steps and wait for each other for ever.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._shares: list[float] = []
        self._countdown = 1
        self._cost_s = 0.0
        """What a report takes, of late: milliseconds where ranks work one after another, and stand still for it."""

    def step(self, loss: Any, share: float = 1.0) -> int:  # noqa: ANN401 (a scalar of the framework's, on its device)
        """Count one step with this rank's mean loss, which weighs `share` in the global batch's."""
        self._losses.append(loss)
        self._shares.append(share)
        self.steps += 1
        if self._since is None:
            self._since = time.time()
        self._countdown -= 1
        if self._countdown == 0:
            self.report()
        return self.asked

    def report(self, numbers: Sequence[float] = ()) -> list[float]:
        """One reduction: the losses, rank 0's decision and next interval, ends of epochs put off, and `numbers`."""
        self._settle(self._losses)
        first = self._context.rank == 0
        decision = [float(self.look()), float(self._next_interval())] if first else [0.0, 0.0]
        of_ends = self._of_ends
        at = len(self._losses) + len(decision)
        began = time.monotonic()
        sums = self._reduce(self._losses, self._shares, [*decision, *of_ends, *numbers])
        took = min(time.monotonic() - began, SELDOM_S * REPORTS_SHARE)  # no more: once, a rank may come seconds later
        self._cost_s += (took - self._cost_s) / OFTEN
        losses, (asked, interval), added_up = sums[: at - 2], sums[at - 2 : at], sums[at + len(of_ends) :]
        self._tell(losses, sums[at : at + len(of_ends)])
        self._shares = []
        self.asked = round(asked)
        self._interval = self._countdown = max(1, round(interval))
        self._reported = time.monotonic()
        return added_up

    @property
    def _every_s(self) -> float:
        return min(SELDOM_S, max(REPORT_EVERY_S, self._cost_s / REPORTS_SHARE))

    @property
    def _is_behind(self) -> bool:
        return 2 * self._countdown <= self._interval  # for less, ranks do not meet

    def agree(self, number: float) -> float:
        """The number that rank 0 gives here."""
        return self.add_up([number if self._context.rank == 0 else 0.0])[0]

    def all_well(self, *, ok: bool) -> bool:
        """Whether all ranks say so; none goes on before all have said it."""
        return self.add_up([0.0 if ok else 1.0])[0] == 0

    def add_up(self, numbers: list[float]) -> list[float]:
        """Their sums over all ranks."""
        return self._reduce([], [], numbers)

    def _settle(self, losses: list[Any]) -> None:
        """Wait until these are computed, if they are not: else the steps' own time would be taken for the report's."""

    def _reduce(self, losses: list[Any], shares: list[float], numbers: list[float]) -> list[float]:
        """In one reduction, the sums over all ranks of each loss times its share, and of each number."""
        raise NotImplementedError


class _Mean:
    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def add(self, values: Sequence[float]) -> None:
        self.sum += sum(values)
        self.count += len(values)

    def restore(self, total: float, count: int) -> None:
        """Go on from a checkpoint."""
        self.sum, self.count = total, count

    def take(self) -> float | None:
        """The mean so far, from which on it begins anew; None of nothing."""
        mean = self.sum / self.count if self.count else None
        self.sum, self.count = 0.0, 0
        return mean
