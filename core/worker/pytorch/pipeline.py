"""Pipeline parallel: the model is cut into stages, one process per device; micro-batches flow through them (1F1B)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...language import tr
from ..training.controller import TrainingController
from .loop.common import learning_rate, run_epochs
from .loop.distributed import agree, clip_over_ranks, join, leave, reporter
from .loop.update import stepper
from .stages.flow import StageRunner, StageValidation, batch_shape, steps
from .stages.stage import StageSaver, build_stage
from .task.build import complete, prepare

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe
    from .loop.common import Task
    from .stages.stage import Stage


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 sees a request to stop or to pause."""
    if context.training.micro_batches < context.world_size:
        raise ValueError(
            tr(
                "{micro_batches} micro-batches cannot fill a pipeline of {stages} stages. "
                "Choose at least as many micro-batches as there are devices.",
                micro_batches=context.training.micro_batches,
                stages=context.world_size,
            )
        )
    raw = prepare(recipe, context, whole_batches=True)
    join(context)
    shape = batch_shape(context, raw.train.items)
    stage = build_stage(recipe, context, raw, shape.size)
    task = complete(recipe, context, raw, stage.module)
    held = {stage.names[name]: each for name, each in stage.module.named_parameters()}
    own, size_bytes = context.assignment.own[0], sum(each.nbytes for each in held.values())
    context.record_parts(own, list(held), str(raw.device), size_bytes=size_bytes)
    try:
        _train(task, context, stage, StageRunner(stage, shape, raw.device, task))
    except RuntimeError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None  # the model's own error; the pipeline's adds only the stage
    leave()


def _train(task: Task, context: Context, stage: Stage, stages: StageRunner) -> None:
    model = task.model
    reports = reporter(context, task)
    controller = TrainingController(context, reports, StageSaver(stage, task, context), **task.size)
    step = stepper(
        task, context, controller, lambda _, batch: stages.train(batch), clip=clip_over_ranks, agree=agree
    )  # fmt: skip
    validation = StageValidation(task, context, stages, controller, reports)
    share = float(context.rank == context.world_size - 1)  # only the last stage has the loss

    model.train()
    controller.begin(learning_rate(task.optimizer))
    run_epochs(
        task, controller, step, validation,
        batches=lambda epoch, skip: steps(task.train, context, epoch, skip=skip),
        record=lambda loss: controller.after_step(loss, share),
    )  # fmt: skip
