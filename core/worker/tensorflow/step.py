"""What one device does in a step: compute loss and gradients of its slice, weighted by its size, and update."""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from ..steps import unused_optimizer
from .task.build import call
from .task.data import slice_of
from .task.steps import plainly_raised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import keras

    from ..context import Context
    from .task.build import Task
    from .task.data import Feed


class Passed(NamedTuple):
    """What the passes over a slice of a global batch give. The slices' values, gradients and weights add up."""

    values: tf.Tensor
    """The loss, or the loss and the metrics, times the slice's share of the items, or times its weight."""
    gradients: Sequence[tf.Tensor | None] = ()
    """Those of the loss, likewise, by variable; empty before the backward pass."""
    weight: tf.Tensor | None = None
    """The weight that a recipe's own step gave its slice; None where its share of the items counts."""
    outputs: tuple[Any, ...] = ()
    """The model's output on each slice, where metrics are measured on it."""


if TYPE_CHECKING:
    Forward = Callable[[], tuple[Passed, tf.Tensor]]
    """Returns what a forward pass gives, and the loss as its optimizer scales it."""
    Gradient = Callable[[Forward, list[tf.Variable]], tuple[Passed, list[tf.Tensor | None]]]
    """Returns what the forward pass gives, and the gradients by variable."""
    Part = Callable[[Feed, Any, int, int], tuple[Feed, float | tf.Tensor]]


class Passes:
    """Forward and backward passes over a slice, and sums over one for validation; for use inside a `tf.function`."""

    def __init__(
        self, task: Task, context: Context, gradient: Gradient | None = None, *, part: Part | None = None
    ) -> None:
        """`gradient`: computes the gradients instead of a tape. `part`: see `_part`."""
        self._task = task
        self._forward = _by_loss if task.training_step is None else _by_step
        self._gradient, self._part = gradient or _by_tape, part or _part
        self._accumulation = context.training.accumulation
        self.make: Callable[[Feed, Any], Passed] = self._one if part is None and self._accumulation == 1 else self._all
        """Returns what the passes over these items give, weighted by their share; see `_part`."""
        if context.training.compile:
            # Only the passes are compiled: gathering a batch and exchanging gradients stay with TensorFlow.
            self.make = tf.function(self.make, jit_compile=True)

    def gradients(self, feed: Feed, share: float) -> Passed:
        """Return what the passes over the items of a feed give, weighted by their share of the global batch."""
        return self.gradients_of(self._task.train.tensors(feed), share)

    def gradients_of(self, tensors: Feed, share: float) -> Passed:
        """Return what the passes over these items give, weighted by their share of the global batch."""
        passed = self.make(tensors, share)
        if share:
            return passed
        # The idle item of a device without any must not count, even if its loss is NaN.
        weight = None if passed.weight is None else tf.zeros_like(passed.weight)
        gradients = [_changed(each, tf.zeros_like) for each in passed.gradients]
        return Passed(tf.zeros_like(passed.values), gradients, weight, passed.outputs)

    def sums(self, feed: Feed, share: float) -> tf.Tensor:
        """Return the sums of loss, metrics and items over a feed of the validation set."""
        assert self._task.val is not None
        return self.sums_of(self._task.val.tensors(feed), share)

    def sums_of(self, tensors: Feed, share: float) -> tf.Tensor:
        """Return the sums of loss and metrics, and of the items or weights, over these items."""
        task, weight = self._task, None
        if task.validation_step is None:
            *inputs, target = tensors
            output = call(task.model, inputs, training=False)
            values = [_mean(each(target, output)) for each in task.metrics.values()]
            values = [_mean_loss(task, target, output), *values]
        else:
            assert task.val is not None
            _, values, weight = task.validation_step(task.val.packed(tensors), training=False)
        counted = tf.cast(tf.shape(tensors[0])[0] if weight is None else weight, tf.float64)
        means = tf.cast(tf.stack([*values, tf.ones([])]), tf.float64)
        return means * counted if share else tf.zeros_like(means)

    def _all(self, tensors: Feed, share: Any) -> Passed:  # noqa: ANN401 (see `_part`)
        """Accumulate gradients. Each pass waits for the one before: else all would be in memory at once."""
        parts = self._accumulation
        passed = self._one(*self._part(tensors, share, 0, parts))
        for number in range(1, min(parts, tensors[0].shape[0] or parts)):
            with tf.control_dependencies([passed.values, *(each for each in passed.gradients if each is not None)]):
                following = self._one(*self._part(tuple(map(tf.identity, tensors)), share, number, parts))
            passed = added_up([passed, following])
        if len(passed.outputs) > 1:
            joined = tf.nest.map_structure(lambda *each: tf.concat(each, 0), *passed.outputs)
            passed = Passed(passed.values, passed.gradients, passed.weight, (joined,))
        return passed

    def _one(self, tensors: Feed, share: float | tf.Tensor) -> Passed:
        step = self._task.training_step

        def forward() -> tuple[Passed, tf.Tensor]:
            passed, scaled = self._forward(self._task, tensors, share)
            return passed, self._task.note("forward", scaled)

        passed, gradients = self._gradient(forward, [each.value for each in self._task.variables])
        gradients = self._task.note("backward", gradients)
        if step is not None and all(each is None for each in gradients):
            with plainly_raised():
                raise unused_optimizer(*step.turn) if step.turn else step.reader.no_graph()
        return Passed(passed.values, gradients, passed.weight, passed.outputs)


