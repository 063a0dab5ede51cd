"""Global batches flowing through a pipeline's stages, in passes of micro-batches of one size."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle
from torch.utils._pytree import tree_map, tree_map_only

from .cost import tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from ...context import Context
    from .._data import Batches, MicroBatch
    from .._loop import Loss
    from .cost import Autocast
    from .crossing import Crossing
    from .stage import Stage

# Older versions keep the outputs of all micro-batches whether they are wanted or not.
WITHOUT_OUTPUTS: dict[str, Any] = (
    {"return_outputs": False} if "return_outputs" in inspect.signature(PipelineScheduleSingle.step).parameters else {}
)


class Form(NamedTuple):
    """How a global batch is made up."""

    micro_batches: int
    """In one pass."""
    size: int
    """Items in each."""

    @property
    def items(self) -> int:
        """In one pass."""
        return self.micro_batches * self.size


def form(context: Context, items: int) -> Form:
    """For this run, whose training data have so many items."""
    training = context.training
    whole = min(training.batch_size, items)
    return Form(training.micro_batches, math.ceil(whole / (training.accumulation * training.micro_batches)))


class Step(NamedTuple):
    """A global batch on its way."""

    items: int
    batch: MicroBatch | None
    """None on ranks between the first and the last, which need no data."""


def steps(batches: Batches, context: Context, epoch: int | None = None, skip: int = 0) -> Iterator[Step]:
    """The global batches of an epoch, shuffled; of None, in their order."""
    if 0 < context.rank < context.world_size - 1:
        yield from (Step(batches.size(step), None) for step in range(skip, batches.steps))
        return
    every = batches.in_order() if epoch is None else batches.shuffled(epoch, skip)
    for step, (batch,) in enumerate(every, start=skip):
        yield Step(batches.size(step), batch)


class Flow:
    """Trains and validates this rank's stage, in step with all others.

    The shapes in a pipeline are fixed: a last batch that does not fill its passes is filled up with items
    that are in it already, which weigh nothing.
    """

    def __init__(self, stage: Stage, form: Form, device: torch.device, loss: Loss, autocast: Autocast) -> None:
        self._form = form
        self._loss = _WeightedLoss(loss, autocast)
        self._idle = torch.zeros((), device=device)
        to, fro = _part(stage, stage.training, device), _part(stage, stage.validation, device)
        self._first, self._last = to.is_first, to.is_last
        # The loss weighs each micro-batch itself, so that their gradients need not be scaled.
        self._training = Schedule1F1B(to, form.micro_batches, loss_fn=self._loss, scale_grads=False)
        self._validation = ScheduleGPipe(fro, form.micro_batches)

    def train(self, step: Step) -> Tensor:
        """Forward and backward; returns the mean loss over the batch, on the last rank, and 0 on the others."""
        found: list[Tensor] = []
        for number, (inputs, target) in enumerate(self._passes(step)):
            self._loss.expect(step.items - number * self._form.items, step.items, self._form)
            losses: list[Tensor] = []
            if self._first:
                self._training.step(*inputs, **WITHOUT_OUTPUTS)
            elif self._last:
                self._training.step(target=target, losses=losses, **WITHOUT_OUTPUTS)
            else:
                self._training.step(**WITHOUT_OUTPUTS)
            found += losses
        return torch.stack(found).detach().sum() if found else self._idle

    def outputs(self, step: Step) -> Any:  # noqa: ANN401 (whatever the last stage gives)
        """Forward only; returns the model's output for the whole batch on the last rank, None on the others."""
        found = [self._validation.step(*inputs if self._first else ()) for inputs, _ in self._passes(step)]
        if not self._last:
            return None
        whole = found[0] if len(found) == 1 else tree_map(lambda *parts: torch.cat(parts), *found)
        return (
            whole if step.items == len(found) * self._form.items else tree_map(lambda all_: all_[: step.items], whole)
        )

    def _passes(self, step: Step) -> Iterator[tuple[Sequence[Tensor], Tensor | None]]:
        count = math.ceil(step.items / self._form.items)
        if step.batch is None:
            yield from [((), None)] * count
            return
        whole = [*step.batch.inputs, step.batch.target]
        if step.items < count * self._form.items:
            index = torch.arange(count * self._form.items, device=whole[-1].device) % step.items
            whole = [each.index_select(0, index) for each in whole]
        if count == 1:
            yield whole[:-1], whole[-1]
            return
        for *inputs, target in zip(*(torch.split(each, self._form.items) for each in whole), strict=True):
            yield inputs, target


def _part(stage: Stage, crossing: Crossing, device: torch.device) -> PipelineStage:
    return PipelineStage(
        stage.module, dist.get_rank(), dist.get_world_size(), device,
        input_args=crossing.takes, output_args=crossing.gives,
    )  # fmt: skip


class _WeightedLoss:
    """The recipe's loss of each micro-batch in turn, over its real items, weighted by their share in the batch."""

    def __init__(self, loss: Loss, autocast: Autocast) -> None:
        self._loss, self._autocast = loss, autocast
        self._real: Iterator[int] = iter(())
        self._all = 1

    def expect(self, left: int, items: int, form: Form) -> None:
        """The next pass: `left` of the global batch's items are still to come."""
        self._real = iter([max(0, min(form.size, left - number * form.size)) for number in range(form.micro_batches)])
        self._all = items

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        real = next(self._real)
        if real < len(target):
            output, target = tree_map_only(torch.Tensor, lambda each: each[:real], output), target[:real]
        if not real:
            return torch.stack([each.sum() for each in tensors(output)]).sum()  # of nothing; goes back as zeros
        if self._autocast is None:
            return self._loss(output, target) * (real / self._all)
        with self._autocast:
            return self._loss(output, target) * (real / self._all)
