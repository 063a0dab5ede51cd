"""The data for `fit`, one stream of batches over all epochs; and the step on a batch, Keras' own or one of ours."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

from ...language import tr
from ..tensorflow.loop import of_replicas
from ..tensorflow.step import Passes, Update
from ..tensorflow.task.data import read_ahead, whole_batches

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ..context import Context
    from ..tensorflow.step import Gradient
    from ..tensorflow.task.build import Task
    from ..tensorflow.task.data import Batches, Feed

    Logs = dict[str, tf.Tensor]


class Cut(NamedTuple):
    """The number of parts of a global batch."""

    replicas: int = 1
    passes: int = 1
    """Forward and backward passes of each replica, one after another: gradient accumulation."""

    @property
    def needed(self) -> bool:
        """Whether batches are cut at all."""
        return self.replicas * self.passes > 1


def training(
    batches: Batches, cut: Cut, *, epoch: int, epochs: int, skip: int, any_shape: bool = False
) -> tf.data.Dataset:
    """Return all batches from step `skip` of an epoch on, epoch after epoch, each in its own order.

    Elements are (inputs, target), or, with `any_shape`, (tensors,), all of a batch in a row. Where batches are cut,
    weights follow: the elements are those of one replica after the other, and the weights of a global batch add up
    to 1.
    """
    if batches.dataset is None:
        feeds = _shuffled_arrays(batches, cut, epoch=epoch, epochs=epochs, skip=skip)
    else:
        feeds = _shuffled_dataset(batches, epoch=epoch, epochs=epochs, skip=skip)
        feeds = _dealt_out(feeds, cut) if cut.needed else feeds
    return _gathered(feeds, batches, weighted=cut.needed, any_shape=any_shape)


def validation(batches: Batches, replicas: int) -> tuple[tf.data.Dataset, int]:
    """Return the data set, repeated without end, and the steps that see it once.

    Keras weights a replica's measurements by its number of items, so every replica must get some.
    """
    # With fewer items than replicas, each item is repeated once per replica: the means stay the same.
    times = 1 if batches.items >= replicas else replicas
    # The run's batch size, or a little more, so that the last batch has an item for each replica, too.
    size = batches.batch_size
    while size < batches.items and 0 < batches.items % size < replicas:
        size += replicas
    items = batches.dataset
    if items is None:
        items = tf.data.Dataset.from_tensor_slices((tf.range(batches.items),))
    feeds = items.repeat(times).batch(size)
    if replicas > 1:
        feeds = _dealt_out(feeds, Cut(replicas)).map(lambda *feed: feed[:-1])
    return _gathered(feeds, batches, weighted=False), -(-batches.items * times // size)


def _gathered(feeds: tf.data.Dataset, batches: Batches, *, weighted: bool, any_shape: bool = False) -> tf.data.Dataset:
    """Return batches for `fit`. They repeat without end: TensorFlow then need not look for the end at each step.

    Elements are (inputs, target), or, with `any_shape`, (tensors,); where `weighted`, weights follow.
    """

    def gather(*feed: tf.Tensor) -> tuple[object, ...]:
        tensors, weights = batches.tensors(feed[:-1] if weighted else feed), feed[-1:] if weighted else ()
        if any_shape:
            return (tuple(tensors), *weights)
        *inputs, target = tensors
        return (inputs[0] if len(inputs) == 1 else tuple(inputs), target, *weights)

    return read_ahead(feeds.map(gather).repeat())


def _shuffled_arrays(batches: Batches, cut: Cut, *, epoch: int, epochs: int, skip: int) -> tf.data.Dataset:
    """Return the indices of each batch, or of each replica's slice of it, one after the other.

    The steps are counted, and the epoch's order is passed from step to step.
    """
    steps, size, replicas = batches.steps, batches.batch_size, cut.replicas

    def following(order: tf.Tensor, number: tf.Tensor) -> tuple[tf.Tensor, Feed]:
        step, replica = number // replicas, number % replicas
        begins = number % (steps * replicas) == 0
        order = tf.cond(begins, lambda: batches.order(step // steps), lambda: order)
        at = step % steps * size
        feed = (order[at : at + size],)
        return order, _slice(feed, replica, cut) if cut.needed else feed

    first, end = (epoch * steps + skip) * replicas, epochs * steps * replicas
    return tf.data.Dataset.range(first, end).scan(batches.order(epoch), following)


def _shuffled_dataset(batches: Batches, *, epoch: int, epochs: int, skip: int) -> tf.data.Dataset:
    """Return a `tf.data.Dataset` in global batches."""
    size = batches.batch_size

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        left_out = tf.where(number == epoch, tf.constant(skip * size, tf.int64), 0)
        items = whole_batches(batches.mixed(number).skip(left_out), size)
        return items.map(lambda *batch: tuple(tf.nest.flatten(batch)))

    return tf.data.Dataset.range(epoch, epochs).flat_map(one_epoch)


def _dealt_out(feeds: tf.data.Dataset, cut: Cut) -> tf.data.Dataset:
    """Return the replicas' slices of each global batch, in turn."""

    def slices(*feed: tf.Tensor) -> tf.data.Dataset:
        first, *others = (
            tf.data.Dataset.from_tensors(_slice(feed, tf.constant(number, tf.int64), cut))
            for number in range(cut.replicas)
        )
        for other in others:
            first = first.concatenate(other)
        return first

    return feeds.flat_map(slices)


