"""Measurements of the steps: kept on the device, fetched a few times a second, never waited for per step."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from .context import REPORT_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .context import Context


class NotFiniteError(RuntimeError):
    """A loss that is no number, where the run was to end at it."""


class Meter:
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
        self._since: float | None = None
        self._until: float | None = None
        self._learning_rate: float | None = None
        self._told_of_nan = False
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

    def validated(self, values: Mapping[str, Sequence[float]]) -> None:
        """Record the means of a validation; what the steps before it measured comes first."""
        if self._context.rank == 0:
            self._context.measured(self.steps, values)

    def steps_end(self) -> None:
        """Something else begins, such as a validation, which may be long: the curve is up to date meanwhile."""
        self.report()

    def report(self, numbers: Sequence[float] = ()) -> list[float]:
        """Fetch what was gathered (the only wait for the device), record it, look for requests.

        Returns the sums of `numbers` over all ranks, each of which has to give as many.
        """
        if self._losses:
            self._record(self._fetch(self._losses))
        self.asked = self.look()
        self._due = time.monotonic() + REPORT_EVERY_S
        return list(numbers)

    @property
    def is_due(self) -> bool:
        """Whether it is about time for a report: the same on all ranks."""
        return time.monotonic() >= self._due

    def agree(self, number: float) -> float:
        """The number that rank 0 gives here. Every rank has to ask."""
        return number

    def all_well(self, *, ok: bool) -> bool:
        """Whether all ranks say so; none goes on before all have said it."""
        return ok

    def add_up(self, numbers: list[float]) -> list[float]:
        """Their sums over all ranks, each of which has to ask for as many."""
        return numbers

    def _fetch(self, losses: list[Any]) -> list[float]:
        """The losses as numbers, in one transfer from the device."""
        return [float(loss) for loss in losses]

    def _record(self, losses: list[float]) -> None:
        first = self.steps - len(losses) + 1
        values = {"loss": losses}
        if self.rate is not None:
            values["learning_rate"] = [self.rate(step) for step in range(first, first + len(losses))]
        self._context.measured(first, values, since=self._since, until=self._until)
        self._losses = []
        self._since = None
        self.mean.add(losses)
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


class SharedMeter(Meter):
    """Gathers the losses of all ranks; only rank 0 decides, and tells the others in the same reduction.

    The steps between two reductions are agreed beforehand: ranks that looked at a clock or a file
    each for itself would enter the collective at different steps and wait for each other for ever.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._shares: list[float] = []
        self._interval = self._countdown = 1
        self._reported = time.monotonic()

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
        """One reduction: the global batches' losses, rank 0's decision, rank 0's next interval, and `numbers`."""
        first = self._context.rank == 0
        decision = [float(self.look()), float(self._next_interval())] if first else [0.0, 0.0]
        many = len(self._losses)
        sums = self._reduce(self._losses, self._shares, [*decision, *numbers])
        losses, (asked, interval), added_up = sums[:many], sums[many : many + 2], sums[many + 2 :]
        if losses and first:
            self._record(losses)
        self._losses, self._shares, self._since, self._until = [], [], None, None
        self.asked = round(asked)
        self._interval = self._countdown = max(1, round(interval))
        self._reported = time.monotonic()
        return added_up

    def steps_end(self) -> None:
        """Something else begins: the curve is nearly up to date meanwhile, and ranks need not wait for each other."""
        if self.is_due:
            self.report()
        self._until = time.time()  # what is reported later was measured until now

    @property
    def is_due(self) -> bool:
        """Whether half of the steps to the next report are done."""
        return 2 * self._countdown <= self._interval

    def agree(self, number: float) -> float:
        """The number that rank 0 gives here."""
        return self.add_up([number if self._context.rank == 0 else 0.0])[0]

    def all_well(self, *, ok: bool) -> bool:
        """Whether all ranks say so; none goes on before all have said it."""
        return self.add_up([0.0 if ok else 1.0])[0] == 0

    def add_up(self, numbers: list[float]) -> list[float]:
        """Their sums over all ranks."""
        return self._reduce([], [], numbers)

    def _reduce(self, losses: list[Any], shares: list[float], numbers: list[float]) -> list[float]:
        """In one reduction, the sums over all ranks of each loss times its share, and of each number."""
        raise NotImplementedError

    def _next_interval(self) -> int:
        """Steps until the next report: about a quarter of a second of them, at most twice as many as before."""
        elapsed = time.monotonic() - self._reported
        if not self._losses or elapsed <= 0:
            return self._interval
        wanted = int(len(self._losses) / elapsed * REPORT_EVERY_S)
        return max(1, min(wanted, 2 * self._interval))


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
