"""Data parallel on several devices: one process each, gradients averaged by DistributedDataParallel."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._loop import Validation, backward, build, learning_rate
from ._meter import SharedMeter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ._data import MicroBatch
    from ._loop import Task


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 learns that a stop is asked for."""
    task = build(recipe, context)
    with _process_group(context):
        _train(task, context)


def _train(task: Task, context: Context) -> None:
    on_gpu = context.placement.kind != "cpu"
    model = DistributedDataParallel(task.model, device_ids=[context.rank] if on_gpu else None)
    optimizer = task.optimizer
    validation = Validation(task, context, task.model)
    meter = SharedMeter(context)

    model.train()  # type: ignore[no-untyped-call]
    context.ready(steps_per_epoch=task.train.steps, samples_per_epoch=task.train.items)
    for epoch in range(context.training.epochs):
        for micro_batches in task.train.shuffled(context.training.seed, epoch):
            optimizer.zero_grad()
            loss, share = _accumulate(task, model, micro_batches, context.world_size)
            optimizer.step()
            if meter.step(loss, share):
                return

        meter.report()
        if context.rank == 0:
            context.measured(meter.steps, {"learning_rate": learning_rate(optimizer)})
        if task.val is not None:
            _validate(task, validation, context, meter.steps)
        meter.report()  # a stop asked for during validation is decided by rank 0, for all
        if meter.stopped:
            return


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


def _validate(task: Task, validation: Validation, context: Context, step: int) -> None:
    """Each rank takes its slice of the validation set; the sums are added up."""
    for buffer in task.model.buffers():  # batch normalisation: all judge rank 0's running statistics
        dist.broadcast(buffer, src=0)
    total = validation.sums()
    device = "cuda" if context.placement.kind != "cpu" else "cpu"
    shared = total.to(device)
    dist.all_reduce(shared)
    values = validation.named(shared)
    if context.rank == 0 and values:
        context.measured(step, values)


@contextlib.contextmanager
def _process_group(context: Context) -> Iterator[None]:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine; its name need not resolve
    dist.init_process_group(
        "gloo" if context.placement.kind == "cpu" else "nccl",
        init_method=f"file://{context.run_dir / 'rendezvous'}",
        rank=context.rank,
        world_size=context.world_size,
    )
    try:
        yield
    finally:
        dist.destroy_process_group()
