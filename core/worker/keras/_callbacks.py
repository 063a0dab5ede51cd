"""Callbacks of `fit`: one connects it with the run's controller, the others are the recipe's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
from keras import callbacks as of_keras
from keras.callbacks import Callback

from ...language import tr
from ..recipe import CALLBACKS, outputs_folder, wrong_return
from ..steps import RATE, VALIDATION_PREFIX
from ..tensorflow.loop import Rates, fetch, learning_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import tensorflow as tf

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ..tensorflow.task.build import Task
    from ..training.controller import TrainingController
    from ..training.metrics import Values
PATHS = ((of_keras.ModelCheckpoint, "filepath"), (of_keras.CSVLogger, "filename"), (of_keras.TensorBoard, "log_dir"))
"""The attributes of Keras' own callbacks that name files."""
FREQUENCIES = {of_keras.ModelCheckpoint: "save_freq", of_keras.TensorBoard: "update_freq"}
"""The attributes that say whether these callbacks work after batches; "epoch": only after epochs."""
CHANGE_RATE = (of_keras.LearningRateScheduler, of_keras.ReduceLROnPlateau)


class BatchLogs:
    """Reads the logs of the batches, with which `fit` reports its steps. Their names are those of the first logs."""

    def __init__(self, context: Context, task: Task) -> None:
        own_step = type(task.model).train_step is not keras.Model.train_step
        self._names: tuple[str, ...] = ()
        self._chosen = None if own_step or task.training_step is not None else set(task.metrics)
        self._takes_logs = task.training_metrics is None and (
            context.training.training_metrics or task.training_step is not None
        )
        """Whether the step itself has measured metrics, which are in its logs."""
        self._kind = type(task.model).__name__

    def names(self) -> Sequence[str]:
        """Return what each step is reported with: the loss, and the metrics that were measured on its batch."""
        return self._names or ("loss",)

    def fetch(self, logs: list[Mapping[str, tf.Tensor]]) -> list[float]:
        """Return the values of steps, step by step, in one transfer."""
        if not self._names:
            self._names = self._names_of(logs[0])
        if len(self._names) == 1:
            return fetch([each["loss"] for each in logs])
        dtype = logs[0]["loss"].dtype
        parts = (each[name] for each in logs for name in self._names)
        return fetch([part if part.dtype == dtype else keras.ops.cast(part, dtype) for part in parts])

    def _names_of(self, logs: Mapping[str, tf.Tensor]) -> tuple[str, ...]:
        if "loss" not in logs:
            raise ValueError(
                tr(
                    "train_step() of the model {kind} returned no 'loss' ({names}). Add it to the dict.",
                    kind=self._kind,
                    names=", ".join(logs) or tr("an empty dict"),
                )
            )
        others = [name for name in logs if name not in {"loss", RATE} and not name.startswith(VALIDATION_PREFIX)]
        if self._chosen is not None:
            others = [name for name in others if name in self._chosen]
        scalar = [name for name in others if getattr(logs[name], "shape", None) == ()]
        return ("loss", *(scalar if self._takes_logs else ()))


