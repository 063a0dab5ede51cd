"""The validation of a PyTorch model: its sums over the data, measured on the device, and a poll of all ranks."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import torch

from ...training.epoch_results import means_by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor, nn

    from ...context import Context
    from ...training.controller import TrainingController
    from ...training.epoch_results import Values
    from ...training.metrics_reporter import MetricsReporter
    from ..task.build import Task
    from ..task.data import MicroBatch

    Own = tuple[float | Tensor, Sequence[Tensor]] | None
    """What this rank has measured on a batch: the items, or a weight, and the means over them; None for nothing."""

POLL_EVERY_S = 1.0
"""Seconds between two polls for a request during a validation: each poll makes all ranks wait for the slowest."""


class Validation:
    """Sums over a validation set: its means are weighted by batch size, and ranks can be added up."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        controller: TrainingController,
        *,
        before: Callable[[nn.Module], object] | None = None,
        poll: EndRequestPoll | None = None,
        batches: Callable[[], Iterator[Own]] | None = None,
    ) -> None:
        """`before`: called with the model before it is validated.

        `poll`: where a forward pass takes all ranks: each takes part in every batch, and all end after the same one.
        `batches`: measures batch by batch, instead of the model.
        """
        self._task, self._model, self._controller = task, model, controller
        self._before, self._poll, self._batches = before, poll, batches or self._own_batches

    def means(self) -> Values | None:
        """Return the means by Keras' names, equal on every rank. Empty without a validation set, or if cut short.

        None where ranks do not wait for each other's sums: the controller computes the means later.
        """
        if self._task.val is None:
            return {}
        sums = self.sums().tolist()
        return self._controller.finish_validation(sums, means_by_name(self._names))

    @property
    def _names(self) -> Sequence[str]:
        reader = self._task.validation_step
        if reader is None:
            return ["loss", *self._task.metrics]
        assert reader.names is not None, "no batch was measured"
        return reader.names

    @torch.no_grad()
    def sums(self) -> Tensor:
        """Return this rank's sums of loss and metrics, the number of items, and 1 if the validation was cut short.

        Shape (1 + metrics + 2), on the device.
        """
        assert self._task.val is not None
        tally, cut = Tally(), 0.0
        ends = self._controller.cuts_validation
        if self._before is not None:
            self._before(self._model)
        if self._poll is not None:
            self._poll.begin()
            ends = self._poll.ends
        self._model.eval()
        for own in self._batches():
            if own is not None:
                tally.add(*own)
            if ends():
                cut = 1.0
                self._controller.synchronises = True  # all ranks end here
                break
        self._model.train()
        return tally.sums(len(self._names), self._task.val.device, cut)

    def _own_batches(self) -> Iterator[Own]:
        """Measure this rank's slice of each batch with the model."""
        task = self._task
        assert task.val is not None
        for step, (batch,) in enumerate(task.val.in_order()):
            # Without an item, too, where other ranks wait for this one. A step's names are known once it was called.
            is_named = task.validation_step is None or task.validation_step.names is not None
            needed = batch.share or self._poll is not None or not is_named
            own = self._weigh(batch, batch.share * task.val.size(step)) if needed else None
            yield own if batch.share else None

    def _weigh(self, batch: MicroBatch, items: float) -> Own:
        """Return what a batch of so many items counts, and the means over it."""
        task, reader, autocast = self._task, self._task.validation_step, self._task.autocast or contextlib.nullcontext()
        if reader is None:
            with autocast:
                output = self._model(*batch.inputs)
            return items, losses_and_metrics(task, output, batch.target)
        with autocast:
            measured = reader.read(self._model(batch.data))
        return items if measured.weight is None else measured.weight, measured.values.reshape(-1).unbind()


def losses_and_metrics(task: Task, output: Any, target: Tensor) -> list[Tensor]:  # noqa: ANN401 (whatever the model gives)
    """Return loss and metrics of a model's output, each the mean over the batch."""
    with task.autocast or contextlib.nullcontext():
        loss = task.loss(output, target)
    return [loss, *(_scalar(metric(output, target), loss.device) for metric in task.metrics.values())]


def _scalar(value: Any, device: torch.device) -> Tensor:  # noqa: ANN401 (a number or a tensor, depending on the metric)
    is_there = isinstance(value, torch.Tensor) and value.device == device
    return value if is_there else torch.as_tensor(value, device=device)


class Tally:
    """Sums of per-batch means, weighted by batch size, on their device.

    Batches are added up `AT_ONCE` at a time, since each operation on a scalar costs microseconds. The number is fixed,
    so that equal measurements have equal sums to the last bit.
    """

    AT_ONCE = 64

    def __init__(self) -> None:
        self._items: list[float | Tensor] = []
        self._means: list[Tensor] = []
        self._sums: Tensor | float = 0.0
        self._count = 0.0

    def add(self, items: float | Tensor, means: Sequence[Tensor]) -> None:
        """Add the means over a batch of `items` items, each a scalar. `items` may be a weight on the device."""
        self._items.append(items)
        self._means.append(torch.stack([mean.float() for mean in means]))
        if len(self._items) == self.AT_ONCE:
            self._add_up()

    def sums(self, size: int, device: torch.device, cut: float) -> Tensor:
        """Return the sums of all `size` means, the number of items, and `cut`: float64, shape (size + 2)."""
        self._add_up()
        ends = torch.tensor([self._count, cut], dtype=torch.float64, device=device)
        return torch.cat([torch.zeros(size, dtype=torch.float64, device=device) + self._sums, ends])

    def _add_up(self) -> None:
        if self._items:
            means = torch.stack(self._means).double()
            if isinstance(self._items[0], torch.Tensor):
                weights = torch.stack([torch.as_tensor(each) for each in self._items]).double().to(means.device)
                self._count += float(weights.sum())
            else:
                weights = torch.tensor(self._items, dtype=torch.float64)
                weights = weights.to(means.device, non_blocking=True)  # without waiting for the GPU
                self._count += float(sum(self._items))
            self._sums = self._sums + (weights[:, None] * means).sum(0)
            self._items, self._means = [], []


class EndRequestPoll:
    """Polls for a request to end while ranks compute together: all ranks poll after the same batch.

    Rank 0 reads the requests about once a second, and decides after how many batches to poll again.
    """

    def __init__(self, context: Context, reporter: MetricsReporter) -> None:
        self._context, self._reporter = context, reporter
        self._interval = self._left = 1
        self._polled = time.monotonic()

    def begin(self) -> None:
        """Start a new series of batches. The interval is kept, so a series shorter than it costs no poll at all."""
        self._left = self._interval
        self._polled = time.monotonic()

    def ends(self) -> bool:
        """Return whether to end here. Every rank must call this after each batch."""
        self._left -= 1
        if self._left:
            return False
        decision = self._reporter.broadcast(self._decide() if self._context.rank == 0 else 0)
        self._interval = self._left = max(1, round(decision))
        self._polled = time.monotonic()
        return decision == 0

    def _decide(self) -> float:
        """Return the batches until the next poll, at most twice as many as before; 0 to end."""
        if self._context.end_requested():
            return 0
        elapsed = max(time.monotonic() - self._polled, 1e-6)
        return max(1, min(int(self._interval / elapsed * POLL_EVERY_S), 2 * self._interval))
