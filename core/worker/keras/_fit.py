"""What the Keras strategies share: compile, and one call of `fit` for the whole run."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import keras

from ..controller import TrainingController
from ..tensorflow._build import call
from ..tensorflow._loop import Reporter, learning_rate
from ..tensorflow._saver import Saver
from ._callback import Callbacks, ControllerCallback
from ._data import Cut, training, validation
from ._step import train_step

if TYPE_CHECKING:
    import tensorflow as tf

    from ..context import Context
    from ..tensorflow._build import Measure, Task
    from ..tensorflow._step import Gradient


def fit(task: Task, context: Context, gradient: Gradient | None = None) -> None:
    """Train to the last epoch, or until a stop or a pause is asked for. `gradient`: instead of a tape."""
    strategy, epochs = task.model.distribute_strategy, context.training.epochs
    cut = Cut(strategy.num_replicas_in_sync, context.training.accumulation)
    with strategy.scope():
        _compile(task, context, cut, gradient)
    controller = TrainingController(context, Reporter(context), Saver(task.model, task.optimizer, context), **task.size)
    callback = ControllerCallback(
        controller, task, context
    )  # knows the base learning rate, which a checkpoint may not have
    controller.begin(learning_rate(task.optimizer))
    checks = _validation(task, callback, strategy)
    if controller.done_in_epoch == task.train.steps:
        controller.after_epoch_steps(learning_rate(task.optimizer))
        _finish_epoch(task, callback, checks)
    if not (callback.over or callback.finished):
        task.model.fit(
            _dealt(
                training(task.train, cut, epoch=controller.epoch, epochs=epochs, skip=controller.done_in_epoch),
                strategy,
            ),
            initial_epoch=controller.epoch,
            epochs=epochs,
            steps_per_epoch=task.train.steps,
            callbacks=Callbacks([callback], add_history=True, model=task.model),
            shuffle=False,  # the stream has its own order
            verbose=0,
            **checks,
        )
    if not callback.over:
        controller.finish()
    # A stream under a strategy may take a minute to be let go of (see `_data`): the process ends without.
    gc.freeze()


def _compile(task: Task, context: Context, cut: Cut, gradient: Gradient | None) -> None:
    """Give the model the recipe's parts, and `fit` its step."""
    task.model.compile(
        optimizer=task.optimizer,
        loss=MeanLoss(task.loss, cut.replicas),
        metrics=[keras.metrics.MeanMetricWrapper(measure, name=name) for name, measure in task.metrics.items()],
        # Not left to Keras, which would choose XLA by the device. Over several devices only the passes
        # of each can be compiled: see `CutPasses`.
        jit_compile=context.training.compile and cut.replicas == 1,
    )
    if context.training.compile and cut.replicas == 1 and not task.model.jit_compile:
        context.notice("Keras finds that XLA cannot compile this model: it is trained without.")
    # On the instance, so that its class, and a `train_step` of the recipe's own, stay what they are.
    task.model.train_step = train_step(task, context, cut, gradient)
    if cut.replicas == 1:
        _build_metrics(task)


def _build_metrics(task: Task) -> None:
    """Show the metrics an item: Keras asks them for their results after an epoch, also when no step has used them.

    Under a strategy it builds them itself.
    """
    *inputs, target = task.train.tensors(tuple(part[:1] for part in next(task.train.in_order())))
    task.model.compute_metrics(None, target, call(task.model, inputs, training=False))


class MeanLoss(keras.losses.Loss):  # type: ignore[misc]  # Keras has no types
    """A loss as `compile` takes it: the mean over a replica's items, which Keras adds up over the replicas."""

    def __init__(self, mean: Measure, replicas: int) -> None:
        super().__init__()
        self._mean, self._replicas = mean, replicas

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:  # noqa: ANN401, ARG002 (Keras')
        """Neither weighted nor cast: `y_true` comes as the recipe's data have it."""
        return self._mean(y_true, y_pred) / self._replicas


def _validation(task: Task, callback: ControllerCallback, strategy: tf.distribute.Strategy) -> dict[str, Any]:
    """The keywords with which `fit` validates; none without data for it."""
    if task.val is None:
        return {}
    batches, steps = validation(task.val, strategy.num_replicas_in_sync)
    return {
        "validation_data": _dealt(batches, strategy),
        "validation_steps": steps,
        "validation_freq": callback.validations,
    }


def _dealt(
    batches: tf.data.Dataset, strategy: tf.distribute.Strategy
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """As `fit` takes them: where there are replicas, they get theirs in turn."""
    if strategy.num_replicas_in_sync == 1:
        return batches
    return strategy.distribute_datasets_from_function(lambda _: batches)


def _finish_epoch(task: Task, callback: ControllerCallback, checks: dict[str, Any]) -> None:
    """The validation that a pause kept a whole epoch from."""
    logs = {}
    if checks:
        logs = task.model.evaluate(
            checks["validation_data"],
            steps=checks["validation_steps"],
            callbacks=Callbacks([callback], model=task.model),
            verbose=0,
            return_dict=True,
        )
    callback.validated({f"val_{name}": value for name, value in logs.items()})
