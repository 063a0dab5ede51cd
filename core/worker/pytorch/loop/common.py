"""What all PyTorch training loops share: the task, one step's passes, the optimizer step, validation, loss reports."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...context import REPORT_EVERY_S
from ...steps import turn_names
from ...training.metrics_reporter import MetricsReporter
from ..task.training_metrics import MeasuringReporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from ...context import Context
    from ...training.controller import TrainingController, TrainingSize
    from ...training.epoch_results import Values
    from ..task.data import Batches, MicroBatch
    from ..task.schedule import RecipeSchedule
    from ..task.steps import Measured, StepReader
    from ..task.stream import StreamBatches
    from ..task.training_metrics import TrainingMetrics
    from .scaling import LossScaler

    Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Task:
    """A recipe's parts, built: everything that a training loop needs."""

    model: nn.Module
    module: nn.Module
    """What strategies wrap and loops call: the model, with the recipe's own steps around it where it has them."""
    loss: Loss
    optimizer: torch.optim.Optimizer
    """The recipe's, or the first of several."""
    train: Batches | StreamBatches
    val: Batches | StreamBatches | None
    metrics: Mapping[str, Callable[[Tensor, Tensor], Tensor]]
    autocast: AbstractContextManager[Any] | None
    """For bfloat16 and float16, reusable. None for float32: entering even an empty context costs microseconds per
    step."""
    schedule: RecipeSchedule | None = None
    """The recipe's own schedule of the learning rate."""
    training_step: StepReader | None = None
    """Reads what the recipe's own `training_step` returns; None to train with `loss`."""
    validation_step: StepReader | None = None
    """Reads what the recipe's own `validation_step` returns; None to validate with `loss` and `metrics`."""
    training_metrics: TrainingMetrics | None = None
    """Measures `metrics` on training batches, too."""
    scaler: LossScaler | None = None
    """Scales the loss, for float16."""
    turns: tuple[Task, ...] = ()
    """A task for each of several optimizers; empty for one."""
    turn: tuple[str, ...] = ()
    """In such a task, the name of its optimizer: what the recipe's step gets after the batch."""

    def __post_init__(self) -> None:
        self.is_plain = self.autocast is None and self.training_metrics is None and self.scaler is None
        """Whether a pass is the model, the loss and nothing else. Asked in each step, so it is not a property."""
        self.forward: Callable[..., Any] = self.module if self.training_step is None else self.module.forward
        """The forward pass where no strategy wraps the module: a recipe's own step needs none of its hooks."""

    @property
    def value_names(self) -> Sequence[str]:
        """What each step is reported with: the loss, and the metrics of the recipe's own step."""
        if self.turns:
            return turn_names({each.turn[0]: each.training_step for each in self.turns if each.training_step})
        return (self.training_step and self.training_step.names) or ("loss",)

    @property
    def size(self) -> TrainingSize:
        """How long an epoch is."""
        return {
            "steps_per_epoch": self.train.steps,
            "samples_per_epoch": self.train.items,
            "validates": self.val is not None,
        }


def learning_rate(optimizer: torch.optim.Optimizer) -> float:
    """Return the first parameter group's learning rate."""
    return float(optimizer.param_groups[0]["lr"])


def backward(task: Task, model: Callable[..., Any], batch: MicroBatch, scale: float) -> Tensor:
    """Make one forward and backward pass on `scale` times the mean loss. Return the mean loss, detached."""
    loss = task.loss(model(*batch.inputs), batch.target) if task.is_plain else _measured_loss(task, model, batch)
    scaled = loss if scale == 1.0 else loss * scale  # saves a small model two multiplications
    if not task.is_plain and task.scaler is not None:
        scaled = task.scaler.scale(scaled)
    scaled.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def _measured_loss(task: Task, model: Callable[..., Any], batch: MicroBatch) -> Tensor:
    """Return the loss of a forward pass in the run's precision, and measure the metrics in the steps that do so."""
    if task.autocast is None:
        output = model(*batch.inputs)
        loss = task.loss(output, batch.target)
    else:
        with task.autocast:
            output = model(*batch.inputs)
            loss = task.loss(output, batch.target)
    if task.training_metrics is not None and task.training_metrics.is_due:
        with task.autocast or contextlib.nullcontext():
            task.training_metrics.measure(task.metrics, output, batch.target, batch.share)
    return loss  # before the backward pass, the output is free again


