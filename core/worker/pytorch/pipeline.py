"""Pipeline parallel: the model is cut into stages, one process per device; micro-batches flow through them (1F1B)."""

from __future__ import annotations

import contextlib
import inspect
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle
from torch.utils._pytree import tree_map, tree_map_only

from .distributed import Ranks, agree, clip_over_ranks, join, leave
from .loop import EndRequestPoll, Validation, losses_and_metrics, train_task
from .model import tensors
from .stage import StageWeights, build_stage
from .task.build import complete, prepare
from .task.saver import Saver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from ..context import Context
    from ..recipe import LoadedRecipe
    from .loop import Own
    from .stage import Stage, StageTensors
    from .task.build import Task
    from .task.data import Batches, MicroBatch
    from .task.stream import StreamBatches

# Older versions of torch always keep the outputs of all micro-batches.
WITHOUT_OUTPUTS: dict[str, Any] = (
    {"return_outputs": False} if "return_outputs" in inspect.signature(PipelineScheduleSingle.step).parameters else {}
)


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 sees a request to stop or to pause."""
    raw = prepare(recipe, context, whole_batches=True)
    join(context)
    shape = batch_shape(context, raw.train.items)
    stage = build_stage(recipe, context, raw, shape.size)
    task = complete(recipe, context, raw, stage.module)
    held = {stage.names[name]: each for name, each in stage.module.named_parameters()}
    own, size_bytes = context.assignment.own[0], sum(each.nbytes for each in held.values())
    context.record_parts(own, list(held), str(raw.device), size_bytes=size_bytes)
    try:
        _train(task, context, stage, StageRunner(stage, shape, raw.device, task))
    except RuntimeError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None  # the model's own error; the pipeline's adds only the stage
    leave()


def _train(task: Task, context: Context, stage: Stage, stages: StageRunner) -> None:
    share = float(context.rank == context.world_size - 1)  # only the last stage has the loss
    train_task(
        task,
        context,
        lambda _, batch: (stages.train(batch), share),
        ranks=Ranks(context),
        saver=Saver(task, context, StageWeights(stage, task, context)),
        validation=lambda controller, reporter: Validation(
            task, task.model, controller, poll=EndRequestPoll(context, reporter),
            batches=lambda: measured(task, context, stages),
        ),
        clip=clip_over_ranks,
        agree=agree,
        batches=lambda epoch, skip: steps(task.train, context, epoch, skip=skip),
    )


class BatchShape(NamedTuple):
    """How a global batch is divided."""

    micro_batches: int
    """Micro-batches per pass."""
    size: int
    """Items per micro-batch."""

    @property
    def items(self) -> int:
        return self.micro_batches * self.size


def batch_shape(context: Context, items: int) -> BatchShape:
    """For this run, whose training data have so many items."""
    training = context.training
    whole = min(training.batch_size, items)
    return BatchShape(training.micro_batches, math.ceil(whole / (training.accumulation * training.micro_batches)))


class Step(NamedTuple):
    items: int
    batch: MicroBatch | None
    """None on ranks between the first and the last: they need no data."""


def steps(
    batches: Batches | StreamBatches, context: Context, epoch: int | None = None, skip: int = 0
) -> Iterator[Step]:
    """Yield the global batches of an epoch, shuffled; unshuffled if `epoch` is None."""
    if 0 < context.rank < context.world_size - 1:
        yield from (Step(batches.size(step), None) for step in range(skip, batches.steps))
        return
    every = batches.in_order() if epoch is None else batches.shuffled(epoch, skip)
    for step, (batch,) in enumerate(every, start=skip):
        yield Step(batches.size(step), batch)


class StageRunner:
    """Trains and validates this rank's stage together with all others.

    The shapes in a pipeline are fixed. A last batch that does not fill its passes is filled up with repeated items
    of weight 0.
    """

    def __init__(self, stage: Stage, shape: BatchShape, device: torch.device, task: Task) -> None:
        self._shape = shape
        self._loss = _WeightedLoss(task)
        self._idle = torch.zeros((), device=device)
        trained = _pipeline_stage(stage, stage.training, device)
        validated = _pipeline_stage(stage, stage.validation, device)
        self._first, self._last = trained.is_first, trained.is_last
        # The loss weights each micro-batch itself, so the gradients need no scaling.
        self._training = Schedule1F1B(trained, shape.micro_batches, loss_fn=self._loss, scale_grads=False)
        self._validation = ScheduleGPipe(validated, shape.micro_batches)

    def train(self, step: Step) -> Tensor:
        """Run forward and backward passes. Return the batch's mean loss on the last rank, and 0 on the others."""
        self._loss.values = []
        for number, (inputs, target) in enumerate(self._passes(step)):
            self._loss.expect(step.items - number * self._shape.items, step.items, self._shape)
            if self._first:
                self._training.step(*inputs, **WITHOUT_OUTPUTS)
            elif self._last:
                self._training.step(target=target, **WITHOUT_OUTPUTS)
            else:
                self._training.step(**WITHOUT_OUTPUTS)
        return torch.stack(self._loss.values).sum() if self._loss.values else self._idle

    def outputs(self, step: Step) -> Any:  # noqa: ANN401 (whatever the last stage returns)
        """Run forward passes only. Return the model's output for the batch on the last rank, None on the others."""
        found = [self._validation.step(*inputs if self._first else ()) for inputs, _ in self._passes(step)]
        if not self._last:
            return None
        whole = found[0] if len(found) == 1 else tree_map(lambda *parts: torch.cat(parts), *found)
        return (
            whole if step.items == len(found) * self._shape.items else tree_map(lambda all_: all_[: step.items], whole)
        )

    def _passes(self, step: Step) -> Iterator[tuple[Sequence[Tensor], Tensor | None]]:
        count = math.ceil(step.items / self._shape.items)
        if step.batch is None:
            yield from [((), None)] * count
            return
        whole = [*step.batch.inputs, step.batch.target]
        if step.items < count * self._shape.items:
            index = torch.arange(count * self._shape.items, device=whole[-1].device) % step.items
            whole = [each.index_select(0, index) for each in whole]
        if count == 1:
            yield whole[:-1], whole[-1]
            return
        for *inputs, target in zip(*(torch.split(each, self._shape.items) for each in whole), strict=True):
            yield inputs, target


