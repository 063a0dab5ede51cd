"""Data parallel on several devices: one process each, gradients averaged by DistributedDataParallel."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch.distributed import FileStore  # type: ignore[attr-defined]  # documented, but not declared as exported
from torch.nn.parallel import DistributedDataParallel

from ._loop import Validation, backward, build, learning_rate, was_cut_short
from ._meter import SharedMeter

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ._data import MicroBatch
    from ._loop import Task


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 learns that a stop is asked for."""
    task = build(recipe, context)
    _join(context)
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
    validation = Validation(task, context, task.model)
    meter = SharedMeter(context)

    model.train()  # type: ignore[no-untyped-call]
    context.ready(steps_per_epoch=task.train.steps, samples_per_epoch=task.train.items)
    for epoch in range(context.training.epochs):
        for micro_batches in task.train.shuffled(epoch):
            optimizer.zero_grad()
            loss, share = _accumulate(task, model, micro_batches, context.world_size)
            optimizer.step()
            if meter.step(loss, share):
                return

        meter.learning_rate(learning_rate(optimizer))
        if task.val is not None:
            meter.report()  # the curve is up to date while a long validation lasts
            total = _validate(task, validation)
            meter.validated(validation.named(total))
            if was_cut_short(total):  # on any rank: all see the same total, so all end here
                return
    meter.report()


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


def _validate(task: Task, validation: Validation) -> Tensor:
    """Each rank takes its slice of the validation set; returns the sums over all of them."""
    for buffer in task.model.buffers():  # batch normalisation: all judge rank 0's running statistics
        dist.broadcast(buffer, src=0)
    total = validation.sums()
    dist.all_reduce(total)
    return total


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


def _join(context: Context) -> None:
    """Meet the other ranks, through a file of the run: no port that could be taken."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine; its name need not resolve
    dist.init_process_group(
        "gloo" if context.placement.kind == "cpu" else "nccl",
        store=FileStore(str(context.run_dir / "rendezvous"), context.world_size),
        rank=context.rank,
        world_size=context.world_size,
    )
