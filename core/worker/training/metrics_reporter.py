"""Report the losses of the steps: kept on the device and fetched together, at least once a second but not per step."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...language import join_sentences, tr
from ...schema.event_kinds import NotFinite
from ..context import REPORT_EVERY_S
from .metrics import LOSS, Cost, EpochMeans
from .step_times import StepTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ..context import Context
    from .metrics import TrainingMetrics

REPORTS_SHARE = 1 / 200
"""Share of the time that reports of several ranks may take. Slower reports are made less often."""
MAX_INTERVAL_S = 1.0
"""Largest time in seconds between two reports, whatever they cost: requests are read at a report."""
OFTEN = 8
"""Reports per epoch from which on one more report at the epoch's end is cheap."""
REPORTED = 8
"""A skipped step is reported if it is the first, or if their number is a power of this."""


class NotFiniteError(RuntimeError):
    """A loss is not finite, and the run's settings end the training there."""


class EpochEnd(NamedTuple):
    """An end of an epoch that the next report records."""

    losses: int
    """Losses gathered before it since the last report."""
    since: float | None
    until: float | None
    """Unix times of the first and of the last step before it."""
    numbers: Sequence[float]
    """This rank's sums of the validation; empty without one."""
    record: Callable[[Sequence[float]], None]
    """Called with their sums over all ranks."""


class Ranks(Protocol):
    """What several ranks send each other. Every rank makes the same calls in the same order."""

    in_step: bool
    """Whether ranks wait for each other within every step, so that one more reduction holds none of them up."""

    def wait_for(self, losses: list[Any]) -> None:
        """Wait until the losses are computed: else the steps' own time would count as the report's."""

    def reduce(self, losses: list[Any], shares: list[Any], numbers: list[float]) -> list[float]:
        """Return, in one reduction, the sums over all ranks of each loss times its share, and of each number.

        Where steps have metrics, each loss is a row of loss and metrics.
        """

    def collect_files(self, folder: Path) -> None:
        """Bring the files that ranks on other machines have written in this folder to the machine of rank 0.

        Raises `OSError` where they cannot be written.
        """


