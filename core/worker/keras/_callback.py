"""Connect `fit` with the run's controller by callbacks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras

from ..context import REPORT_EVERY_S
from ..tensorflow._loop import learning_rate, rate_setter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..context import Context
    from ..controller import TrainingController
    from ..tensorflow._build import Task


class ControllerCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Reports each step and epoch to the controller, and ends `fit` when the controller decides to."""

    def __init__(self, controller: TrainingController, task: Task, context: Context) -> None:
        super().__init__()
        self._controller, self._context, self._optimizer = controller, context, task.optimizer
        self._steps = task.train.steps
        self._set_rate = rate_setter(task.optimizer, controller)
        self.over = False
        """Whether a stop or a pause ended the training."""
        self.validations = Validations(self)
        self._cut_short = False
        self._due = 0.0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (Keras' signature)
        """Set the learning rate of this step, where it differs from the last one's."""
        self._set_rate()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (as above)
        """Count the step. A resumed epoch ends when all its steps are done, though `fit` has counted fewer."""
        self.over = self._controller.after_step(logs["loss"])
        epoch_done = self._controller.done_in_epoch == self._steps
        if self.over or epoch_done:
            self.model.stop_training = True  # read after each batch and after the validation
        if epoch_done and not self.over:
            self._controller.after_epoch_steps(learning_rate(self._optimizer))

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (as above)
        """Start a validation that no request has cut short."""
        self._cut_short = False

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (as above)
        """End the validation if a stop or a pause is requested."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + REPORT_EVERY_S
            self._cut_short = self._cut_short or (self._controller.synchronises and self._context.end_requested())
            self.model.stop_evaluating = self._cut_short

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (as above)
        """End the epoch, and with it the training if a request or the controller ends it."""
        if not self.over:
            self.validated(logs)
            self.model.stop_training = self.over or self.finished

    def validated(self, logs: Mapping[str, float]) -> None:
        """Report the means of a validation, if it was not cut short."""
        values = {name: [value] for name, value in logs.items() if name.startswith("val_")}
        self.over = self._controller.after_epoch({} if self._cut_short else values)

    @property
    def finished(self) -> bool:
        """Whether no epoch is left."""
        return next(self._controller.epochs(), None) is None


class Validations(list[int]):
    """The epochs after which `fit` validates: all but one that ended in the middle."""

    def __init__(self, callback: ControllerCallback) -> None:
        super().__init__()
        self._callback = callback

    def __contains__(self, epoch: object) -> bool:
        return not self._callback.over


class Callbacks(keras.callbacks.CallbackList):  # type: ignore[misc]  # Keras has no types
    """Keras' list of callbacks, without fetching each batch's logs from the device."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """Call each callback."""
        for callback in self.callbacks:
            callback.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """Call each callback with the logs as they are."""
        for callback in self.callbacks:
            callback.on_train_batch_end(batch, logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """Call each callback with the logs as they are."""
        for callback in self.callbacks:
            callback.on_test_batch_end(batch, logs)
