"""One batch of `fit`: Keras' own `train_step`, or one that weights the parts of a batch by their size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ...language import tr
from ..tensorflow._step import Passes, Update, add_gradients
from ._data import part

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..context import Context
    from ..tensorflow._build import Task
    from ..tensorflow._data import Feed
    from ..tensorflow._step import Gradient
    from ._data import Cut

    Logs = dict[str, tf.Tensor]


def train_step(task: Task, context: Context, cut: Cut, gradient: Gradient | None = None) -> Callable[[Any], Logs]:
    """Return the function that `fit` calls for each batch. Its log `loss` is that of the batch, unlike Keras' own.

    Keras' step is kept where it suffices. It clips each replica's gradient separately, and weights all parts of a
    batch equally, whatever their size.
    """
    if cut.needed or gradient or context.training.gradient_clip:
        _require_keras_step(task.model)
        return CutStep(task, context, cut, gradient)
    return _with_loss_per_batch(task.model)


def _with_loss_per_batch(model: keras.Model) -> Callable[[Any], Logs]:
    """Return the model's step, with the mean loss reset before each batch."""
    step = model.train_step

    def reset_and_step(data: Any) -> Logs:  # noqa: ANN401 (the data set's elements)
        for metric in model.metrics:
            if metric.name == "loss":
                metric.reset_state()
        logs: Logs = step(data)
        return logs

    return reset_and_step


class CutStep:
    """An optimizer step on the parts of a global batch, each weighted by its size."""

    def __init__(self, task: Task, context: Context, cut: Cut, gradient: Gradient | None) -> None:
        self._passes, self._update = CutPasses(task, context, gradient), Update(task, context)
        self._replicas = cut.replicas

    def __call__(self, data: Any) -> Logs:  # noqa: ANN401 (as above)
        """Make one replica's part of the step. Keras averages the logs of all replicas; these must add up."""
        inputs, target, weights = keras.utils.unpack_x_y_sample_weight(data)
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        loss, gradients = self._passes.weighted((*inputs, target), tf.ones([1]) if weights is None else weights)
        self._update(gradients)
        return {"loss": loss * self._replicas}


class CutPasses(Passes):
    """The passes over a replica's slice, whose size is known only at run time."""

    def weighted(self, tensors: Feed, weights: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        """Return the mean loss of the slice times the sum of its weights, and its gradients."""
        loss, gradients = self._passes(tensors, weights)
        return loss, gradients

    def _all(self, tensors: Feed, weights: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        if self._accumulation == 1:
            return self._one(tensors, tf.reduce_sum(weights))
        total: tf.Tensor = tf.zeros([])
        sums: list[tf.Tensor | None] = []
        done: list[tf.Tensor] = []
        for number in range(self._accumulation):
            with tf.control_dependencies(done):  # one after another, or all would be in memory at once
                start, size = part(tf.shape(weights)[0], number, self._accumulation)
                mine = tuple(each[start : start + size] for each in tensors)
                loss, gradients = self._one(mine, tf.reduce_sum(weights[start : start + size]))
            total += loss
            sums = [add_gradients(*pair) for pair in zip(sums, gradients, strict=True)] if sums else gradients
            done = [total, *(each for each in sums if each is not None)]
        return total, sums


def _require_keras_step(model: keras.Model) -> None:
    if type(model).train_step is not keras.Model.train_step:
        raise ValueError(
            tr(
                "model() returned a {kind} with a train_step of its own, which cannot weight the parts of "
                "a batch. Train it on one device, without gradient accumulation and gradient clipping.",
                kind=type(model).__name__,
            )
        )
