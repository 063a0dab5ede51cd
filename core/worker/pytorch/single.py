"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    task = build(recipe, context)
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
