"""Fully sharded data parallel (FSDP2): each rank keeps its part of parameters, gradients and optimizer state.

bfloat16 uses autocast, as in the other loops, not FSDP's own policy. FSDP's policy would also normalise and add up in
bfloat16, and the curve would differ from that of one device.
"""

from __future__ import annotations

import gc
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, debug

from ...language import tr
from ..training.checkpoints import first_difference
from .deferred import DeferredModel
from .distributed import (
    Ranks,
    agree,
    broadcast_buffers,
    broadcast_object,
    clip_over_ranks,
    join,
    leave,
    merge_over_ranks,
)
from .loop import EndRequestPoll, Validation, train_task
from .model import compile_each, items, own_part
from .task.build import complete, prepare
from .task.saver import MODEL, OPTIMIZER, Saver, model_state, optimizer_by_name, write
from .task.step_times import StepTimes
from .task.steps import step_module

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from ..context import Context
    from ..recipe import LoadedRecipe
    from .task.build import Task
    from .task.data import MicroBatch
    from .task.steps import Pass

MIN_PARAMETERS = 1_000_000
"""Smallest block that gets a collective of its own. Smaller ones travel with the rest of the model."""


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 sees a request to stop or to pause."""
    deferred = DeferredModel() if context.training.meta_device else None
    raw = prepare(recipe, context, making=deferred)
    join(context)
    module = step_module(recipe, raw.model)
    if deferred is None:
        if context.training.make_on_device:
            _share_values(raw.model.to(raw.device))  # with what the recipe has put on the CPU by name
        shard(raw.model, module, raw.device)
    else:
        shard_deferred(raw.model, module, raw.device, deferred, context.training.seed)
    per_block = context.training.compile and not context.training.activation_checkpointing
    is_compiled = per_block and compile_each(blocks(raw.model))
    task = complete(recipe, context, raw, raw.model, module, is_compiled=is_compiled)
    _record_shards(context, task.model, raw.device)
    _train(task, context)
    del raw, module, task
    _release_mesh()
    leave()


def _train(task: Task, context: Context) -> None:
    train_task(
        task,
        context,
        lambda part, batches: _accumulate(part, batches, context),
        ranks=Ranks(context),
        saver=Saver(task, context, _ShardedWeights(task, context)),
        validation=lambda controller, reporter: Validation(
            task, task.module, controller, before=broadcast_buffers, poll=EndRequestPoll(context, reporter)
        ),
        clip=clip_over_ranks,
        agree=agree,
        times=StepTimes(context, task, tells_passes=False),  # both passes wait for the shards of others
    )


def _release_mesh() -> None:
    """Delete what refers to the device mesh, and with it to the process group (see `leave`)."""
    clear_cache = getattr(debug, "_clear_sharding_prop_cache", None)  # DTensor's; private, not in all versions
    if clear_cache is not None:
        clear_cache()
    gc.unfreeze()  # FSDP's modules are in cycles, frozen by `TrainingController.begin`
    gc.collect()
    gc.freeze()  # else the interpreter takes a second to exit


def shard(model: nn.Module, module: nn.Module, device: torch.device) -> None:
    """Shard a model over all ranks: each large block separately, so that only one is whole at a time, then the rest.

    `module`: the model, or what is around it; its forward pass gathers the rest.
    """
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    into_shards = partial(fully_shard, mesh=mesh)
    for block in list(blocks(model)):
        into_shards(block)
    into_shards(module)


@torch.no_grad()
def _share_values(model: nn.Module) -> None:
    """Give all ranks the values of rank 0: devices of different kinds draw different random numbers."""
    for value in _states(model).values():
        dist.broadcast(value, src=0)


def shard_deferred(
    model: nn.Module, module: nn.Module, device: torch.device, deferred: DeferredModel, seed: int
) -> None:
    """Shard a model that was made on the meta device, and give each rank the values of its shards."""
    states = deferred.states(model)
    shard(model, module, device)
    known = {name: each for name, each in _states(model).items() if not each.is_meta}
    values = {name: own_part(each).clone() for name, each in known.items()}
    module.to_empty(device=device)
    whole = _states(model)
    for name, value in values.items():
        own_part(whole[name]).copy_(value)
    rank, world_size = dist.get_rank(), dist.get_world_size()

    def keep(name: str, value: Tensor) -> None:
        target = whole[name]
        part = value
        if isinstance(target, DTensor):  # FSDP divides the first dimension as `chunk` does
            chunks = value.chunk(world_size)
            part = chunks[rank] if rank < len(chunks) else value[:0]
        own_part(target).copy_(part)

    torch.manual_seed(seed)  # Python and numpy have drawn their numbers while the model was made
    deferred.fill(states, keep)


def _states(model: nn.Module) -> dict[str, Tensor]:
    return {name: each.detach() for name, each in (*model.named_parameters(), *model.named_buffers())}


def _record_shards(context: Context, model: nn.Module, device: torch.device) -> None:
    """Record what this rank's device holds: a part of each parameter that has enough rows for all ranks."""
    held = {name: own_part(each.detach()) for name, each in model.named_parameters()}
    own = context.assignment.own[0]
    names, size = [name for name, part in held.items() if part.numel()], sum(part.nbytes for part in held.values())
    context.record_parts(own, names, tr("a shard of each on {device}", device=device), size_bytes=size)
    if not size:
        context.notice_empty_device(
            own, tr("No parameter has a row for each device. Choose strategy ddp, or tick fewer devices.")
        )


