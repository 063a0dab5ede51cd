"""Data parallel on several devices: one process each, gradients averaged by DistributedDataParallel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ..controller import TrainingController
from ._build import build
from ._loop import Validation, backward, learning_rate
from ._meter import SharedMeter
from ._ranks import join, share_buffers
from ._saver import WholeSaver
from ._update import updater

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ._data import MicroBatch
    from ._loop import Task


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 learns that a stop is asked for."""
    task = build(recipe, context)
    join(context)
    try:
        _train(task, context)
    except RuntimeError as error:
        explained = _explained(error, task.model)
        if explained is None:
            raise
        raise explained from error
    # Only after success: with a collective outstanding it may wait for ever, and the error would never be told.
    dist.destroy_process_group()


def _train(task: Task, context: Context) -> None:
    on_gpu = context.placement.kind != "cpu"
    model = DistributedDataParallel(task.model, device_ids=[context.rank] if on_gpu else None)
    optimizer = task.optimizer
    course = TrainingController(context, SharedMeter(context), WholeSaver(task.model, optimizer, context), **task.size)
    update = updater(optimizer, context, course)
    validation = ReplicaValidation(task, context, task.model, course)

    model.train()  # type: ignore[no-untyped-call]
    course.begin(learning_rate(optimizer))
    for epoch in course.epochs():
        for micro_batches in task.train.shuffled(epoch, skip=course.done_in_epoch):
            optimizer.zero_grad()
            loss, share = _accumulate(task, model, micro_batches, context.world_size)
            update()
            if course.stepped(loss, share):
                return

        course.epoch_trained(learning_rate(optimizer))
        if course.validated(validation.means()):
            return
    course.end()


class ReplicaValidation(Validation):
    """Each rank takes its slice of the validation set, all with the same model."""

    def sums(self) -> Tensor:
        """This rank's sums, as `Validation.sums`."""
        share_buffers(self._model)
        return super().sums()


def _accumulate(
    task: Task, model: DistributedDataParallel, micro_batches: list[MicroBatch], world_size: int
) -> tuple[Tensor, float]:
    """All passes of one step; the gradients travel with the last. Returns this rank's mean loss and its share.

    DDP averages gradients over ranks, so each pass is weighted by its share times the world size:
    the average then is the gradient of the mean over the global batch, however it divides.
    """
    *rest, last = micro_batches
    weighted = []
    for batch in rest:
        with model.no_sync():
            weighted.append(backward(task, model, batch, batch.share * world_size) * batch.share)
    loss = backward(task, model, last, last.share * world_size)
    if not rest:
        return loss, last.share
    share = sum(batch.share for batch in micro_batches)
    return sum(weighted, start=loss * last.share) / share, share


def _explained(error: RuntimeError, model: nn.Module) -> RuntimeError | None:
    """DDP's complaint on unused parameters, which it names by number, with their names; None for any other."""
    numbers = re.search(r"did not receive grad for rank \d+: ([\d ]+)", str(error))
    if numbers is None:
        return None
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    unused = ", ".join(trained[int(number)] for number in numbers[1].split())
    return RuntimeError(
        f"These parameters take no part in the loss: {unused}. Data parallel training needs a gradient for each: "
        "use them in forward(), leave them out of the model, or set their requires_grad to False."
    )
