"""Model parallel in one process: the model's parts are on the devices that the recipe names, or in order on all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from ..training.epoch_end import set_epoch_end
from .loop.common import train_task
from .loop.saver import undisturbed
from .model.blocks import compile_each, items
from .model.placing import DeviceRecorder, across, place_in_order, record_parts
from .task.build import build_model, complete, prepare

if TYPE_CHECKING:
    from torch import nn

    from ..context import Context
    from ..recipe import LoadedRecipe
    from .loop.common import Task


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    train_task(_build(recipe, context), context)


def _build(recipe: LoadedRecipe, context: Context) -> Task:
    raw = prepare(recipe, context)
    devices = [torch.device(raw.device.type, number) for number in range(len(context.assignment.devices))]
    with DeviceRecorder() as recorder:
        model = _placed(recipe, context, raw.model, devices)
    record_parts(context, model, recorder)
    # One by one: a compiler of the whole model cannot follow tensors from device to device.
    is_compiled = context.training.compile and compile_each(items(model))
    task = complete(recipe, context, raw, model, is_compiled=is_compiled)
    set_epoch_end(recipe, context, model, partial(undisturbed, model))
    task.loss = across(task.loss, raw.device)
    task.metrics = {name: across(metric, raw.device) for name, metric in task.metrics.items()}
    return task


def _placed(recipe: LoadedRecipe, context: Context, model: nn.Module, devices: list[torch.device]) -> nn.Module:
    if recipe.has("placed_model"):
        return build_model(recipe, "placed_model", context.training.seed, devices)
    return place_in_order(model, devices, recipe.name)
