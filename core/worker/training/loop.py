"""The loop over epochs, steps and validations, which PyTorch and TensorFlow share. Keras' `fit` has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .controller import TrainingController
    from .epoch_results import Values


def run_epochs(
    controller: TrainingController,
    steps: Callable[[int, int], Iterable[Any]],
    validate: Callable[[], Values | None],
    *,
    rate: Callable[[], float],
    record: Callable[[Any], bool] | None = None,
) -> None:
    """Train to the last epoch, or until a stop or a pause is requested.

    `steps(epoch, skip)` makes the optimizer steps of an epoch without the first `skip`, each when it is asked for, and
    yields what it returned. `record` takes that, by default a loss, and returns whether training ends there.
    `validate` returns the means of a validation, see `TrainingController.after_epoch`; `rate` the learning rate.
    """
    record = record or controller.after_step
    for epoch in controller.epochs():
        for found in steps(epoch, controller.done_in_epoch):
            if record(found):
                return

        controller.after_epoch_steps(rate())
        if controller.after_epoch(validate()):
            return
    controller.finish()