def step_backward(task: Task, module: Callable[..., Any], batch: MicroBatch, scale: float) -> Measured:
    """Make the pass of a recipe's own step on `scale` times its loss, or, if it has a weight, on weight times loss."""
    assert task.training_step is not None
    if task.autocast is None:
        measured = task.training_step.read(module(batch.data, *task.turn))
    else:
        with task.autocast:
            measured = task.training_step.read(module(batch.data, *task.turn))
    if not measured.loss.requires_grad:
        raise task.training_step.no_graph()
    if measured.weight is None:
        loss = measured.loss if scale == 1.0 else measured.loss * scale  # saves a small model two multiplications
    else:
        weight = measured.weight if batch.share else torch.zeros_like(measured.weight)
        measured = measured._replace(weight=weight)
        loss = measured.loss.float() * weight.float()
    if task.scaler is not None:
        loss = task.scaler.scale(loss)
    loss.backward()  # type: ignore[no-untyped-call]
    return measured


def merge(results: Sequence[Measured], micro_batches: Sequence[MicroBatch]) -> tuple[Tensor, float | Tensor]:
    """Return the mean values over micro-batches, and their weight: the sum of the shares, or of the steps' weights."""
    if results[0].weight is None:
        weights: list[Any] = [batch.share for batch in micro_batches]
    else:
        weights = [result.weight for result in results]
    if len(results) == 1:
        return results[0].values, weights[0]
    total = sum(weights[1:], start=weights[0])
    parts = [result.values * weight for result, weight in zip(results, weights, strict=True)]
    return torch.stack(parts).sum(0) / total, total


@torch.no_grad()
def scale_gradients(optimizer: torch.optim.Optimizer, factor: Tensor) -> None:
    """Multiply all gradients by a number; those of sharded parameters in place of their shards."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                gradient = own_part(parameter.grad)
                gradient.mul_(factor.to(gradient.device, gradient.dtype))


def own_part(gradient: Tensor) -> Tensor:
    """Return this rank's part of a gradient."""
    # Only a DTensor has `to_local`. Its class is not imported here: on one device it is not needed.
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def passes(task: Task, model: Callable[..., Any], micro_batches: list[MicroBatch]) -> Tensor:
    """Make all passes of one optimizer step in one process. Return the mean loss over the batch, detached.

    With a step of the recipe's own, it is followed by the step's metrics: shape (1 + metrics).
    """
    if task.training_step is not None:
        if len(micro_batches) == 1:
            results = [step_backward(task, model, micro_batches[0], 1.0)]
            if results[0].weight is None:
                return results[0].values
        else:
            results = [step_backward(task, model, batch, batch.share) for batch in micro_batches]
        values, weight = merge(results, micro_batches)
        if isinstance(weight, torch.Tensor):
            scale_gradients(task.optimizer, 1 / weight)
        return values
    if len(micro_batches) == 1:
        return backward(task, model, micro_batches[0], 1.0)
    losses = [backward(task, model, batch, batch.share) * batch.share for batch in micro_batches]
    return torch.stack(losses).sum()


class Reporter(MetricsReporter):
    """Reports the losses of one process, fetched from their device in one transfer."""

    def __init__(self, context: Context, task: Task) -> None:
        super().__init__(context)
        self._task = task

    @property
    def names(self) -> Sequence[str]:
        """What each step is reported with."""
        return self._task.value_names

    def _fetch(self, losses: list[Tensor]) -> list[float]:
        values: list[float] = torch.stack(losses).float().flatten().tolist()
        return values


class _MeasuringReporter(MeasuringReporter, Reporter):
    def _record(self, values: list[float], sums: Sequence[float]) -> None:
        rows, cost = self._take()
        self._plan(cost)
        self._record_metrics(rows)
        super()._record(values, sums)


