"""The strategies of one process, each a function of the recipe and the run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..recipe import set_epoch_end
from .loop import Validation, passes, train_task
from .model import DeviceRecorder, across, compile_each, items, place_in_order, record_parts
from .task.build import build, build_model, complete, prepare
from .task.saver import undisturbed

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe
    from .task.build import Task


def single(recipe: LoadedRecipe, context: Context) -> None:
    """Train on one device."""
    train_task(build(recipe, context), context)


def data_parallel(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel on several GPUs, the old way: `nn.DataParallel` copies the model at every step."""
    task = build(recipe, context)
    if context.training.output_device:
        # Batches are on the first GPU, where the model's own parameters are, and outputs on another.
        _measure_at_output(task, task.train.device)
    if context.training.precision == "bfloat16":
        task.model.register_forward_pre_hook(_in_bfloat16)
    # Outputs are gathered on one GPU before the loss is computed, so its mean is over the whole batch.
    devices = list(range(len(context.assignment.devices)))
    model = nn.DataParallel(task.model, device_ids=devices, output_device=context.training.output_device)
    train_task(
        task, context, lambda part, batches: passes(part, model, batches),
        validation=lambda controller, _: Validation(task, model, controller),
    )


def _in_bfloat16(module: nn.Module, inputs: object) -> None:  # noqa: ARG001 (a hook's signature)
    """Set the type again: DataParallel's threads inherit that autocast is on, but with float16."""
    torch.set_autocast_dtype("cuda", torch.bfloat16)


def placement(recipe: LoadedRecipe, context: Context) -> None:
    """Train a model whose parts are on the devices that the recipe names, or in order on all."""
    raw = prepare(recipe, context)
    devices = [torch.device(raw.device.type, number) for number in range(len(context.assignment.devices))]
    with DeviceRecorder() as recorder:
        if recipe.has("placed_model"):
            model = build_model(recipe, "placed_model", context.training.seed, devices)
        else:
            model = place_in_order(raw.model, devices, recipe.name)
    record_parts(context, model, recorder)
    # One by one: a compiler of the whole model cannot follow tensors from device to device.
    is_compiled = context.training.compile and compile_each(items(model))
    task = complete(recipe, context, raw, model, is_compiled=is_compiled)
    set_epoch_end(recipe, context, model, partial(undisturbed, model))
    _measure_at_output(task, raw.device)
    train_task(task, context)


def _measure_at_output(task: Task, home: torch.device) -> None:
    """Compute loss and metrics on the device of the model's output, where the targets are not."""
    task.loss = across(task.loss, home)
    task.metrics = {name: across(metric, home) for name, metric in task.metrics.items()}
