"""Compile the model and call `fit` once for the whole run: shared by all Keras strategies."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import keras

from ...language import tr
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
    """Train to the last epoch, or until a stop or a pause is requested. `gradient` replaces the gradient tape."""
    strategy, epochs = task.model.distribute_strategy, context.training.epochs
    cut = Cut(strategy.num_replicas_in_sync, context.training.accumulation)
    with strategy.scope():
        _compile(task, context, cut, gradient)
    controller = TrainingController(context, Reporter(context), Saver(task.model, task.optimizer, context), **task.size)
    callback = ControllerCallback(controller, task, context)  # before a checkpoint can change the base learning rate
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
    # Releasing a stream under a strategy may take a minute (see `read_ahead`): keep it until the process exits.
    gc.freeze()


def _compile(task: Task, context: Context, cut: Cut, gradient: Gradient | None) -> None:
    """Compile the model with the recipe's parts, and give `fit` its step."""
    task.model.compile(
        optimizer=task.optimizer,
        loss=MeanLoss(task.loss, cut.replicas),
        metrics=[keras.metrics.MeanMetricWrapper(measure, name=name) for name, measure in task.metrics.items()],
        # Set here, because Keras would choose XLA by the device. Over several devices only the passes of each device
        # can be compiled: see `CutPasses`.
        jit_compile=context.training.compile and cut.replicas == 1,
    )
    if context.training.compile and cut.replicas == 1 and not task.model.jit_compile:
        context.notice(tr("Keras reports that XLA cannot compile this model. It is trained without compiling."))
    # Set on the instance, so that its class and a `train_step` of the recipe's own stay unchanged.
    task.model.train_step = train_step(task, context, cut, gradient)
    if cut.replicas == 1:
        _build_metrics(task)
    else:
        _build_with_one_item(task)


def _build_metrics(task: Task) -> None:
    """Build the metrics with one item: Keras reads their results after an epoch, even if no step has used them."""
    *inputs, target = task.train.tensors(tuple(part[:1] for part in next(task.train.in_order())))
    task.model.compute_metrics(None, target, call(task.model, inputs, training=False))


def _build_with_one_item(task: Task) -> None:
    """Let Keras build the model and the metrics for several replicas with one item.

    It would take the mean of the replicas' first batches, which fails if these differ in size: at data that are fewer
    than a global batch and do not divide evenly.
    """
    model = task.model
    *inputs, target = task.train.tensors(tuple(part[:1] for part in next(task.train.in_order())))
    model._maybe_symbolic_build(data_batch=(inputs[0] if len(inputs) == 1 else tuple(inputs), target))  # noqa: SLF001
    model._maybe_symbolic_build = lambda **_: None  # noqa: SLF001 (Keras has no public way)


class MeanLoss(keras.losses.Loss):  # type: ignore[misc]  # Keras has no types
    """A loss as `compile` takes it: the mean over a replica's items, which Keras adds up over the replicas."""

    def __init__(self, mean: Measure, replicas: int) -> None:
        super().__init__()
        self._mean, self._replicas = mean, replicas

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:  # noqa: ANN401, ARG002 (Keras')
        """Return the mean without weights or casts: `y_true` has the type of the recipe's data."""
        return self._mean(y_true, y_pred) / self._replicas


def _validation(task: Task, callback: ControllerCallback, strategy: tf.distribute.Strategy) -> dict[str, Any]:
    """Return the keywords of `fit` for validation; empty without validation data."""
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
    """Distribute the batches to the replicas in turn, if there are several."""
    if strategy.num_replicas_in_sync == 1:
        return batches
    return strategy.distribute_datasets_from_function(lambda _: batches)


def _finish_epoch(task: Task, callback: ControllerCallback, checks: dict[str, Any]) -> None:
    """Validate a whole epoch whose validation was cut off by a pause."""
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