def _part(tensors: Feed, share: float, number: int, parts: int) -> tuple[Feed, float]:
    """Return one of the parts of a slice that are computed one after another, and its share of the global batch."""
    mine, share_of_slice = slice_of(tensors, number, parts)
    return mine, share * share_of_slice


def _by_loss(task: Task, tensors: Feed, share: float | tf.Tensor) -> tuple[Passed, tf.Tensor]:
    """Compute the recipe's loss: its mean times the share, and as its optimizer scales it."""
    *inputs, target = tensors
    output = call(task.model, inputs, training=True)
    loss = _mean_loss(task, target, output) * share
    return Passed(loss, outputs=() if task.training_metrics is None else (output,)), task.optimizer.scale_loss(loss)


def _by_step(task: Task, tensors: Feed, share: float | tf.Tensor) -> tuple[Passed, tf.Tensor]:
    """Compute the recipe's own step: its values times the share or its weight, and its loss as `_by_loss` does."""
    assert task.training_step is not None
    loss, values, weight = task.training_step(task.train.packed(tensors), training=True)
    if weight is not None:  # items in the place of missing ones have a weight, too
        weight *= tf.cast(share > 0, tf.float32)
    scale = share if weight is None else weight
    row = tf.stack(values) if len(values) > 1 else values[0]
    return Passed(row * scale, weight=weight), task.optimizer.scale_loss(loss * scale)


def _mean_loss(task: Task, target: tf.Tensor, output: Any) -> tf.Tensor:  # noqa: ANN401 (the model's output)
    """Return the mean loss plus the losses that the model's layers add (regularisation)."""
    return tf.add_n([task.loss(target, output), *(_mean(each) for each in task.model.losses)])


def added_up(parts: Sequence[Passed]) -> Passed:
    """Add up what the passes over several slices gave. The outputs are those of all, in order."""
    gradients = [_sum(each) for each in zip(*(part.gradients for part in parts), strict=True)]
    weights = [part.weight for part in parts if part.weight is not None]
    values = tf.add_n([part.values for part in parts])
    outputs = tuple(output for part in parts for output in part.outputs)
    return Passed(values, gradients, tf.add_n(weights) if weights else None, outputs)


def _sum(gradients: Sequence[Any]) -> Any:  # noqa: ANN401 (tensors, or some rows of one)
    """Return the sum of gradients of a variable; None for a variable without gradient.

    Rows, such as an embedding's gradient has, are put behind each other and not added up: Keras' optimizers square each
    row by itself, and the curve with accumulation would differ from that without.
    """
    known = [each for each in gradients if each is not None]
    if known and all(isinstance(each, tf.IndexedSlices) for each in known):
        values, rows = (tf.concat([getattr(each, of) for each in known], 0) for of in ("values", "indices"))
        return tf.IndexedSlices(values, rows, known[0].dense_shape)
    return reduce(operator.add, map(tf.convert_to_tensor, known)) if known else None


