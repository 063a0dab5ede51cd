"""What the loops of PyTorch share: the task, one step's passes, validation."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..context import REPORT_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from ..context import Context
    from ..controller import TrainingController, TrainingSize, Values
    from ._data import Batches, MicroBatch

    Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Task:
    """A recipe's parts, built: all that a loop needs besides the loop."""

    model: nn.Module
    loss: Loss
    optimizer: torch.optim.Optimizer
    train: Batches
    val: Batches | None
    metrics: Mapping[str, Callable[[Tensor, Tensor], Tensor]]
    autocast: AbstractContextManager[Any] | None
    """For bfloat16, reusable; None for float32, since entering even an empty context costs microseconds a step."""

    @property
    def size(self) -> TrainingSize:
        """How much there is in an epoch."""
        return {
            "steps_per_epoch": self.train.steps,
            "samples_per_epoch": self.train.items,
            "validates": self.val is not None,
        }


def learning_rate(optimizer: torch.optim.Optimizer) -> float:
    """The first group's rate."""
    return float(optimizer.param_groups[0]["lr"])


def backward(task: Task, model: nn.Module, batch: MicroBatch, scale: float) -> Tensor:
    """One forward and backward pass; gradients are of `scale` times the mean loss. Returns the mean loss, detached."""
    if task.autocast is None:
        loss = task.loss(model(*batch.inputs), batch.target)
    else:
        with task.autocast:
            loss = task.loss(model(*batch.inputs), batch.target)
    if scale == 1.0:  # spares a small model a multiplication forth and back
        loss.backward()  # type: ignore[no-untyped-call]
    else:
        (loss * scale).backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def passes(task: Task, model: nn.Module, micro_batches: list[MicroBatch]) -> Tensor:
    """All passes of one optimizer step in one process. Returns the mean loss over the batch, detached."""
    if len(micro_batches) == 1:
        return backward(task, model, micro_batches[0], 1.0)
    losses = [backward(task, model, batch, batch.share) * batch.share for batch in micro_batches]
    return torch.stack(losses).sum()


class Validation:
    """Sums over a validation set, so that means are weighted by size and ranks can be added up."""

    def __init__(self, task: Task, context: Context, model: nn.Module, course: TrainingController) -> None:
        self._task, self._context, self._model, self._course = task, context, model, course

    def means(self) -> Values | None:
        """The means by Keras' names, the same on every rank; nothing without a set, or when a request cut it short.

        None where ranks do not wait for each other's sums: the course makes the means of them later.
        """
        if self._task.val is None:
            return {}
        return self._course.conclude(self.sums().tolist(), self._means_of)

    def _means_of(self, totals: Sequence[float]) -> Values:
        """The means of what `sums` gives, over all ranks."""
        *sums, items, cut = totals
        if cut or not items:
            return {}
        names = ["val_loss", *(f"val_{name}" for name in self._task.metrics)]
        return {name: [value / items] for name, value in zip(names, sums, strict=True)}

    @torch.no_grad()
    def sums(self) -> Tensor:
        """This rank's sums of loss and metrics, how many items they are over, and 1 if it was cut short.

        Shape (1 + metrics + 2), on the device. A request to stop or to pause cuts a long validation short; not where
        ranks do not meet at its end, since the others would not know.
        """
        batches = self._task.val
        assert batches is not None
        tally, cut = Tally(), False
        due = time.monotonic() + REPORT_EVERY_S
        self._model.eval()
        for step, (batch,) in enumerate(batches.in_order()):
            if batch.share:
                tally.add(batch.share * batches.size(step), self._measure(batch))
            if time.monotonic() >= due:
                due = time.monotonic() + REPORT_EVERY_S
                if self._course.meets and self._context.end_requested():
                    cut = True
                    break
        self._model.train()
        return self._ended(tally, cut=cut)

    def _ended(self, tally: Tally, *, cut: bool) -> Tensor:
        """What `sums` gives."""
        assert self._task.val is not None
        return tally.sums(1 + len(self._task.metrics), self._task.val.device, 1.0 if cut else 0.0)

    def _measure(self, batch: MicroBatch) -> list[Tensor]:
        """Loss and metrics, each the mean over the batch."""
        if self._task.autocast is None:
            return self._judge(self._model(*batch.inputs), batch.target)
        with self._task.autocast:
            output = self._model(*batch.inputs)
        return self._judge(output, batch.target)

    def _judge(self, output: Any, target: Tensor) -> list[Tensor]:  # noqa: ANN401 (whatever the model gives)
        """The same of what the model gave."""
        task = self._task
        with task.autocast or contextlib.nullcontext():
            loss = task.loss(output, target)
        return [loss, *(_scalar(metric(output, target), loss.device) for metric in task.metrics.values())]


def _scalar(value: Any, device: torch.device) -> Tensor:  # noqa: ANN401 (a number or a tensor, as the metric likes)
    is_there = isinstance(value, torch.Tensor) and value.device == device
    return value if is_there else torch.as_tensor(value, device=device)


class Tally:
    """Sums of what is measured batch by batch, on its device, and weighted by size.

    Added up many batches at a time, since each operation on so little costs microseconds; as many every time, so that
    the same measurements have the same sums to the last bit.
    """

    AT_ONCE = 64

    def __init__(self) -> None:
        self._items: list[float] = []
        self._means: list[Tensor] = []
        self._sums: Tensor | float = 0.0
        self._count = 0.0

    def add(self, items: float, means: Sequence[Tensor]) -> None:
        """The means over a batch of so many items, each a scalar."""
        self._items.append(items)
        self._means.append(torch.stack([mean.float() for mean in means]))
        if len(self._items) == self.AT_ONCE:
            self._add_up()

    def sums(self, size: int, device: torch.device, cut: float) -> Tensor:
        """The sums of all `size` means, the items that they are over, and `cut`: float64, shape (size + 2)."""
        self._add_up()
        ends = torch.tensor([self._count, cut], dtype=torch.float64, device=device)
        return torch.cat([torch.zeros(size, dtype=torch.float64, device=device) + self._sums, ends])

    def _add_up(self) -> None:
        if self._items:
            means = torch.stack(self._means).double()
            weights = torch.tensor(self._items, dtype=torch.float64)
            weights = weights.to(means.device, non_blocking=True)  # a GPU goes on with what is queued
            self._sums = self._sums + (weights[:, None] * means).sum(0)
            self._count += sum(self._items)
            self._items, self._means = [], []
