"""Data parallel on several GPUs in one process, the old way: `nn.DataParallel` copies the model at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ...language import tr
from .loop.common import passes, train_task
from .loop.validation import Validation
from .model.placing import across
from .task.build import build

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    if context.training.compile:
        raise ValueError(
            tr("nn.DataParallel cannot copy a compiled model. Switch compiling off, or choose strategy ddp.")
        )
    task = build(recipe, context)
    if context.training.output_device:
        # Batches are on the first GPU, where the model's own parameters are, and outputs on another.
        task.loss = across(task.loss, task.train.device)
        task.metrics = {name: across(metric, task.train.device) for name, metric in task.metrics.items()}
    if context.training.precision == "bfloat16":
        task.model.register_forward_pre_hook(_in_bfloat16)
    # Outputs are gathered on one GPU before the loss is computed, so its mean is over the whole batch.
    devices = list(range(len(context.assignment.devices)))
    model = nn.DataParallel(task.model, device_ids=devices, output_device=context.training.output_device)
    train_task(
        task, context, lambda part, batches: passes(part, model, batches),
        validation=lambda controller, _: Validation(task, model, controller),
    )  # fmt: skip


def _in_bfloat16(module: nn.Module, inputs: object) -> None:  # noqa: ARG001 (a hook's signature)
    """Set the type again: DataParallel's threads inherit that autocast is on, but with float16."""
    torch.set_autocast_dtype("cuda", torch.bfloat16)