class Update:
    """One optimizer step from the gradients of a slice. Under a strategy the replicas' gradients are added up."""

    def __init__(self, task: Task, context: Context) -> None:
        self._task, self._optimizer = task, task.optimizer
        self._scales = task.skipped_steps is not None
        """Whether gradients are those of a scaled loss."""
        plain = task.optimizer.inner_optimizer if self._scales else task.optimizer
        self._clips = _clips(plain, context.training.gradient_clip)

    def make(self, passed: Passed) -> Any:  # noqa: ANN401 (with or without outputs)
        """Make the optimizer step. Return the values to report, which add up over the replicas; and any outputs."""
        values, gradients, weight, outputs = passed
        if weight is not None:
            total = weight
            if tf.distribute.get_strategy().num_replicas_in_sync > 1:
                total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, weight)
            values = values / total
            gradients = [_changed(each, lambda own: own / tf.cast(total, own.dtype)) for each in gradients]
        self(gradients)
        return (values, outputs) if outputs else values

    def __call__(self, gradients: Sequence[tf.Tensor]) -> None:
        variables = self._task.variables
        if self._clips or self._scales:
            known = [at for at, each in enumerate(gradients) if each is not None]
            clipped = self._added_up([tf.convert_to_tensor(gradients[at]) for at in known])
            gradients, variables = clipped, [variables[at] for at in known]
        self._optimizer.apply(gradients, variables)

    def _added_up(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Clip by the norm of the global batch's gradient: the slices' gradients are added up first.

        For float16, too: whether a gradient has overflowed is then the same on all replicas, as Keras expects.
        """
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas > 1:
            gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        if self._clips and self._scales:  # the scale is a power of 2, so dividing by it loses nothing
            scale = tf.convert_to_tensor(self._optimizer.dynamic_scale)
            gradients = [each * scale for each in self._clip([each / scale for each in gradients])]
        else:
            gradients = self._clip(gradients)
        # All replicas have the same gradients now, and the optimizer adds them up again.
        return [each / replicas for each in gradients] if replicas > 1 else gradients

    def _clip(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        for clip in self._clips:
            gradients = clip(gradients)
        return gradients


class WholeStep:
    """A whole step on a batch: passes and update of each optimizer in turn."""

    def __init__(self, task: Task, context: Context, gradient: Gradient | None = None) -> None:
        """`gradient`: see `Passes`."""
        self._turns = [(Passes(turn, context, gradient), Update(turn, context)) for turn in task.turns]
        self.passes = self._turns[0][0]
        """Those of the first optimizer, and for validation."""

    def make(self, compute: Callable[[Passes], Passed]) -> Any:  # noqa: ANN401 (see `Update.make`)
        """Make the step. `compute` returns what an optimizer's passes over the slice give.

        Return what `Update.make` returns. For several optimizers these are the values in the order of
        `steps.turn_names`: the sum of the losses first.
        """
        found = [update.make(compute(passes)) for passes, update in self._turns]
        if len(found) == 1:
            return found[0]
        rows = [tf.reshape(each, [-1]) for each in found]
        losses = tf.stack([row[0] for row in rows])
        return tf.concat([tf.reduce_sum(losses, keepdims=True), losses, *(row[1:] for row in rows)], 0)


def _clips(
    optimizer: keras.optimizers.Optimizer, limit: float | None
) -> list[Callable[[list[tf.Tensor]], list[tf.Tensor]]]:
    """Return the clipping of the recipe's optimizer, followed by that of the run.

    A Keras optimizer would clip each replica's gradient separately, and many devices would train differently from one.
    Therefore the whole gradient is clipped here.
    """
    norm, whole, value = optimizer.clipnorm, optimizer.global_clipnorm, optimizer.clipvalue
    optimizer.clipnorm = optimizer.global_clipnorm = optimizer.clipvalue = None
    found: list[Callable[[list[tf.Tensor]], list[tf.Tensor]]] = []
    if norm:
        found.append(lambda gradients: [tf.clip_by_norm(each, norm) for each in gradients])
    if value:
        found.append(lambda gradients: [tf.clip_by_value(each, -value, value) for each in gradients])
    found += [_by_global_norm(each) for each in (whole, limit) if each]
    return found


def _by_global_norm(limit: float) -> Callable[[list[tf.Tensor]], list[tf.Tensor]]:
    return lambda gradients: tf.clip_by_global_norm(gradients, limit)[0]


def _by_tape(forward: Forward, variables: list[tf.Variable]) -> tuple[Passed, list[tf.Tensor | None]]:
    with tf.GradientTape() as tape:
        passed, scaled = forward()
    return passed, tape.gradient(scaled, variables)


def _mean(value: Any) -> tf.Tensor:  # noqa: ANN401 (whatever a user's function returns)
    return tf.reduce_mean(tf.cast(value, tf.float32))


def _changed(gradient: Any, change: Callable[[tf.Tensor], tf.Tensor]) -> Any:  # noqa: ANN401 (as above)
    """Return a gradient with other values: a tensor, one of some rows only, or none. All devices' are added up."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(change(gradient.values), gradient.indices, gradient.dense_shape)
    return None if gradient is None else change(gradient)