class ControllerCallback(Callback):  # type: ignore[misc]  # Keras has no types
    """Reports each step and epoch to the controller, and ends `fit` when the controller decides to."""

    def __init__(self, controller: TrainingController, task: Task, context: Context) -> None:
        super().__init__()
        self._controller, self._context, self._optimizer = controller, context, task.optimizer
        self._steps = min(task.train.steps, context.spec.probe_steps or task.train.steps)
        self._rates = Rates(task, controller)
        self.over = False
        """Whether a stop or a pause ended the training."""
        self.ended_by = ""
        """The class of the recipe's callback that has ended the training; the empty string if none has."""
        self.validations = Validations(self)
        self.measure: Callable[[], Values | None] | None = None
        """Validates with our own passes; None where `fit` validates."""
        self._cut_short = False

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (Keras' signature)
        """Set the learning rate of this step, where it differs from the last one's."""
        self._rates.set()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (as above)
        """Count the step. A resumed epoch ends when all its steps are done, though `fit` has counted fewer."""
        self.over = self._controller.after_step(logs)
        if self.over or self.steps_done:
            self.model.stop_training = True  # read after each batch and after the validation
        if self.steps_done and not self.over:
            self._controller.after_epoch_steps(learning_rate(self._optimizer))

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (as above)
        """Start a validation that no request has cut short."""
        self._cut_short = False

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (as above)
        """End the validation if a stop or a pause is requested."""
        if self._controller.cuts_validation():
            self._cut_short = True
        self.model.stop_evaluating = self._cut_short or self._controller.probes

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002 (as above)
        """End the epoch, and with it the training if a request, the controller or a callback ends it."""
        if not self.over and self.steps_done:
            self.validated(logs)
        self.model.stop_training = self.over or self.finished or bool(self.ended_by)

    def validated(self, logs: Mapping[str, float]) -> None:
        """Report the means of a validation, if it was not cut short."""
        if self.measure is not None:
            self.over = self._controller.after_epoch(self.measure())
            return
        values = {name: [value] for name, value in logs.items() if name.startswith(VALIDATION_PREFIX)}
        self.over = self._controller.after_epoch({} if self._cut_short else values)

    @property
    def steps_done(self) -> bool:
        """Whether all steps of the current epoch are done."""
        return self._controller.done_in_epoch == self._steps

    @property
    def finished(self) -> bool:
        """Whether no epoch is left."""
        return next(self._controller.epochs(), None) is None

    def epoch_logs(self, epoch: int) -> dict[str, float] | None:
        """Return the numbers of an epoch, from 0, as Keras gives them to callbacks; None if it was not completed."""
        if self._controller.epoch <= epoch:
            return None
        left_out = {"epoch", "step", RATE}
        return {name: value for name, value in self._controller.numbers.items() if name not in left_out}


class Validations(list[int]):
    """The epochs after which `fit` validates: all but one that ended in the middle."""

    def __init__(self, callback: ControllerCallback) -> None:
        super().__init__()
        self._callback = callback

    def __contains__(self, epoch: object) -> bool:
        return not self._callback.over and self._callback.steps_done


class Callbacks(keras.callbacks.CallbackList):  # type: ignore[misc]  # Keras has no types
    """The recipe's callbacks. The controller's is called before them.

    A batch's logs are fetched from the device only for callbacks that look at them.
    """

    def __init__(
        self, first: ControllerCallback, own: Sequence[Callback], model: keras.Model, **parameters: int
    ) -> None:
        super().__init__([*own], add_history=True, model=model, **parameters)
        first.set_model(model)
        self._first = first
        self._at_begin = [each for each in self.callbacks if overrides(each, "on_train_batch_begin", "on_batch_begin")]
        self._at_end = [each for each in self.callbacks if overrides(each, "on_train_batch_end", "on_batch_end")]
        self._at_test_end = [each for each in self.callbacks if overrides(each, "on_test_batch_end")]
        self._read = any(reads_batches(each) for each in self.callbacks)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """Call those that do something before a batch."""
        self._first.on_train_batch_begin(batch, logs)
        for callback in self._at_begin:
            callback.on_train_batch_begin(batch, {})

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """Call the controller with the logs as they are, and those that do something after a batch with numbers."""
        self._first.on_train_batch_end(batch, logs)
        if self._at_end:
            numbers = _plain(logs) if self._read else {}
            for callback in self._at_end:
                self._call(callback, callback.on_train_batch_end, batch, numbers)

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """Call each callback."""
        self._first.on_test_begin(logs)
        super().on_test_begin(logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """Call each callback."""
        for callback in self.callbacks:
            callback.on_test_batch_begin(batch, logs or {})

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """Call the controller with the logs as they are, and those that do something after a batch with numbers."""
        self._first.on_test_batch_end(batch, logs)
        if self._at_test_end:
            numbers = _plain(logs)
            for callback in self._at_test_end:
                callback.on_test_batch_end(batch, numbers)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401 (as above)
        """End the epoch, then call the callbacks with its means; not for an epoch that a stop or a pause cut short."""
        self._first.on_epoch_end(epoch, logs)
        numbers = self._first.epoch_logs(epoch)
        if numbers is None:
            return
        found = {**_plain(logs), **numbers}
        for callback in self.callbacks:
            self._call(callback, callback.on_epoch_end, epoch, found)

    def _call(self, callback: Callback, method: Callable[[int, Any], object], number: int, logs: Any) -> None:  # noqa: ANN401 (as above)
        """Call a method, and notice if it ends the training."""
        before, self.model.stop_training = self.model.stop_training, False
        method(number, logs)
        if self.model.stop_training and not self._first.ended_by:
            self._first.ended_by = type(callback).__name__
        self.model.stop_training = before or self.model.stop_training


def _plain(logs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return logs as numbers, which waits for the device."""
    return {name: float(value) if getattr(value, "shape", ()) == () else value for name, value in (logs or {}).items()}


def recipe_callbacks(recipe: LoadedRecipe, context: Context, model: keras.Model) -> list[of_keras.Callback]:
    """Return the recipe's callbacks; none if it has no such function. Raises `TypeError` and `ValueError`."""
    if not recipe.has(CALLBACKS):
        return []
    folder = outputs_folder(context)
    found = recipe.call(CALLBACKS, folder) if recipe.takes(CALLBACKS, "folder") else recipe.call(CALLBACKS)
    callbacks = _checked(found, recipe)
    for callback in callbacks:
        _refuse(callback, context, model)
        _place(callback, folder)
        if isinstance(callback, of_keras.CSVLogger) and context.resumed:
            callback.append = True  # else it would empty its file
    if callbacks and context.resumed:
        context.notice(
            tr(
                "The callbacks of {recipe} start from the beginning, because Keras does not save their state: "
                "EarlyStopping, ReduceLROnPlateau and ModelCheckpoint have lost their counts and best values.",
                recipe=recipe.name,
            )
        )
    return callbacks


def overrides(callback: of_keras.Callback, *methods: str) -> bool:
    """Return whether a callback has a method of its own by one of these names."""
    found = (getattr(getattr(callback, name), "__func__", None) for name in methods)
    return any(own is not getattr(of_keras.Callback, name) for name, own in zip(methods, found, strict=True))


def reads_batches(callback: of_keras.Callback) -> bool:
    """Return whether a callback looks at the numbers of each batch."""
    if type(callback) in FREQUENCIES:  # they have the method also where they do nothing in it
        return bool(getattr(callback, FREQUENCIES[type(callback)]) != "epoch")
    return overrides(callback, "on_train_batch_end", "on_batch_end")


def read_metrics_of_batches(callbacks: list[of_keras.Callback]) -> bool:
    """Return whether the recipe's metrics must be measured on every batch, whatever that costs."""
    return any(reads_batches(each) and type(each) is not of_keras.TerminateOnNaN for each in callbacks)


def restores_weights(callbacks: list[of_keras.Callback]) -> bool:
    """Return whether the end of the training may give the model other weights."""
    restoring = (each for each in callbacks if isinstance(each, of_keras.EarlyStopping))
    return any(each.restore_best_weights for each in restoring)


def _checked(found: Any, recipe: LoadedRecipe) -> list[of_keras.Callback]:  # noqa: ANN401 (whatever the recipe returns)
    remedy = tr("Return a list of objects of keras.callbacks.Callback.")
    if not isinstance(found, (list, tuple)):
        raise wrong_return(CALLBACKS, recipe, found, remedy)
    for each in found:
        if isinstance(each, type) or not isinstance(each, of_keras.Callback):
            kind = tr("the class {name}", name=each.__name__) if isinstance(each, type) else type(each).__name__
            raise TypeError(
                tr(
                    "callbacks() of {recipe} returned {kind} in its list. {remedy}",
                    recipe=recipe.name,
                    kind=kind,
                    remedy=remedy,
                )
            )
    return list(found)


def _refuse(callback: of_keras.Callback, context: Context, model: keras.Model) -> None:
    """Raise `ValueError` for a callback that would work against the run."""
    kind = type(callback).__name__
    training = context.training
    if isinstance(callback, of_keras.BackupAndRestore):
        raise ValueError(  # noqa: TRY004 (the user's choice, not a type of ours)
            tr("callbacks() has {kind}, but the run writes and restores its own checkpoints. Remove it.", kind=kind)
        )
    if isinstance(callback, CHANGE_RATE) and (training.schedule != "constant" or training.warmup_steps):
        raise ValueError(
            tr(
                "callbacks() has {kind}, which sets the learning rate, and so does the run's own schedule. Leave the "
                "run's schedule constant, without warm-up steps, or remove the callback.",
                kind=kind,
            )
        )
    if isinstance(callback, of_keras.ModelCheckpoint) and not callback.save_weights_only:
        try:
            model.get_config()
        except NotImplementedError:
            raise ValueError(
                tr(
                    "callbacks() has {kind}, but Keras cannot save a whole model of the class {model}. Give it "
                    "save_weights_only=True, or the class get_config().",
                    kind=kind,
                    model=type(model).__name__,
                )
            ) from None


def _place(callback: of_keras.Callback, folder: Path) -> None:
    """Let relative paths of Keras' own callbacks begin in the run's folder."""
    for kind, attribute in PATHS:
        if isinstance(callback, kind):
            path = str(getattr(callback, attribute))
            if "://" not in path and not Path(path).is_absolute():
                setattr(callback, attribute, str(folder / path))
            if isinstance(callback, of_keras.CSVLogger):  # the others make their folders
                Path(callback.filename).parent.mkdir(parents=True, exist_ok=True)
