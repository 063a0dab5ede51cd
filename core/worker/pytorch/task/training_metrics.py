"""The recipe's metrics on training batches: measured in as many steps as take at most a hundredth of the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ....language import tr
from ...training.metric_schedule import MICRO, Cost, MetricSchedule, median
from ...training.metrics_reporter import MetricsReporter
from .nested import map_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...context import Context
    from ..loop.common import Task


class Rows(NamedTuple):
    """The values of some steps."""

    first: int
    every: int
    values: list[float]
    """Step by step, in the order of the metrics."""


class TrainingMetrics(MetricSchedule):
    """Measures in every n-th step, the same steps on all ranks.

    The metrics see the output as it was computed for the loss, with dropout, and run without gradients. A value is the
    mean over the global batch: micro-batches and ranks are weighted by their items.
    """

    def __init__(self, names: Iterable[str], device: torch.device) -> None:
        super().__init__()
        self.names = tuple(names)
        self._device = device
        self._first = 0
        self._parts: list[Tensor] = []
        """The current step's values, times the shares of its micro-batches."""
        self._rows: list[Tensor] = []
        self._watch = _Stopwatch(device)
        self._ended = time.perf_counter()
        """When the last step ended."""
        self._steps_s: list[float] = []

    def measure(self, metrics: Mapping[str, Callable[..., Any]], output: object, target: Tensor, share: float) -> None:
        """Measure a micro-batch whose items are this share of the global batch."""
        if not share:
            return  # an idle item
        self._watch.start()
        with torch.no_grad():
            output = output.detach() if isinstance(output, Tensor) else map_tensors(Tensor.detach, output)
            values = [self._scalar(name, metric(output, target)) for name, metric in metrics.items()]
            row = values[0].reshape(1) if len(values) == 1 else torch.stack(values)
            self._parts.append(row if share == 1.0 else row * share)
        self._watch.stop()

    def end_step(self, step: int) -> None:
        """Keep what was measured in a step, for the next report."""
        now = time.perf_counter()
        self._steps_s.append(now - self._ended)
        self._ended = now
        if not self.is_due:
            return
        if not self._rows:
            self._first = step
        row = self._parts[0] if self._parts else torch.zeros(len(self.names), device=self._device)
        for part in self._parts[1:]:
            row = row + part
        self._rows.append(row)
        self._parts = []

    def take(self, elapsed_s: float) -> tuple[Rows, Cost]:
        """Return what this rank has measured since the last report, so many seconds ago, and what it took."""
        values = torch.stack(self._rows).flatten().tolist() if self._rows else []
        spent_s = self._watch.take()
        measured = len(self._rows) if spent_s else 0  # of a pipeline, only the last rank measures
        if self._device.type == "cpu":  # a GPU's steps end later than their calls
            elapsed_s = median(self._steps_s) * len(self._steps_s)
        self._rows, self._steps_s = [], []
        cost = Cost(float(round(spent_s * MICRO)), float(measured), float(round(elapsed_s * MICRO)))
        return Rows(self._first, self._every, values), cost

    def _scalar(self, name: str, value: Any) -> Tensor:  # noqa: ANN401 (whatever the recipe's function returned)
        is_number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
        if not is_number and not hasattr(value, "item"):
            raise self._not_a_number(name, type(value).__name__)
        found = torch.as_tensor(value, device=self._device)
        if found.numel() != 1:
            raise self._not_a_number(name, tr("a tensor of shape {shape}", shape=tuple(found.shape)))
        return found.float().reshape(())

    @staticmethod
    def _not_a_number(name: str, kind: str) -> TypeError:
        return TypeError(
            tr(
                "The metric {name!r} of metrics() returned {kind}. Return one number: the mean over the batch.",
                name=name,
                kind=kind,
            )
        )


class MeasuringReporter(MetricsReporter):
    """Adds the training metrics to a reporter that it is mixed into."""

    def __init__(self, context: Context, task: Task) -> None:
        super().__init__(context, task)  # type: ignore[call-arg]  # of the reporter that this is mixed into
        assert task.training_metrics is not None
        self._metrics = task.training_metrics

    def step(self, loss: Any, share: Any = 1.0) -> int:  # noqa: ANN401 (scalars of the framework's)
        """Count one step; see `MetricsReporter.step`."""
        self._metrics.end_step(self.steps + 1)
        requests = super().step(loss, share)
        self._metrics.begin_step(self.steps + 1)
        return requests

    def begin_epoch(self) -> None:
        """Measure the next step."""
        self._metrics.count_from(self.steps + 1)

    def _take(self) -> tuple[Rows, Cost]:
        return self._metrics.take(time.monotonic() - self._reported)

    def _plan(self, cost: Cost) -> None:
        """Decide which of the next steps are measured. Reports also come between two calls of `step`."""
        self._metrics.plan(cost, steps=len(self._losses))
        self._metrics.begin_step(self.steps + 1)

    def _record_metrics(self, rows: Rows) -> None:
        """Record the values of the measured steps, added up over all ranks. Call it before the losses are recorded."""
        if not rows.values or self._context.rank:
            return
        names = self._metrics.names
        columns: dict[str, Sequence[float]] = {
            name: rows.values[at :: len(names)] for at, name in enumerate(names)
        }  # fmt: skip
        for name, values in columns.items():
            self.means.add(name, values)
        self._context.record_metrics(rows.first, columns, since=self._since, until=self._until, every=rows.every)


class _Stopwatch:
    """Measures the time between starts and stops: the host's or, if that is more, the GPU's."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._began = 0.0
        self._spent_s: list[float] = []
        self._events: list[tuple[Any, Any]] = []  # torch's events are not typed

    def start(self) -> None:
        self._began = time.perf_counter()
        if self._is_cuda:
            self._events.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))  # type: ignore[no-untyped-call]
            self._events[-1][0].record()

    def stop(self) -> None:
        if self._is_cuda:
            self._events[-1][1].record()
        self._spent_s.append(time.perf_counter() - self._began)

    def take(self) -> float:
        """Return the seconds since the last call. Call it when the GPU has done what was measured.

        The median stands for each time, here and for steps: when another process had the core, it was no cost of ours.
        """
        on_gpu_s = [begin.elapsed_time(end) / 1e3 for begin, end in self._events]
        found: float = max(median(self._spent_s), median(on_gpu_s)) * len(self._spent_s)
        self._spent_s, self._events = [], []
        return found
