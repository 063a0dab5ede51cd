"""The strategies with Keras' own `fit`: compile the model, and call `fit` once for the whole run."""

from __future__ import annotations

import gc
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ...language import tr
from ..tensorflow.devices import claim, mirrored_strategy, placed_model, record_parts
from ..tensorflow.loop import learning_rate, over_replicas, skipped_steps, traced, validate
from ..tensorflow.step import Passes
from ..tensorflow.strategies import where_it_was_computed
from ..tensorflow.task.build import build, call
from ..tensorflow.task.saver import Saver
from ..tensorflow.task.step_times import StepTimes
from ..training.controller import TrainingController, size_of
from ..training.metrics_reporter import MetricsReporter
from ._callbacks import (
    BatchLogs,
    Callbacks,
    ControllerCallback,
    read_metrics_of_batches,
    recipe_callbacks,
    restores_weights,
)
from ._step import Cut, measured_function, train_step, training, validation

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe
    from ..tensorflow.step import Gradient
    from ..tensorflow.task.build import Measure, Task


ENDLESS = 2**31
"""More epochs than any training has."""


def fit(task: Task, recipe: LoadedRecipe, context: Context, gradient: Gradient | None = None) -> None:
    """Train to the last epoch, or until a stop or a pause is requested. `gradient` replaces the gradient tape."""
    strategy = task.model.distribute_strategy
    _refuse_texts(task)
    own = recipe_callbacks(recipe, context, task.model)
    if any(isinstance(each, keras.callbacks.LearningRateScheduler) for each in own):
        task.rates = _scheduled
    if task.training_metrics is not None:
        task.training_metrics.always = read_metrics_of_batches(own)
    cut = Cut(strategy.num_replicas_in_sync, context.training.accumulation)
    times = StepTimes(context, task, reads_in_graph=True, replicas=cut.replicas)
    with strategy.scope():
        _compile(task, context, cut, gradient)
    logs = BatchLogs(context, task)
    reporter = MetricsReporter(
        context, names=logs.names, fetch=logs.fetch, metrics=task.training_metrics, times=times,
        after_report=skipped_steps(task, context),
    )
    controller = TrainingController(
        context, reporter, Saver(task.model, [task.optimizer], context), **size_of(task.train, task.val)
    )
    controller.keeps_numbers = controller.keeps_numbers or bool(own)
    callback = ControllerCallback(controller, task, context)  # before a checkpoint can change the base learning rate
    controller.begin(learning_rate(task.optimizer))
    checks = _validation(task, context, controller, callback)
    if callback.steps_done:
        controller.after_epoch_steps(learning_rate(task.optimizer))
        callback.validated(_validated_again(task, callback, checks))
    if not (callback.over or callback.finished):
        feeds = training(
            task.train, cut, epoch=controller.epoch, epochs=ENDLESS, skip=controller.done_in_epoch,
            any_shape=task.training_step is not None,
        )
        task.model.fit(
            _dealt(feeds, strategy),
            initial_epoch=controller.epoch,
            epochs=ENDLESS,  # their number may change: the callback ends the training
            steps_per_epoch=task.train.steps,
            callbacks=Callbacks(
                callback, own, task.model, epochs=context.training.epochs, steps=task.train.steps, verbose=0
            ),
            shuffle=False,  # the stream has its own order
            verbose=0,
            **checks,
        )
    if not callback.over:
        if callback.ended_by and not callback.finished:
            context.notice(
                tr(
                    "The callback {kind} ended the training after step {step}, in epoch {epoch}.",
                    kind=callback.ended_by,
                    step=controller.step,
                    epoch=-(-controller.step // task.train.steps),
                )
            )
        controller.finish(altered=restores_weights(own))
    # Releasing a stream under a strategy may take a minute (see `read_ahead`): keep it until the process exits.
    gc.freeze()


def _refuse_texts(task: Task) -> None:
    """Raise `ValueError` for data that `fit` cannot divide."""
    replicas = task.model.distribute_strategy.num_replicas_in_sync
    if replicas > 1 and any(spec.dtype == tf.string for spec in task.train.specs()):
        raise ValueError(
            tr(
                "Keras' fit cannot hand out texts to several devices. Choose one device or framework tensorflow, or "
                "leave the texts out of the data."
            )
        )


def _validated_again(task: Task, callback: ControllerCallback, checks: dict[str, Any]) -> dict[str, float]:
    """Return the validation of an epoch whose steps are done, and whose own validation a pause has cut off."""
    if not checks:
        return {}
    logs = task.model.evaluate(
        checks["validation_data"],
        steps=checks["validation_steps"],
        callbacks=Callbacks(callback, [], task.model),
        verbose=0,
        return_dict=True,
    )
    return {f"val_{name}": value for name, value in logs.items()}


def _scheduled() -> list[float]:
    raise ValueError(tr("callbacks() has LearningRateScheduler, which sets the learning rate of every epoch."))


def _compile(task: Task, context: Context, cut: Cut, gradient: Gradient | None) -> None:
    """Compile the model with the recipe's parts, and give `fit` its step."""
    by_fit = task.is_measured_by_fit
    metrics = [keras.metrics.MeanMetricWrapper(measure, name=name) for name, measure in task.metrics.items()]
    task.model.compile(
        optimizer=task.optimizer,
        loss=MeanLoss(task.loss, cut.replicas) if by_fit else None,
        metrics=metrics if by_fit else None,
        # Set here, because Keras would choose XLA by the device. Over several devices only the passes of each device
        # can be compiled: see `Passes`.
        jit_compile=context.training.compile and cut.replicas == 1,
    )
    if context.training.compile and cut.replicas == 1 and not task.model.jit_compile:
        context.notice(tr("Keras reports that XLA cannot compile this model. It is trained without compiling."))
    # Set on the instance, so that its class and a `train_step` of the recipe's own stay unchanged.
    step = train_step(task, context, cut, gradient)
    if task.training_metrics is None:
        task.model.train_step = step
    else:
        task.model.train_function = measured_function(task, step)
    # A model that a callback saves is saved without our loss, which Keras would not find when it loads the file.
    task.model.get_compile_config = lambda: None
    if by_fit:
        _build_metrics(task, cut.replicas)


def _build_metrics(task: Task, replicas: int) -> None:
    """Build the metrics with one item: Keras reads their results after an epoch, even if no step has used them.

    For several replicas Keras would take the mean of their first batches, which fails if these differ in size: at data
    that are fewer than a global batch and do not divide evenly.
    """
    model, batches = task.model, task.train if task.training_step is None else task.val
    assert batches is not None, "else nothing is measured"
    *inputs, target = batches.tensors(tuple(part[:1] for part in next(batches.in_order())))
    if replicas == 1:
        model.compute_metrics(None, target, call(model, inputs, training=False))
        return
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


def _validation(
    task: Task, context: Context, controller: TrainingController, callback: ControllerCallback
) -> dict[str, Any]:
    """Return the keywords of `fit` for validation; empty without validation data, or if our own passes measure."""
    strategy = task.model.distribute_strategy
    if task.val is None:
        return {}
    if task.validation_step is not None or not task.is_measured_by_fit:
        # Our own passes measure, as in TensorFlow's own loop.
        passes, val = Passes(task, context), task.val
        measure = traced(lambda *feed: over_replicas(strategy, passes.sums, feed), val)
        callback.measure = lambda: validate(task, controller, starmap(measure, val.in_order()))
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


def single(recipe: LoadedRecipe, context: Context) -> None:
    """Train on one device."""
    claim(context)
    fit(build(recipe, context), recipe, context)


def mirrored(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel on several devices: MirroredStrategy keeps a copy of the model on each.

    It replaces `keras.utils.multi_gpu_model`, which TensorFlow 2.4 removed.
    """
    strategy = mirrored_strategy(context)
    fit(build(recipe, context, scope=strategy.scope()), recipe, context)


def placement(recipe: LoadedRecipe, context: Context) -> None:
    """Train a model whose parts are on the devices that the recipe names, or in order on all."""
    devices = claim(context)
    with tf.device(devices[0]):  # for everything that is not placed
        task = build(recipe, context, make_model=partial(placed_model, recipe, context, devices))
    record_parts(context, task.model, devices)
    fit(task, recipe, context, where_it_was_computed)
