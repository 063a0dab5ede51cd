"""What all PyTorch strategies share: the task, the passes of a step, and the training of a task."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import clip_grad_norm_

from ...steps import turn_names
from ...training.controller import TrainingController
from ...training.loop import run_epochs
from ...training.metrics_reporter import MetricsReporter
from .saver import WholeSaver
from .update import stepper
from .validation import Validation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from ....schema.checkpoint import StateSaver
    from ...context import Context
    from ...training.controller import TrainingSize
    from ...training.metrics_reporter import Ranks
    from ..task.data import Batches, MicroBatch
    from ..task.optimizers import RecipeSchedule
    from ..task.steps import Measured, StepReader
    from ..task.stream import StreamBatches
    from ..task.training_metrics import TrainingMetrics
    from .scaling import LossScaler
    from .update import Accumulate, Agree, Clip

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


def own_passes(task: Task, micro_batches: list[MicroBatch]) -> Tensor:
    """Make all passes of one optimizer step in one process, with the task's own forward pass; see `passes`."""
    return passes(task, task.forward, micro_batches)


def train_task(
    task: Task,
    context: Context,
    accumulate: Accumulate = own_passes,
    *,
    ranks: Ranks | None = None,
    saver: StateSaver | None = None,
    validation: Callable[[TrainingController, MetricsReporter], Validation] | None = None,
    clip: Clip = clip_grad_norm_,
    agree: Agree | None = None,
    batches: Callable[[int, int], Iterable[Any]] | None = None,
    begun: Callable[[int], object] | None = None,
) -> None:
    """Train to the last epoch, or until a stop or a pause is requested.

    `accumulate` makes the passes of a step. With several `ranks`, it returns the loss and this rank's share. `saver`:
    by default one of a whole model. `validation`: makes the validation, by default of the whole set here. `clip`,
    `agree`: see `stepper`. `batches(epoch, skip)` yields what `accumulate` gets, without the first `skip` of the epoch;
    by default the task's data. `begun`: called with the steps done, once a checkpoint is restored.
    """
    reporter = MetricsReporter(
        context, ranks=ranks, names=lambda: task.value_names, fetch=_fetch, metrics=task.training_metrics
    )
    controller = TrainingController(context, reporter, saver or WholeSaver(task, context), **task.size)
    step = stepper(task, context, controller, accumulate, clip=clip, agree=agree)
    checks = validation(controller, reporter) if validation else Validation(task, task.module, controller)
    task.module.train()
    controller.begin(learning_rate(task.optimizer))
    if begun is not None:
        begun(controller.step)
    given = batches or task.train.shuffled
    run_epochs(
        controller,
        lambda epoch, skip: map(step, given(epoch, skip)),
        checks.means,
        rate=lambda: learning_rate(task.optimizer),
        record=None if ranks is None else lambda found: controller.after_step(*found),
    )


def _fetch(losses: list[Tensor]) -> list[float]:
    values: list[float] = torch.stack(losses).float().flatten().tolist()
    return values