def blocks(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the large modules that follow one another in lists and sequences, outermost first.

    A module that shares a parameter with another part of the model stays with the rest: a parameter is in one group.
    """
    everywhere = _uses(model)
    for module in items(model):
        inside = _uses(module)
        alone = all(everywhere[each] == count for each, count in inside.items())
        if alone and sum(each.numel() for each in module.parameters()) >= MIN_PARAMETERS:
            yield module


def _uses(module: nn.Module) -> Counter[int]:
    """Return how many names each parameter has, by id."""
    return Counter(id(parameter) for _, parameter in module.named_parameters(remove_duplicate=False))


def _accumulate(task: Task, micro_batches: list[MicroBatch], context: Context) -> Pass:
    """Make all passes of one step and reduce gradients with the last. Return this rank's mean values and their share.

    FSDP averages gradients over ranks, so each pass is weighted by its share times the world size. The average is then
    the gradient of the mean over the global batch, even if the batch does not divide evenly.
    """
    sharded = cast("FSDPModule", task.module)
    # Each pass gathers the shards of all ranks, so all make equally many: some of weight 0.
    idle = micro_batches[-1]._replace(share=0.0)
    every, found = [*micro_batches, *[idle] * (context.training.accumulation - len(micro_batches))], []
    for number, batch in enumerate(every, start=1):
        if len(every) > 1:
            sharded.set_requires_gradient_sync(number == len(every))
        found.append(task.backward(task, task.module, batch, batch.share * context.world_size))
    return merge_over_ranks(task, found)


def _shapes(state: Mapping[str, Tensor]) -> dict[str, Sequence[int]]:
    return {name: each.shape for name, each in state.items()}


class _ShardedWeights:
    """Saves model and optimizer on rank 0, so that any number of ranks can load them."""

    def __init__(self, task: Task, context: Context) -> None:
        self._model = task.model
        self._optimizers = tuple(each.optimizer for each in task.turns or (task,))
        self._rank = context.rank

    def save(self, folder: Path) -> None:
        gather = StateDictOptions(full_state_dict=True, cpu_offload=True)
        model = get_model_state_dict(self._model, options=gather)
        optimizer = get_optimizer_state_dict(self._model, self._optimizers, options=gather)
        if self._rank == 0:
            write(folder / MODEL, model)
            write(folder / OPTIMIZER, optimizer)

    def load(self, folder: Path) -> None:
        first = self._rank == 0
        model: dict[str, Any] = model_state(folder) if first else {}
        optimizer: dict[str, Any] = optimizer_by_name(folder) if first else {}
        spread = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        # Another model is refused before anything is sent: else other ranks would wait for ever.
        if first and (fault := first_difference(_shapes(model), _shapes(self._model.state_dict()))):
            raise ValueError(fault)
        set_model_state_dict(self._model, model, options=spread)
        device = next(self._model.parameters()).device
        # Plain SGD has no state, and torch would fail.
        if broadcast_object(0, first and bool(optimizer["state"]), device):
            set_optimizer_state_dict(self._model, self._optimizers, optimizer, options=spread)
