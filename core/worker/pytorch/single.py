"""One device, one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..training.controller import TrainingController
from .loop.common import Validation, learning_rate, passes, reporter, run_epochs
from .loop.saver import WholeSaver
from .loop.update import stepper
from .task.build import build

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    task = build(recipe, context)
    controller = TrainingController(context, reporter(context, task), WholeSaver(task, context), **task.size)
    step = stepper(task, context, controller, lambda part, batches: passes(part, part.forward, batches))
    validation = Validation(task, context, task.module, controller)

    task.module.train()
    controller.begin(learning_rate(task.optimizer))
    run_epochs(task, controller, step, validation)
