"""One batch of `fit`: Keras' own `train_step`, or one that weights the parts of a batch by their size."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ...language import tr
from ..tensorflow._build import call
from ..tensorflow._step import Passed, Passes, StepPasses, Update, add_gradients
from ._data import part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from ..context import Context
    from ..tensorflow._build import Measure, Task
    from ..tensorflow._data import Feed
    from ..tensorflow._step import Gradient
    from ._data import Cut

    Logs = dict[str, tf.Tensor]
    Gradients = list[tf.Tensor | None]


def train_step(task: Task, context: Context, cut: Cut, gradient: Gradient | None = None) -> Callable[[Any], Logs]:
    """Return the function that `fit` calls for each batch. Its logs are those of the batch, unlike Keras' own.

    Keras' step is kept where it suffices. It clips each replica's gradient separately, and weights all parts of a
    batch equally, whatever their size.
    """
    if task.training_step is not None or cut.needed or gradient or context.training.gradient_clip:
        _require_keras_step(task)
        return CutStep(task, context, cut, gradient)
    return _with_values_per_batch(task.model, task.metrics if measures_training(context) else {})


def measures_training(context: Context) -> bool:
    """Return whether the recipe's metrics are measured on training batches, too."""
    return context.training.training_metrics


def _with_values_per_batch(model: keras.Model, metrics: Mapping[str, Measure]) -> Callable[[Any], Logs]:
    """Return the model's step with the mean loss reset before each batch, and these metrics of the batch.

    They take the place of Keras' running means of the metrics, which take longer. A model with methods of its own for
    it keeps them.
    """
    step, running_means = model.train_step, model.compute_metrics
    kind = type(model)
    of_keras = kind.train_step is keras.Model.train_step and kind.compute_metrics is keras.Model.compute_metrics

    def of_batch(x: Any, y: tf.Tensor, y_pred: Any, sample_weight: Any = None) -> Logs:  # noqa: ANN401, ARG001 (Keras')
        logs = {metric.name: metric.result() for metric in model.metrics if metric.name == "loss"}
        return logs | {name: tf.reduce_mean(tf.cast(each(y, y_pred), tf.float32)) for name, each in metrics.items()}

    def reset_and_step(data: Any) -> Logs:  # noqa: ANN401 (the data set's elements)
        for metric in model.metrics:
            if metric.name == "loss":
                metric.reset_state()
        if of_keras:
            model.compute_metrics = of_batch
        logs: Logs = step(data)
        model.compute_metrics = running_means
        return logs

    return reset_and_step


class CutStep:
    """An optimizer step on the parts of a global batch, each weighted by its size, or by its own weight."""

    def __init__(self, task: Task, context: Context, cut: Cut, gradient: Gradient | None) -> None:
        self._task, self._update, self._replicas = task, Update(task, context), cut.replicas
        self._passes: CutPasses
        if task.training_step is None:
            metrics = task.metrics if measures_training(context) else {}
            self._passes = MeasuredCutPasses(task, context, gradient, metrics)
            self._names = ("loss", *metrics)
        else:
            self._passes, self._names = CutStepPasses(task, context, task.training_step, gradient), ()
        self._converting = _converting() if task.training_step is not None else contextlib.nullcontext()

    def __call__(self, data: Any) -> Logs:  # noqa: ANN401 (as above)
        """Make one replica's part of the step. Keras averages the logs of all replicas; these must add up."""
        if self._task.training_step is None:
            inputs, target, weights = keras.utils.unpack_x_y_sample_weight(data)
            tensors = (*(inputs if isinstance(inputs, tuple) else (inputs,)), target)
        else:
            tensors, weights = data if len(data) == 2 else (data[0], None)
        with self._converting:
            passed = self._passes.weighted(tensors, tf.ones([1]) if weights is None else weights)
        values = self._update.make(passed)
        values = tf.reshape(values * self._replicas, [-1])
        names = self._names or self._task.value_names
        return dict(zip(names, tf.unstack(values, len(names)), strict=True))


