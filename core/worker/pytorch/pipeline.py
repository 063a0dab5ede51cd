"""A pipeline: the model is cut into stages, one process per device, through which micro-batches flow (1F1B)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.distributed as dist

from ..controller import TrainingController
from ._build import complete, prepare
from ._loop import learning_rate
from ._meter import SharedMeter
from ._ranks import clip_over_ranks, join
from ._update import updater
from .stages.flow import Flow, form, steps
from .stages.saver import StageSaver
from .stages.stage import own_stage
from .stages.validation import StageValidation

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe
    from ._loop import Task
    from .stages.stage import Stage


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 learns that a stop or a pause is asked for."""
    if context.training.micro_batches < context.world_size:
        raise ValueError(
            f"{context.training.micro_batches} micro-batches cannot fill a pipeline of {context.world_size} stages. "
            "Choose at least as many micro-batches as there are devices."
        )
    raw = prepare(recipe, context, whole_batches=True)
    join(context)
    shape = form(context, raw.train.items)
    stage = own_stage(recipe, context, raw, shape.size)
    task = complete(recipe, context, raw, stage.module)
    names = [stage.names[name] for name, _ in stage.module.named_parameters()]
    context.parts(context.placement.own[0], names, str(raw.device))
    try:
        _train(task, context, stage, Flow(stage, shape, raw.device, task.loss, task.autocast))
    except RuntimeError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None  # the model's own error, of which the pipeline says only in which stage it was
    # Only after success: with a collective outstanding it may wait for ever, and the error would never be told.
    dist.destroy_process_group()


def _train(task: Task, context: Context, stage: Stage, flow: Flow) -> None:
    model, optimizer = task.model, task.optimizer
    meter = SharedMeter(context)
    course = TrainingController(context, meter, StageSaver(stage, optimizer, context), **task.size)
    update = updater(optimizer, context, course, clip=clip_over_ranks)
    validation = StageValidation(task, context, flow, course, meter)
    share = float(context.rank == context.world_size - 1)  # the last stage alone knows the loss

    model.train()
    course.begin(learning_rate(optimizer))
    for epoch in course.epochs():
        for step in steps(task.train, context, epoch, skip=course.done_in_epoch):
            optimizer.zero_grad()
            loss = flow.train(step)
            update()
            if course.stepped(loss, share):
                return

        course.epoch_trained(learning_rate(optimizer))
        if course.validated(validation.means()):
            return
    course.end()