def reporter(context: Context, task: Task) -> Reporter:
    """Return the reporter of one process."""
    return Reporter(context, task) if task.training_metrics is None else _MeasuringReporter(context, task)


def run_epochs(
    task: Task,
    controller: TrainingController,
    step: Callable[[Any], Any],
    validation: Validation,
    *,
    batches: Callable[[int, int], Iterable[Any]] | None = None,
    record: Callable[[Any], bool] | None = None,
) -> None:
    """Train to the last epoch, or until a stop or a pause is requested.

    `step` makes one optimizer step on a batch. `record` takes what it returns, by default a loss, and returns whether
    training ends there. `batches(epoch, skip)` yields what `step` gets, without the first `skip` of the epoch.
    """
    batches, record = batches or task.train.shuffled, record or controller.after_step
    for epoch in controller.epochs():
        for batch in batches(epoch, controller.done_in_epoch):
            if record(step(batch)):
                return

        controller.after_epoch_steps(learning_rate(task.optimizer))
        if controller.after_epoch(validation.means()):
            return
    controller.finish()


class Validation:
    """Sums over a validation set: its means are weighted by batch size, and ranks can be added up."""

    def __init__(self, task: Task, context: Context, model: nn.Module, controller: TrainingController) -> None:
        self._task, self._context, self._model, self._controller = task, context, model, controller

    def means(self) -> Values | None:
        """Return the means by Keras' names, equal on every rank. Empty without a validation set, or if cut short.

        None where ranks do not wait for each other's sums: the controller computes the means later.
        """
        if self._task.val is None:
            return {}
        return self._controller.finish_validation(self.sums().tolist(), self._means_of)

    def _means_of(self, totals: Sequence[float]) -> Values:
        """Return the means from the sums of all ranks, in the order of `sums`."""
        *sums, items, cut = totals
        if cut or not items:
            return {}
        return {f"val_{name}": [value / items] for name, value in zip(self._names, sums, strict=True)}

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

        Shape (1 + metrics + 2), on the device. A request to stop or to pause cuts a long validation short, but only
        where ranks synchronise at its end: elsewhere the other ranks would not know.
        """
        batches = self._task.val
        assert batches is not None
        tally, cut = Tally(), False
        due = time.monotonic() + REPORT_EVERY_S
        self._model.eval()
        for step, (batch,) in enumerate(batches.in_order()):
            # A step's names are known once it was called: also on a rank without an item.
            if batch.share or (self._task.validation_step is not None and self._task.validation_step.names is None):
                weight, means = self._weigh(batch, batch.share * batches.size(step))
                if batch.share:
                    tally.add(weight, means)
            if time.monotonic() >= due:
                due = time.monotonic() + REPORT_EVERY_S
                if self._controller.synchronises and self._context.end_requested():
                    cut = True
                    break
        self._model.train()
        return self._total(tally, cut=cut)

    def _total(self, tally: Tally, *, cut: bool) -> Tensor:
        """Return the tensor that `sums` returns."""
        assert self._task.val is not None
        return tally.sums(len(self._names), self._task.val.device, 1.0 if cut else 0.0)

    def _weigh(self, batch: MicroBatch, items: float) -> tuple[float | Tensor, Sequence[Tensor]]:
        """Return what a batch of so many items counts, and the means over it."""
        reader = self._task.validation_step
        if reader is None:
            return items, self._measure(batch)
        with self._task.autocast or contextlib.nullcontext():
            measured = reader.read(self._model(batch.data))
        return items if measured.weight is None else measured.weight, measured.values.reshape(-1).unbind()

    def _measure(self, batch: MicroBatch) -> list[Tensor]:
        """Return loss and metrics, each the mean over the batch."""
        if self._task.autocast is None:
            return self._losses_and_metrics(self._model(*batch.inputs), batch.target)
        with self._task.autocast:
            output = self._model(*batch.inputs)
        return self._losses_and_metrics(output, batch.target)

    def _losses_and_metrics(self, output: Any, target: Tensor) -> list[Tensor]:  # noqa: ANN401 (whatever the model gives)
        """Return loss and metrics of a model's output, each the mean over the batch."""
        task = self._task
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
