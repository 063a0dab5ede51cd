"""Data parallel with everything sharded (FSDP2): each rank keeps its part of parameters, gradients and optimizer state.

bfloat16 is autocast, as in the other loops, and not FSDP's own policy: that one would also normalise and
add up in bfloat16, and the curve would be another than that of one device.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from ..controller import TrainingController
from ._build import complete, prepare
from ._fsdp_saver import ShardedSaver
from ._loop import backward, learning_rate
from ._meter import SharedMeter
from ._ranks import clip_over_ranks, join
from ._together import TogetherValidation
from ._update import updater

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import Tensor

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ._data import MicroBatch
    from ._loop import Task

MIN_PARAMETERS = 1_000_000
"""A block of fewer is not worth a collective of its own: it travels with the rest of the model."""


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 learns that a stop or a pause is asked for."""
    raw = prepare(recipe, context)
    join(context)
    shard(raw.model, raw.device)
    task = complete(recipe, context, raw, raw.model)
    names = [name for name, _ in task.model.named_parameters()]
    context.parts(context.placement.own[0], names, f"a shard of each on {raw.device}")
    _train(task, context)
    # Only after success: with a collective outstanding it may wait for ever, and the error would never be told.
    dist.destroy_process_group()


def _train(task: Task, context: Context) -> None:
    model, optimizer = task.model, task.optimizer
    meter = SharedMeter(context)
    course = TrainingController(context, meter, ShardedSaver(model, optimizer, context), **task.size)
    update = updater(optimizer, context, course, clip=clip_over_ranks)
    validation = TogetherValidation(task, context, model, course, meter)

    model.train()
    course.begin(learning_rate(optimizer))
    for epoch in course.epochs():
        for micro_batches in task.train.shuffled(epoch, skip=course.done_in_epoch):
            optimizer.zero_grad()
            loss, share = _accumulate(task, micro_batches, context)
            update()
            if course.stepped(loss, share):
                return

        course.epoch_trained(learning_rate(optimizer))
        if course.validated(validation.means()):
            return
    course.end()


def shard(model: nn.Module, device: torch.device) -> None:
    """Shard a model over all ranks: its large blocks each for itself, so that one at a time is whole, then the rest."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    into_shards = partial(fully_shard, mesh=mesh)
    for block in list(blocks(model)):
        into_shards(block)
    into_shards(model)


def blocks(model: nn.Module) -> Iterator[nn.Module]:
    """The large modules that follow one another in lists and sequences, outermost first.

    One that shares a parameter with another part of the model stays with the rest: a parameter is in one group.
    """
    everywhere = _uses(model)
    for module in _items(model):
        inside = _uses(module)
        alone = all(everywhere[each] == count for each, count in inside.items())
        if alone and sum(each.numel() for each in module.parameters()) >= MIN_PARAMETERS:
            yield module


def _items(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        is_container = isinstance(child, (nn.Sequential, nn.ModuleList, nn.ModuleDict))
        if is_container or any(isinstance(inner, nn.ModuleList) for inner in child.modules()):
            yield from _items(child)
        else:
            yield child


def _uses(module: nn.Module) -> dict[int, int]:
    """How many names each parameter has."""
    uses: dict[int, int] = {}
    for _, parameter in module.named_parameters(remove_duplicate=False):
        uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    return uses


def _accumulate(task: Task, micro_batches: list[MicroBatch], context: Context) -> tuple[Tensor, float]:
    """All passes of one step; the gradients travel with the last. Returns this rank's mean loss and its share.

    FSDP averages gradients over ranks, so each pass is weighted by its share times the world size:
    the average then is the gradient of the mean over the global batch, however it divides.
    """
    model, world_size = task.model, context.world_size
    if context.training.accumulation == 1:
        batch = micro_batches[0]
        return backward(task, model, batch, batch.share * world_size), batch.share
    sharded = cast("FSDPModule", model)
    weighted, share = [], 0.0
    every = _as_many_everywhere(micro_batches, context.training.accumulation)
    for number, batch in enumerate(every, start=1):
        sharded.set_requires_gradient_sync(number == len(every))
        weighted.append(backward(task, model, batch, batch.share * world_size) * batch.share)
        share += batch.share
    return sum(weighted[1:], start=weighted[0]) / share, share


def _as_many_everywhere(micro_batches: list[MicroBatch], passes: int) -> list[MicroBatch]:
    """Every pass gathers the shards of all ranks, so all make as many: of few items, some passes weigh nothing."""
    idle = micro_batches[-1]._replace(share=0.0)
    return [*micro_batches, *[idle] * (passes - len(micro_batches))]
