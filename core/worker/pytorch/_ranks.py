"""What ranks do together besides training: meet, tell each other, look for requests in step, clip one gradient."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import FileStore  # type: ignore[attr-defined]  # documented, but not declared as exported
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from ...schema.paths import RENDEZVOUS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn

    from ..context import Context
    from ..metrics_reporter import MetricsReporter


LOOK_EVERY_S = 1.0
"""Ranks that look together wait for the slowest; a pipeline runs empty. Who asks for an end can wait a second."""


def join(context: Context) -> None:
    """Meet the other ranks, through a file of the run: no port that could be taken."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine; its name need not resolve
    dist.init_process_group(
        "gloo" if context.placement.kind == "cpu" else "nccl",
        store=FileStore(str(context.run_dir / RENDEZVOUS), context.world_size),
        rank=context.rank,
        world_size=context.world_size,
    )


def told_by(rank: int, thing: Any, device: torch.device) -> Any:  # noqa: ANN401 (whatever that rank tells)
    """What this rank has to tell; the others' `thing` is passed over. Every rank has to ask."""
    things = [thing if dist.get_rank() == rank else None]
    dist.broadcast_object_list(things, src=rank, device=device)
    return things[0]


def share_buffers(model: nn.Module) -> None:
    """Before a validation: all judge by rank 0's running statistics (batch normalisation)."""
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


@torch.no_grad()
def clip_over_ranks(parameters: Iterable[nn.Parameter], most: float) -> None:
    """Scale gradients, of which each rank has a part of its own, to a largest norm over all of them: one reduction."""
    parameters = list(parameters)
    gradients = [_own_part(each.grad) for each in parameters if each.grad is not None]
    square = get_total_norm(gradients).square().to(_reducing_device())
    dist.all_reduce(square)
    clip_grads_with_norm_(parameters, most, square.sqrt())


def _own_part(gradient: Tensor) -> Tensor:
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient


def _reducing_device() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


class Lookout:
    """Looks for a request to end while ranks compute something together: all look after the same batch.

    Rank 0 looks, once a second, and says after how many batches to look again.
    """

    def __init__(self, context: Context, meter: MetricsReporter) -> None:
        self._context, self._meter = context, meter
        self._interval = self._left = 1
        self._looked = time.monotonic()

    def begin(self) -> None:
        """Something else begins. The distance that was agreed on stays: what is over sooner costs no look at all."""
        self._left = self._interval
        self._looked = time.monotonic()

    def ends(self) -> bool:
        """Whether to end here. Every rank has to ask after each batch."""
        self._left -= 1
        if self._left:
            return False
        told = self._meter.agree(self._decision() if self._context.rank == 0 else 0)
        self._interval = self._left = max(1, round(told))
        self._looked = time.monotonic()
        return told == 0

    def _decision(self) -> float:
        """Batches until the next look, at most twice as many as before; 0 to end."""
        if self._context.end_requested():
            return 0
        elapsed = max(time.monotonic() - self._looked, 1e-6)
        return max(1, min(int(self._interval / elapsed * LOOK_EVERY_S), 2 * self._interval))
