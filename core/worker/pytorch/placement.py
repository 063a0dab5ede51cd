"""One model on several devices, in one process: its parts lie where the recipe puts them, or follow one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..controller import TrainingController
from ._build import build_model, complete, prepare
from ._loop import Validation, learning_rate, passes
from ._meter import Meter
from ._placing import Watch, across, in_turn, tell
from ._saver import WholeSaver
from ._update import updater

if TYPE_CHECKING:
    from torch import nn

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ._loop import Task


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is asked for."""
    task = _build(recipe, context)
    model, optimizer = task.model, task.optimizer
    course = TrainingController(context, Meter(context), WholeSaver(model, optimizer, context), **task.size)
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


def _build(recipe: LoadedRecipe, context: Context) -> Task:
    raw = prepare(recipe, context)
    devices = [torch.device(raw.device.type, number) for number in range(len(context.placement.devices))]
    with Watch() as watch:
        model = _placed(recipe, context, raw.model, devices)
    tell(context, model, watch)
    task = complete(recipe, context, raw, model)
    task.loss = across(task.loss, raw.device)
    task.metrics = {name: across(metric, raw.device) for name, metric in task.metrics.items()}
    return task


def _placed(recipe: LoadedRecipe, context: Context, model: nn.Module, devices: list[torch.device]) -> nn.Module:
    if recipe.has("placed_model"):
        return build_model(recipe, "placed_model", context.training.seed, devices)
    return in_turn(model, devices, recipe.name)
