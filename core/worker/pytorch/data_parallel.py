"""Data parallel on several GPUs in one process, the old way: `nn.DataParallel` copies the model to all at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ..controller import TrainingController
from ._build import build
from ._loop import Validation, learning_rate, passes
from ._meter import Meter
from ._saver import WholeSaver
from ._update import updater

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is asked for."""
    if context.training.compile:
        raise ValueError("nn.DataParallel cannot copy a compiled model. Switch compiling off, or choose strategy ddp.")
    task = build(recipe, context)
    optimizer = task.optimizer
    if task.autocast is not None:
        task.model.register_forward_pre_hook(_in_bfloat16)
    # Outputs are gathered on the first GPU before the loss is computed: the mean is that of the whole batch.
    model = nn.DataParallel(task.model, device_ids=list(range(len(context.placement.devices))))
    course = TrainingController(context, Meter(context), WholeSaver(task.model, optimizer, context), **task.size)
    update = updater(optimizer, context, course)
    validation = Validation(task, context, model, course)

    model.train()
    course.begin(learning_rate(optimizer))
    for epoch in course.epochs():
        for micro_batches in task.train.shuffled(epoch, skip=course.done_in_epoch):
            optimizer.zero_grad()
            loss = passes(task, model, micro_batches)
            update()
            if course.stepped(loss):
                return

        course.epoch_trained(learning_rate(optimizer))
        if course.validated(validation.means()):
            return
    course.end()


def _in_bfloat16(module: nn.Module, inputs: object) -> None:  # noqa: ARG001 (a hook's signature)
    """DataParallel's threads take over that autocast is on, but not its type: it would be float16."""
    torch.set_autocast_dtype("cuda", torch.bfloat16)
