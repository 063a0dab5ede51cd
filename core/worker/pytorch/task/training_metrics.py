"""Measure the recipe's metrics on training batches of PyTorch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ....language import tr
from ...training import training_metrics
from ...training.training_metrics import Cost, median
from .data import map_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class TrainingMetrics(training_metrics.TrainingMetrics):
    """Measures in the steps that are due.

    The metrics see the output as it was computed for the loss, with dropout, and run without gradients. A value is the
    mean over the global batch: micro-batches and ranks are weighted by their items.
    """

    def __init__(self, names: Iterable[str], device: torch.device) -> None:
        super().__init__(names)
        self._device = device
        self._parts: list[Tensor] = []
        """The current step's values, times the shares of its micro-batches."""
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
        row = self._parts[0] if self._parts else torch.zeros(len(self.names), device=self._device)
        for part in self._parts[1:]:
            row = row + part
        self._keep(step, row)
        self._parts = []

    def take(self, elapsed_s: float) -> tuple[list[float], Cost]:
        """Return the values since the last report, and what they took; see the base class."""
        values = torch.stack(self._rows).flatten().tolist() if self._rows else []
        spent_s = self._watch.take()
        measured = len(self._rows) if spent_s else 0  # of a pipeline, only the last rank measures
        if self._device.type == "cpu":  # a GPU's steps end later than their calls
            elapsed_s = median(self._steps_s) * len(self._steps_s)
        self._rows, self._steps_s = [], []
        return values, Cost.of(spent_s, measured, elapsed_s)

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
