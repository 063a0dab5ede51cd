"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..controller import TrainingController
from ._build import build
from ._loop import Reporter, Validation, learning_rate, passes, updater
from ._saver import WholeSaver

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    task = build(recipe, context)
    model, optimizer = task.model, task.optimizer
    controller = TrainingController(
        context, Reporter(context, task), WholeSaver(model, optimizer, context), **task.size
    )
    update = updater(task, context, controller)
    validation = Validation(task, context, task.module, controller)

    task.module.train()
    controller.begin(learning_rate(optimizer))
    for epoch in controller.epochs():
        for micro_batches in task.train.shuffled(epoch, skip=controller.done_in_epoch):
            optimizer.zero_grad()
            loss = passes(task, task.module, micro_batches)
            update()
            if controller.after_step(loss):
                return

        controller.after_epoch_steps(learning_rate(optimizer))
        if controller.after_epoch(validation.means()):
            return
    controller.finish()