def _slice(feed: Feed, replica: tf.Tensor, cut: Cut) -> Feed:
    """Return a replica's contiguous slice of a global batch, with the weights of its items.

    The slice has at least one item per pass: missing items are replaced by others with weight 0.
    """
    items = tf.shape(feed[0], out_type=tf.int64)[0]
    start, size = part(items, replica, cut.replicas)
    rows = tf.range(start, start + tf.maximum(size, cut.passes))
    weights = tf.where(rows < start + size, 1 / tf.cast(items, tf.float32), 0.0)
    return (*(tf.gather(each, tf.minimum(rows, items - 1)) for each in feed), weights)


def part(items: tf.Tensor, number: int | tf.Tensor, parts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return start and size of one of `parts` contiguous parts, which differ by one item at most."""
    least, more = items // parts, items % parts
    return number * least + tf.minimum(tf.cast(number, items.dtype), more), least + tf.cast(number < more, items.dtype)


def train_step(task: Task, context: Context, cut: Cut, gradient: Gradient | None) -> Callable[[Any], Any]:
    """Return the function that `fit` calls for each batch. Its logs are those of the batch, unlike Keras' own.

    Keras' step is kept where it suffices. It clips each replica's gradient separately, and weights all parts of a
    batch equally, whatever their size. Where metrics are measured, the function returns (logs, part): see
    `measured_function`.
    """
    keras_can = task.is_measured_by_fit and task.training_step is None and gradient is None
    if not keras_can or cut.needed or context.training.gradient_clip:
        _require_keras_step(task)
        return _cut_step(task, context, gradient, cut.replicas)
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
    scale, apply = task.optimizer.scale_loss, task.optimizer.apply
    task.optimizer.scale_loss = lambda loss: task.note("forward", scale(loss))
    task.optimizer.apply = lambda gradients, *others: apply(task.note("backward", gradients), *others)
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
        logs: Logs = step(task.note("data", data))
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


def _cut_step(task: Task, context: Context, gradient: Gradient | None, replicas: int) -> Callable[[Any], Any]:
    """Return an optimizer step on the parts of a global batch, each weighted by its size, or by its own weight."""
    passes, update = Passes(task, context, gradient, part=_weighted_part), Update(task, context)
    converting = contextlib.nullcontext() if task.training_step is None else _converting()

    def step(data: Any) -> Any:  # noqa: ANN401 (as above)
        """Make one replica's part of the step. Keras averages the logs of all replicas; these must add up."""
        data = task.note("data", data)
        if task.training_step is None:
            inputs, target, weights = keras.utils.unpack_x_y_sample_weight(data)
            tensors = (*(inputs if isinstance(inputs, tuple) else (inputs,)), target)
        else:
            tensors, weights = data if len(data) == 2 else (data[0], None)
        with converting:
            passed = passes.make(tensors, tf.ones([1]) if weights is None else weights)
        values = tf.reshape(update.make(passed._replace(outputs=())) * replicas, [-1])
        names = task.value_names
        logs = dict(zip(names, tf.unstack(values, len(names)), strict=True))
        if not passed.outputs:
            return logs
        measured = (tensors[-1], *passed.outputs)
        return logs, measured if weights is None else (*measured, weights)

    return step


def _weighted_part(tensors: Feed, weights: tf.Tensor, number: int, parts: int) -> tuple[Feed, tf.Tensor]:
    """Return one of the parts of a slice, whose size is known only at run time, and the sum of its weights."""
    if parts == 1:
        return tensors, tf.reduce_sum(weights)
    start, size = part(tf.shape(weights)[0], number, parts)
    return tuple(each[start : start + size] for each in tensors), tf.reduce_sum(weights[start : start + size])


def _converting() -> AbstractContextManager[Any]:
    """Return the context in which TensorFlow converts Python's `if` and `for` over tensors: `fit` switches that off."""
    found: list[AbstractContextManager[Any]] = []

    def look() -> tf.Tensor:
        found.append(tf.__internal__.autograph.control_status_ctx())
        return tf.zeros([])

    tf.function(look).get_concrete_function()
    return found[0]


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
