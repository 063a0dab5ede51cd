"""What training loops of several ranks share: meet and leave, broadcast, clip, reduce the losses, check the link."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # noqa: F401 (before `join`, see `leave`)
from torch.distributed import FileStore, Store, TCPStore  # type: ignore[attr-defined]  # documented, not declared
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from ...schema.paths import RENDEZVOUS
from ..context import LINK_BYTES
from ..steps import other_names
from ..training.checkpoints import HostFiles
from .loop import merge, scale_gradients
from .model import own_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from torch import Tensor, nn

    from ...schema.spec import RankAssignment
    from ..context import Context
    from .task.build import Task
    from .task.steps import Pass, StepReader


def join(context: Context) -> None:
    """Meet the other ranks: on one machine through a file of the run, without a port that could be taken.

    The launcher has named the interface: on one machine that is the loopback, so that its name need not resolve.
    """
    context.enter_phase("join")
    dist.init_process_group(
        "gloo" if context.assignment.kind == "cpu" else "nccl",
        store=open_store(context.assignment, str(context.run_dir / RENDEZVOUS)),
        rank=context.rank,
        world_size=context.world_size,
    )
    if context.assignment.meeting:
        check_link(context)
        HostFiles(context, broadcast_bytes).fetch_checkpoint()


def leave() -> None:
    """Destroy the process group and end its threads. Call it after success only: it may wait for an open collective.

    The group's threads need Python's lock to release a tensor. One that waits for the lock when the interpreter exits
    aborts the process (exit code -6). The threads end with the last reference to the group, and the functions of
    `torch.distributed.nn.functional` have the group that exists at their import as a default argument: that module
    is therefore imported above, before there is a group.
    """
    dist.destroy_process_group()


def broadcast_object(rank: int, thing: Any, device: torch.device) -> Any:  # noqa: ANN401 (whatever that rank gives)
    """Return the `thing` of this rank; those of others are ignored. Every rank must call this."""
    things = [thing if dist.get_rank() == rank else None]
    dist.broadcast_object_list(things, src=rank, device=device)
    return things[0]


def broadcast_buffers(model: nn.Module) -> None:
    """Give all ranks rank 0's running statistics (batch normalisation) before a validation."""
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


@torch.no_grad()
def clip_over_ranks(parameters: Iterable[nn.Parameter], max_norm: float) -> None:
    """Scale gradients, of which each rank has a part, to a largest norm over all ranks. Takes one reduction."""
    parameters = list(parameters)
    gradients = [own_part(each.grad) for each in parameters if each.grad is not None]
    square = get_total_norm(gradients).square().to(_device())
    dist.all_reduce(square)
    clip_grads_with_norm_(parameters, max_norm, square.sqrt())


def agree(number: Tensor) -> None:
    """Set a number to the largest of all ranks."""
    largest = number.to(_device(), copy=True)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    number.copy_(largest)


def merge_over_ranks(task: Task, found: Sequence[Pass]) -> Pass:
    """Return this rank's mean values over its passes, and their share of the global batch.

    Gradients of weighted losses become those of the weighted mean loss of the global batch. Raises `ValueError` on all
    ranks if the recipe's own step returned different names on them.
    """
    if task.training_step is not None and not task.training_step.agreed:
        _agree_on_names(task.training_step)
    values, weight = merge(found)
    if not isinstance(weight, torch.Tensor):
        return values, weight
    total = weight.to(_device(), copy=True)
    dist.all_reduce(total)
    total = total.to(weight.device)
    # Gradients were averaged over ranks, so they are divided by the mean weight of a rank.
    scale_gradients(task.optimizer, dist.get_world_size() / total)
    return values, weight / total


def _agree_on_names(step: StepReader) -> None:
    names: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(names, step.signature)
    step.agreed = True
    if len(set(names)) > 1:
        rank = next(rank for rank, each in enumerate(names) if each != names[0])
        raise other_names(rank, names[rank], names[0])


def _device() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


class Ranks:
    """The ranks of a run, which exchange numbers with an all-reduce; see `metrics_reporter.Ranks`."""

    in_step = False

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect_files(self, folder: Path) -> None:
        """Bring files to the machine of rank 0."""
        if self._context.assignment.meeting:
            HostFiles(self._context, broadcast_bytes).collect(folder)

    def wait_for(self, losses: list[Tensor]) -> None:
        """Wait until the losses are computed."""
        if losses and losses[-1].is_cuda:
            torch.cuda.current_stream(losses[-1].device).synchronize()  # as fetching them would do

    def reduce(self, losses: list[Tensor], shares: list[Any], numbers: list[float]) -> list[float]:
        """Return the sums over all ranks of each loss times its share, and of each number."""
        # Losses are float32; a number may be a count that float32 would round.
        shared = torch.tensor(numbers, dtype=torch.float64, device=_device())
        if losses:
            stacked = torch.stack(losses).double()
            if isinstance(shares[0], torch.Tensor):
                weights = torch.stack([torch.as_tensor(each) for each in shares])
            else:
                weights = torch.tensor(shares, dtype=torch.float64, device=stacked.device)
            if stacked.ndim > 1:
                weights = weights[:, None]  # for the loss and the metrics of a step
            # A rank without an item in a batch has share 0; its loss of one idle item must not count, even if NaN.
            shared = torch.cat([torch.where(weights > 0, stacked * weights, 0.0).flatten(), shared])
        dist.all_reduce(shared)
        values: list[float] = shared.tolist()
        return values


def open_store(assignment: RankAssignment, path: str) -> Store:
    """Return the store at which the ranks meet: a file, or for several machines an address that rank 0 listens on."""
    if not assignment.meeting:
        return FileStore(path, assignment.world_size)
    host, _, port = assignment.meeting.rpartition(":")
    if assignment.rank:
        return TCPStore(host, int(port), assignment.world_size, is_master=False)
    # On this address only: by itself, the store listens on all addresses of the machine.
    with socket.create_server((host, int(port)), reuse_port=False) as listener:
        descriptor = os.dup(listener.fileno())
    return TCPStore(
        host, int(port), assignment.world_size, is_master=True, wait_for_workers=False, master_listen_fd=descriptor
    )


def check_link(context: Context) -> None:
    """Check the link between the ranks, with either backend: see `Context.check_link`."""
    device = _device()

    def ones() -> Tensor:
        tensor = torch.ones(LINK_BYTES // 4, device=device)
        float(tensor[0])  # waits until a GPU has filled it
        return tensor

    def is_summed(tensor: Tensor) -> bool:
        dist.all_reduce(tensor)  # a GPU may still work on it: the comparison waits for the end
        return bool((tensor == context.world_size).all())

    context.check_link(dist.get_backend(), ones, is_summed)


def broadcast_bytes(rank: int, data: bytes) -> bytes:
    """Return on all ranks the bytes that `rank` gives."""
    device = _device()
    mine = dist.get_rank() == rank
    size = torch.tensor([len(data) if mine else 0], dtype=torch.int64, device=device)
    dist.broadcast(size, src=rank)
    count = int(size.item())
    if not count:
        return b""
    own = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device) if mine else None
    tensor = torch.empty(count, dtype=torch.uint8, device=device) if own is None else own
    dist.broadcast(tensor, src=rank)
    if mine:
        return data
    try:
        return tensor.cpu().numpy().tobytes()
    except RuntimeError:  # PyTorch works without numpy
        return bytes(tensor.cpu().tolist())