def _converting() -> AbstractContextManager[Any]:
    """Return the context in which TensorFlow converts Python's `if` and `for` over tensors: `fit` switches that off."""
    found: list[AbstractContextManager[Any]] = []

    def look() -> tf.Tensor:
        found.append(tf.__internal__.autograph.control_status_ctx())
        return tf.zeros([])

    tf.function(look).get_concrete_function()
    return found[0]


class CutPasses(Passes):
    """The passes over a replica's slice, whose size is known only at run time."""

    def weighted(self, tensors: Feed, weights: tf.Tensor) -> Passed:
        """Return the mean values of the slice times the sum of its weights, and the gradients of the loss."""
        values, gradients = self._passes(tensors, weights)
        return Passed(values, gradients)

    def _all(self, tensors: Feed, weights: tf.Tensor) -> tuple[tf.Tensor, Gradients]:
        if self._accumulation == 1:
            return self._one(tensors, tf.reduce_sum(weights))
        total: tf.Tensor | None = None
        sums: Gradients = []
        done: list[tf.Tensor] = []
        for number in range(self._accumulation):
            with tf.control_dependencies(done):  # one after another, or all would be in memory at once
                start, size = part(tf.shape(weights)[0], number, self._accumulation)
                mine = tuple(each[start : start + size] for each in tensors)
                values, gradients = self._one(mine, tf.reduce_sum(weights[start : start + size]))
            total = values if total is None else total + values
            sums = [add_gradients(*pair) for pair in zip(sums, gradients, strict=True)] if sums else gradients
            done = [total, *(each for each in sums if each is not None)]
        return total, sums


class MeasuredCutPasses(CutPasses):
    """Passes that measure metrics, too."""

    def __init__(self, task: Task, context: Context, gradient: Gradient | None, metrics: Mapping[str, Measure]) -> None:
        super().__init__(task, context, gradient)
        self._measures = list(metrics.values())

    def _one(self, tensors: Feed, share: tf.Tensor) -> tuple[tf.Tensor, Gradients]:
        """Return the mean loss and metrics times the share, shape () or (1 + metrics), and the loss's gradients."""
        task = self._task
        *inputs, target = tensors
        measured: list[tf.Tensor] = []

        def forward() -> tuple[tf.Tensor, tf.Tensor]:
            output = call(task.model, inputs, training=True)
            loss = self._mean_loss(target, output) * share
            for measure in self._measures:
                value = tf.stop_gradient(measure(target, output))
                measured.append(tf.reduce_mean(tf.cast(value, tf.float32)) * share)
            return loss, task.optimizer.scale_loss(loss)

        loss, gradients = self._gradient(forward, [each.value for each in task.model.trainable_variables])
        return tf.stack([loss, *measured]) if measured else loss, gradients


class CutStepPasses(CutPasses, StepPasses):
    """The passes of a recipe's own step."""

    def weighted(self, tensors: Feed, weights: tf.Tensor) -> Passed:
        """Return the values and gradients times the share of the items, or times the weight that the step gave."""
        values, gradients = self._passes(tensors, weights)
        if not self._step.reader.weighs:
            return Passed(values, gradients)
        return Passed(values[:-1] if len(self._task.value_names) > 1 else values[0], gradients, values[-1])

    def _one(self, tensors: Feed, share: tf.Tensor) -> tuple[tf.Tensor, Gradients]:
        values, gradients = super()._one(tensors, share)
        if not self._step.reader.weighs:
            return values, gradients
        real = tf.cast(share > 0, tf.float32)  # items in the place of missing ones have a weight of the step's, too
        return values * real, [each if each is None else tf.convert_to_tensor(each) * real for each in gradients]


def _require_keras_step(task: Task) -> None:
    if type(task.model).train_step is keras.Model.train_step:
        return
    kind = type(task.model).__name__
    if task.training_step is not None:
        raise ValueError(
            tr(
                "model() returned a {kind} with a train_step of its own, and the recipe has training_step(), too. "
                "Remove one of them.",
                kind=kind,
            )
        )
    raise ValueError(
        tr(
            "model() returned a {kind} with a train_step of its own, which cannot weight the parts of "
            "a batch. Train it on one device, without gradient accumulation and gradient clipping.",
            kind=kind,
        )
    )