class MetricsReporter:
    """Gather the losses of the steps: one process reports them every quarter of a second, several ranks as they agree.

    Rank 0 decides; its decisions travel in the reduction of the losses. Ranks agree on the number of steps between two
    reductions. If each rank looked at a clock or a file, they would enter the collective at different steps and wait
    for each other for ever.
    """

    def __init__(
        self,
        context: Context,
        *,
        ranks: Ranks | None = None,
        names: Callable[[], Sequence[str]] = lambda: (LOSS,),
        fetch: Callable[[list[Any]], list[float]] = lambda losses: list(map(float, losses)),
        metrics: TrainingMetrics | None = None,
        times: StepTimes | None = None,
        after_report: Callable[[int], object] | None = None,
    ) -> None:
        """`ranks`: of several; None for one process.

        `names`: returns what each step is reported with: the loss, and the metrics of a recipe's own step. `fetch`:
        returns the values of steps, step by step, in one transfer from the device. `metrics`: what is measured on
        training batches. `times`: measures steps. `after_report`: called with the number of steps that were reported.
        """
        self._context = context
        self._ranks, self._names, self._fetch = ranks, names, fetch
        self._metrics, self._after_report = metrics, after_report
        self.times = times or StepTimes(context)
        self.steps = 0
        """Optimizer steps done."""
        self.requests = 0
        """The requests as of the last report: bits of `Request`. Whoever handles them sets this to 0."""
        self.read_requests: Callable[[], int] = context.requests
        """Returns the pending requests. Only rank 0's answer counts."""
        self.first_rate: float | None = None
        """The learning rate at the start of the training; None if it is unknown."""
        self.rate_of_step: Callable[[int], float] | None = None
        """Returns the learning rate of a step, where it varies from step to step."""
        self.means = EpochMeans()
        """The means of what was reported since the epoch began."""
        self._losses: list[Any] = []
        self._shares: list[Any] = []
        self._ends: list[EpochEnd] = []
        self._since: float | None = None
        self._until: float | None = None
        self._learning_rate: float | None = None
        self._reported_nan = False
        self._interval = self._countdown = 1  # steps between two reports, and until the next one of several ranks
        self._cost_s = 0.0
        """Moving average of a report's seconds: milliseconds where ranks share a core and wait for each other."""
        self._reported = time.monotonic()
        self._due = 0.0  # report the first step at once, so that the curve begins when training does
        self._is_reporting = False
        """Whether a report is under way, or was when an error ended it."""
        if ranks is None:  # after an error the other ranks may never give their parts of the losses
            context.record_last = self.record_last

    def step(self, loss: Any, share: Any = 1.0) -> int:  # noqa: ANN401 (scalars of the framework's, on their device)
        """Count one optimizer step with its detached loss. Return the requests as of the last report.

        `share`: the weight of the loss in the global batch's loss, where ranks train parts of it.
        """
        if self.times.runs:
            self.times.end(self.steps + 1, loss)
        if self._metrics is not None:
            self._metrics.end_step(self.steps + 1)
        self._losses.append(loss)
        self.steps += 1
        if self._since is None:
            self._since = time.time()
        if self._ranks is None:
            if time.monotonic() >= self._due:
                self.report()
        else:
            self._shares.append(share)
            self._countdown -= 1
            if self._countdown == 0:
                self.report()
        if self._metrics is not None:
            self._metrics.begin_step(self.steps + 1)
        if self.steps + 1 == self.times.at:
            self.times.begin()
        return self.requests

    def record_learning_rate(self, rate: float) -> None:
        """Record the epoch's learning rate if it differs from the last one: few lines for long runs."""
        if self.rate_of_step is None and rate != self._learning_rate and self._context.rank == 0:
            self._learning_rate = rate
            self._context.record_metrics(self.steps, {"learning_rate": [rate]})

    def record_validation(
        self, values: Mapping[str, Sequence[float]], *, step: int | None = None, ended: float | None = None
    ) -> None:
        """Record the means of a validation after `step`, which ended at the unix time `ended`; None for now."""
        if self._context.rank == 0:
            self._context.record_metrics(self.steps if step is None else step, values, until=ended)

    def begin_epoch(self) -> None:
        """Begin the means of an epoch whose end was reported: the next step is measured, so that each has a mean."""
        if self._metrics is not None:
            self._metrics.count_from(self.steps + 1)

    def before_validation(self, *, synchronises: bool) -> None:
        """Bring the curve up to date before a validation, which may be long.

        `synchronises`: whether ranks synchronise at its end.
        """
        # A few steps of several ranks are not worth a reduction.
        if synchronises and (self._ranks is None or 2 * self._countdown <= self._interval):
            self.report()
        self._until = time.time()  # losses reported later were measured until now

    def defer_epoch_end(self, numbers: Sequence[float], record: Callable[[Sequence[float]], None]) -> None:
        """Let the next report record an epoch's end: it calls `record` with the sums of `numbers` over all ranks.

        The order is kept: losses before the end, the end, losses after it.
        """
        self._ends.append(EpochEnd(len(self._losses), self._since, self._until, numbers, record))
        self._until = None
        if numbers:  # `record` writes between the losses, so the next losses are a batch of their own
            self._since = None

    def reports_often_in(self, steps: int) -> bool:
        """Return whether one more report in so many steps costs almost nothing; equal on all ranks."""
        return (
            (self._ranks is not None and self._ranks.in_step) or self._interval == 1 or steps >= OFTEN * self._interval
        )

    def report(self, numbers: Sequence[float] = ()) -> list[float]:
        """Fetch and record the losses gathered (the only wait for the device), and read the requests.

        Return the sums of `numbers` over all ranks. Every rank must give equally many. Of several ranks, one reduction
        carries everything.
        """
        if self._ranks is not None:
            return self._report_all(self._ranks, numbers)
        self._is_reporting = True
        self._interval = self._next_interval()
        self._record_own()
        self._is_reporting = False
        self.times.plan(self.steps, self._interval, due=self.times.is_due())
        self.requests = self.read_requests()
        self._reported = time.monotonic()
        self._due = self._reported + REPORT_EVERY_S
        return list(numbers)

    def _report_all(self, ranks: Ranks, numbers: Sequence[float]) -> list[float]:
        """Reduce losses, metrics, the decision of rank 0, deferred epoch ends and `numbers`, all at once."""
        ranks.wait_for(self._losses)
        first = self._context.rank == 0
        decision = [0.0, 0.0, 0.0]
        if first:
            decision = [float(self.read_requests()), float(self._next_interval()), float(self.times.is_due())]
        deferred, metrics = self._deferred_numbers, self._take_metrics()
        began = time.monotonic()
        sums = ranks.reduce(self._losses, self._shares, [*decision, *deferred, *numbers, *metrics])
        took = min(time.monotonic() - began, MAX_INTERVAL_S * REPORTS_SHARE)  # limited: a rank may be seconds late
        self._cost_s += (took - self._cost_s) / OFTEN
        at = len(self._losses) * len(self._names())
        (requests, interval, due), end = sums[at : at + 3], len(sums) - len(metrics)
        numbers_at = at + 3 + len(deferred)
        self._record_metrics(sums[end:])
        self._record(sums[:at], sums[at + 3 : numbers_at])
        self._shares = []
        self.requests = round(requests)
        self._interval = self._countdown = max(1, round(interval))
        self.times.plan(self.steps, self._interval, due=due > 0)
        self._reported = time.monotonic()
        return sums[numbers_at:end]

    def record_last(self) -> None:
        """Record the losses gathered since the last report, when an error has ended the training.

        Raises whatever the framework does if it cannot fetch them any more.
        """
        if self._losses and not self._is_reporting:
            self._record_own()

    def broadcast(self, number: float) -> float:
        """Return rank 0's number. Every rank must call this."""
        return self.sum_over_ranks([number if self._context.rank == 0 else 0.0])[0]

    def share(self, thing: Any) -> Any:  # noqa: ANN401 (JSON)
        """Return what rank 0 gives, which can be written as JSON. Every rank must call this."""
        own = json.dumps(thing).encode() if self._context.rank == 0 else b""
        size = round(self.broadcast(len(own)))
        codes = self.sum_over_ranks([float(code) for code in own] or [0.0] * size)
        return json.loads(bytes(map(round, codes)))

    def all_ok(self, *, ok: bool) -> bool:
        """Return whether all ranks give `ok`. No rank continues before all have called this."""
        return self.sum_over_ranks([0.0 if ok else 1.0])[0] == 0

    def sum_over_ranks(self, numbers: list[float]) -> list[float]:
        """Return the sums of the numbers over all ranks. Every rank must give equally many."""
        return numbers if self._ranks is None else self._ranks.reduce([], [], numbers)

    def collect_files(self, folder: Path) -> None:
        """Bring files to the machine of rank 0, see `Ranks`. Every rank must call this."""
        if self._ranks is not None:
            self._ranks.collect_files(folder)

    def _next_interval(self) -> int:
        """Return the steps until the next report, at most twice as many as before."""
        elapsed = time.monotonic() - self._reported
        if not self._losses or elapsed <= 0:
            return self._interval
        every_s = min(MAX_INTERVAL_S, max(REPORT_EVERY_S, self._cost_s / REPORTS_SHARE))
        wanted = int(len(self._losses) / elapsed * every_s)
        return max(1, min(wanted, 2 * self._interval))

    def _take_metrics(self) -> list[float]:
        """Return what this rank has measured on training batches since the last report, and what that took."""
        if self._metrics is None or not self._losses:
            return []
        values, cost = self._metrics.take(time.monotonic() - self._reported)
        return [*values, *(cost._replace(elapsed_us=0.0) if self._context.rank else cost)]

    def _record_metrics(self, taken: Sequence[float]) -> None:
        """Record what `_take_metrics` returned, added up over all ranks. The losses are recorded after it."""
        metrics = self._metrics
        if metrics is None or not taken:
            return
        at = len(taken) - len(Cost._fields)
        if at and self._context.rank == 0:
            size = len(metrics.names)
            columns = {name: taken[number:at:size] for number, name in enumerate(metrics.names)}
            for name, values in columns.items():
                self.means.add(name, values)
            self._context.record_metrics(
                metrics.first, columns, since=self._since, until=self._until, every=metrics.every
            )
        metrics.plan(Cost(*taken[at:]), steps=len(self._losses))
        metrics.begin_step(self.steps + 1)  # reports also come between two steps

    def _record_own(self) -> None:
        """Fetch and record what this process has gathered."""
        self._record_metrics(self._take_metrics())
        self._record(self._fetch(self._losses) if self._losses else [], self._deferred_numbers)

    @property
    def _deferred_numbers(self) -> list[float]:
        """The numbers of all deferred epoch ends."""
        return [number for end in self._ends for number in end.numbers]

    def _record(self, values: list[float], sums: Sequence[float]) -> None:
        """Record losses and epoch ends in order. `sums`: the deferred numbers, summed over all ranks."""
        names = self._names()
        columns = {name: values[at :: len(names)] for at, name in enumerate(names)}
        losses = columns["loss"]
        first = self.steps - len(losses) + 1
        recorded = averaged = used = 0
        for count, since, until, numbers, record in self._ends:
            self._average(columns, averaged, count)
            averaged = count
            if numbers:
                part = {name: column[recorded:count] for name, column in columns.items()}
                self._record_losses(first + recorded, part, since, until)
                recorded = count
            record(sums[used : used + len(numbers)])
            used += len(numbers)
        self._average(columns, averaged, len(losses))
        part = {name: column[recorded:] for name, column in columns.items()}
        self._record_losses(first + recorded, part, self._since, self._until)
        self._losses, self._ends, self._since, self._until = [], [], None, None
        if self._after_report is not None:
            self._after_report(self.steps)

    def _average(self, columns: Mapping[str, Sequence[float]], begin: int, end: int) -> None:
        """Add values of steps of one epoch to its means."""
        for name, column in columns.items():
            self.means.add(name, column[begin:end])

    def _record_losses(
        self, first: int, values: dict[str, list[float]], since: float | None, until: float | None
    ) -> None:
        losses = values["loss"]
        if not losses or self._context.rank:
            return
        if self.rate_of_step is not None:
            values["learning_rate"] = [self.rate_of_step(step) for step in range(first, first + len(losses))]
        self._context.record_metrics(first, values, since=since, until=until)
        if not math.isfinite(sum(losses)):
            self._report_nan(first, losses)

    def _report_nan(self, first: int, losses: list[float]) -> None:
        at, loss = next(((at, loss) for at, loss in enumerate(losses) if not math.isfinite(loss)), (0, 0.0))
        if math.isfinite(loss):
            return  # only the sum is too large for a float
        step = first + at
        rate = self.rate_of_step(step) if self.rate_of_step is not None else self._learning_rate or self.first_rate
        became = "NaN" if math.isnan(loss) else "infinite"
        what = (
            tr("The loss became {value} at step {step} (learning rate {rate:g}).", value=became, step=step, rate=rate)
            if rate
            else tr("The loss became {value} at step {step}.", value=became, step=step)
        )
        if self._context.computes_loss:
            what = join_sentences([what, self._context.computes_loss])
        advice = tr("Try a lower rate, warm-up or gradient clipping, and check the data for NaN.")
        if self._context.training.stop_on_nan:
            raise NotFiniteError(
                tr("{what} The run ended there, as its setting “Stop on NaN” says. {advice}", what=what, advice=advice)
            )
        if not self._reported_nan:
            self._reported_nan = True
            self._context.record(NotFinite(text=join_sentences([what, advice])))


class SkippedSteps:
    """The steps of one optimizer that were skipped since the training began."""

    def __init__(self, *, name: str = "") -> None:
        """`name`: the optimizer's, where there are several."""
        self._name = name
        self.count = 0
        self.reported = 0
        """Their number when it was last reported."""

    def report(self, context: Context, step: int, *, scale: float) -> None:
        """Tell about a skipped step after so many steps, but not about each: they may be many."""
        if context.rank or self.count < max(1, self.reported * REPORTED):
            return
        self.reported = self.count
        optimizer = tr(" of optimizer {name}", name=self._name) if self._name else ""
        context.notice(
            tr(
                "float16: {skipped} of the first {step} steps{optimizer} changed nothing, because a gradient was not "
                "finite. The loss is now scaled by {scale:g}. A few such steps at the start are usual; if they go on, "
                "choose bfloat16 or float32.",
                skipped=self.count,
                step=step,
                optimizer=optimizer,
                scale=scale,
            )
        )
