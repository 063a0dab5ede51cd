"""Compress the gradients that DDP reduces, with the communication hooks of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from ....language import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.nn.parallel import DistributedDataParallel

    from ...context import Context
    from ..task.steps import Measured

RANK = 1
"""The rank of PowerSGD's matrices, PyTorch's default: the strongest compression."""
TINY = 1e-8
"""Added to norms that PowerSGD divides by: a layer without a gradient would become NaN."""
NARROW = ("float16", "powersgd")
"""Compressions that cannot carry gradients of any scale, or that keep errors in the scale of an earlier step."""


def compress(model: DistributedDataParallel, context: Context, *, steps: int, done: int) -> None:
    """Give DDP the run's compression. Call it after a checkpoint was restored and before the first pass.

    `steps`: of the whole training; `done`: those before a resume. All hooks average over ranks like DDP itself, so
    losses that are weighted by their share of the global batch stay right.
    """
    kind = context.training.gradient_compression
    if kind == "float16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif kind == "bfloat16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif kind == "powersgd":
        start = powersgd_start(steps, context.training.warmup_steps)
        model.register_comm_hook(_state(max(2, start - done)), powerSGD_hook)
        if done > start and not context.rank:
            context.notice(
                tr(
                    "PowerSGD begins again after the resume: what it has learned about the gradients, and the errors "
                    "that it owes, are not in a checkpoint. The curve differs a little from an uninterrupted one."
                )
            )


def powersgd_start(steps: int, warmup_steps: int) -> int:
    """Return after how many steps PowerSGD begins: a tenth of them, and not before the end of the warm-up.

    This is what PyTorch's documentation of `PowerSGDState` advises. It needs two steps at least, in which DDP finds
    its buckets.
    """
    return max(2, warmup_steps, steps // 10)


def _state(start: int) -> PowerSGDState:
    return PowerSGDState(
        process_group=None,
        matrix_approximation_rank=RANK,
        start_powerSGD_iter=start,
        orthogonalization_epsilon=TINY,
    )


def require_no_weight(context: Context, results: Sequence[Measured]) -> None:
    """Raise `ValueError` if a recipe's step returned a weight: its gradients are multiplied by that until the end."""
    kind = context.training.gradient_compression
    if kind in NARROW and results[0].weight is not None:
        raise ValueError(
            tr(
                "training_step() returned a weight, by which gradients are multiplied until they are reduced. "
                "Gradient compression {kind} cannot carry them. Choose bfloat16 (GPUs) or none.",
                kind=kind,
            )
        )