def _pipeline_stage(stage: Stage, example: StageTensors, device: torch.device) -> PipelineStage:
    return PipelineStage(
        stage.module, dist.get_rank(), dist.get_world_size(), device,
        input_args=example.inputs, output_args=example.outputs,
    )


class _WeightedLoss:
    """The recipe's loss of each micro-batch in turn over its real items, weighted by their share of the batch."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.values: list[Tensor] = []
        """The weighted losses of the current step so far, detached."""
        self._real: Iterator[int] = iter(())
        self._all = 1

    def expect(self, left: int, items: int, shape: BatchShape) -> None:
        """Prepare for the next pass: `left` of the global batch's `items` items are still to come."""
        sizes = [max(0, min(shape.size, left - number * shape.size)) for number in range(shape.micro_batches)]
        self._real = iter(sizes)
        self._all = items

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        real = next(self._real)
        if real < len(target):
            output, target = tree_map_only(torch.Tensor, lambda each: each[:real], output), target[:real]
        if not real:
            return torch.stack([each.sum() for each in tensors(output)]).sum()  # of no items: its gradient is zero
        task, share = self._task, real / self._all
        with task.autocast or contextlib.nullcontext():
            loss = task.loss(output, target) * share
            if task.training_metrics is not None and task.training_metrics.is_due:
                task.training_metrics.measure(task.metrics, output, target, share)
        self.values.append(loss.detach())
        return loss if task.scaler is None else task.scaler.scale(loss)


def measured(task: Task, context: Context, stages: StageRunner) -> Iterator[Own]:
    """Validate through a pipeline: forward passes only. Yield what this rank has measured: the last one all of it."""
    assert task.val is not None
    for step in steps(task.val, context):
        output = stages.outputs(step)
        if output is None:
            yield None
            continue
        assert step.batch is not None
        yield step.items, losses_and_metrics(task, output, step.batch.target)
