"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._loop import Validation, build, learning_rate, passes
from ._meter import Meter

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop is asked for."""
    task = build(recipe, context)
    model, optimizer = task.model, task.optimizer
    validation = Validation(task, context, model)
    meter = Meter(context)

    model.train()
    context.ready(steps_per_epoch=task.train.steps, samples_per_epoch=task.train.items)
    for epoch in range(context.training.epochs):
        for micro_batches in task.train.shuffled(epoch):
            optimizer.zero_grad()
            loss = passes(task, model, micro_batches)
            optimizer.step()
            if meter.step(loss):
                return

        meter.learning_rate(learning_rate(optimizer))
        if task.val is not None:
            meter.report()  # the curve is up to date while a long validation lasts
            meter.validated(validation.named(validation.sums()))
            if context.stop_requested():
                return
    meter.report()
