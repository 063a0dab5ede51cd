"""One batch of `fit`: Keras' own `train_step`, or one that weights the parts of a batch by their size."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ...language import tr
from ..tensorflow.loop.common import of_replicas
from ..tensorflow.loop.step import MeasuredPasses, Passed, Passes, StepPasses, Update, add_gradients
from ._data import part

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ..context import Context
    from ..tensorflow.loop.step import Gradient
    from ..tensorflow.task.build import Task
    from ..tensorflow.task.data import Feed
    from ._data import Cut

    Logs = dict[str, tf.Tensor]
    Gradients = list[tf.Tensor | None]


def train_step(
    task: Task, context: Context, cut: Cut, gradient: Gradient | None = None, *, by_fit: bool
) -> Callable[[Any], Any]:
    """Return the function that `fit` calls for each batch. Its logs are those of the batch, unlike Keras' own.

    Keras' step is kept where it suffices. It clips each replica's gradient separately, and weights all parts of a
    batch equally, whatever their size. Where metrics are measured, the function returns (logs, part): see
    `measured_function`. `by_fit`: whether Keras' step can compute the recipe's loss.
    """
    if not by_fit or task.training_step is not None or cut.needed or gradient or context.training.gradient_clip:
        _require_keras_step(task)
        return CutStep(task, context, cut, gradient)
    if not _has_keras_step(task.model):
        task.training_metrics = None  # its methods measure
    return _with_values_per_batch(task)


def _has_keras_step(model: keras.Model) -> bool:
    """Return whether `fit` makes the steps of this model, and measures them, with Keras' own methods."""
    kind = type(model)
    return kind.train_step is keras.Model.train_step and kind.compute_metrics is keras.Model.compute_metrics


def _with_values_per_batch(task: Task) -> Callable[[Any], Any]:
    """Return the model's step with the mean loss reset before each batch, and without Keras' running means of metrics.

    A model with methods of its own for it keeps them.
    """
    model, measures = task.model, task.training_metrics is not None
    step, running_means = model.train_step, model.compute_metrics
    seen: list[tuple[Any, Any]] = []

    def of_batch(x: Any, y: tf.Tensor, y_pred: Any, sample_weight: Any = None) -> Logs:  # noqa: ANN401, ARG001 (Keras')
        seen[:] = [(y, y_pred)]
        return {metric.name: metric.result() for metric in model.metrics if metric.name == "loss"}

    def reset_and_step(data: Any) -> Any:  # noqa: ANN401 (the data set's elements; with or without a part)
        for metric in model.metrics:
            if metric.name == "loss":
                metric.reset_state()
        if _has_keras_step(model):
            model.compute_metrics = of_batch
        logs: Logs = step(data)
        model.compute_metrics = running_means
        return (logs, seen.pop()) if measures else logs

    return reset_and_step


def measured_function(task: Task, step: Callable[[Any], Any]) -> Callable[[Any], Logs]:
    """Return the function of an iterator with which `fit` makes a step. It measures the metrics in steps that are due.

    `step` returns its logs, and its part of the batch: target and output, and the weights of the items where the batch
    is cut. Keras' own function would take the mean over the replicas of all that a step returns.
    """
    model, metrics, strategy = task.model, task.training_metrics, task.model.distribute_strategy
    assert metrics is not None

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def on_batch(batch: Any) -> Any:  # noqa: ANN401 (the logs, and the parts of all replicas)
        logs, part = strategy.run(step, args=(batch,))
        if strategy.num_replicas_in_sync > 1:
            logs = {name: tf.reduce_mean(of_replicas(strategy, each), axis=0) for name, each in logs.items()}
        return logs, of_replicas(strategy, part)

    compiled = tf.function(on_batch, reduce_retracing=True, jit_compile=model.jit_compile)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # as above
    def on_iterator(iterator: Any) -> Any:  # noqa: ANN401 (as above)
        return compiled(iterator.get_next())

    function = tf.function(on_iterator, reduce_retracing=True)

    def measured(iterator: Any) -> Logs:  # noqa: ANN401 (of the data set)
        logs: Logs
        logs, parts = function(iterator)
        if metrics.is_due:
            row = metrics.measure((part[0], part[1], part[2] if len(part) == 3 else 1.0) for part in parts)
            if metrics.always:
                logs |= dict(zip(metrics.names, tf.unstack(row), strict=True))
        return logs

    return measured


class CutStep:
    """An optimizer step on the parts of a global batch, each weighted by its size, or by its own weight."""

    def __init__(self, task: Task, context: Context, cut: Cut, gradient: Gradient | None) -> None:
        self._task, self._update, self._replicas = task, Update(task, context), cut.replicas
        self._passes: CutPasses
        if task.training_step is not None:
            self._passes = CutStepPasses(task, context, task.training_step, gradient)
        elif task.training_metrics is not None:
            self._passes = MeasuredCutPasses(task, context, gradient)
        else:
            self._passes = CutPasses(task, context, gradient)
        self._converting = _converting() if task.training_step is not None else contextlib.nullcontext()

    def __call__(self, data: Any) -> Any:  # noqa: ANN401 (as above)
        """Make one replica's part of the step. Keras averages the logs of all replicas; these must add up."""
        if self._task.training_step is None:
            inputs, target, weights = keras.utils.unpack_x_y_sample_weight(data)
            tensors = (*(inputs if isinstance(inputs, tuple) else (inputs,)), target)
        else:
            tensors, weights = data if len(data) == 2 else (data[0], None)
        with self._converting:
            passed = self._passes.weighted(tensors, tf.ones([1]) if weights is None else weights)
        values = self._update.make(passed._replace(outputs=()))
        values = tf.reshape(values * self._replicas, [-1])
        names = self._task.value_names
        logs = dict(zip(names, tf.unstack(values, len(names)), strict=True))
        if not passed.outputs:
            return logs
        part = (tensors[-1], *passed.outputs)
        return logs, part if weights is None else (*part, weights)


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


class MeasuredCutPasses(MeasuredPasses, CutPasses):
    """Passes that also return the output, for the recipe's metrics."""

    def weighted(self, tensors: Feed, weights: tf.Tensor) -> Passed:
        """Return the mean loss of the slice times the sum of its weights, its gradients, and the model's output."""
        values, gradients, output = self._passes(tensors, weights)
        return Passed(values, gradients, outputs=(output,))


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
