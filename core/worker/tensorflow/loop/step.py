"""What one device does in a step: compute loss and gradients of its slice, weighted by its size, and update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from ...steps import unused_optimizer
from ..task.build import call
from ..task.data import slice_of
from ..task.steps import plainly_raised

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from ...context import Context
    from ..task.build import Task
    from ..task.data import Feed
    from ..task.steps import RecipeStep

    Forward = Callable[[], tuple[tf.Tensor, tf.Tensor]]
    """Returns the loss, and the loss as its optimizer scales it."""
    Gradient = Callable[[Forward, list[tf.Variable]], tuple[tf.Tensor, list[tf.Tensor | None]]]
    """Returns the loss, and the gradients by variable."""


class Passed(NamedTuple):
    """What the passes over a slice of a global batch give. The slices' values, gradients and weights add up."""

    values: tf.Tensor
    """The loss, or the loss and the metrics, times the slice's share of the items, or times its weight."""
    gradients: list[tf.Tensor | None]
    """Those of the loss, likewise, by variable."""
    weight: tf.Tensor | None = None
    """The weight that a recipe's own step gave its slice; None where its share of the items counts."""
    outputs: tuple[Any, ...] = ()
    """The model's output on each slice, where metrics are measured on it."""


def passes_of(task: Task, context: Context, gradient: Gradient | None = None) -> Passes:
    """Return the passes of the recipe: of its own steps, or of its loss."""
    if task.training_metrics is not None:
        return MeasuredPasses(task, context, gradient)
    if task.training_step is None:
        return Passes(task, context, gradient)
    return StepPasses(task, context, task.training_step, gradient)


class Passes:
    """Forward and backward passes over a slice, and sums over one for validation; for use inside a `tf.function`."""

    def __init__(self, task: Task, context: Context, gradient: Gradient | None = None) -> None:
        """`gradient`: computes the gradients instead of a tape."""
        self._task = task
        self._gradient = gradient or _by_tape
        self._accumulation = context.training.accumulation
        self._passes: Callable[..., Any] = self._all
        if context.training.compile:
            # Only the passes are compiled: gathering a batch and exchanging gradients stay with TensorFlow.
            self._passes = tf.function(self._all, jit_compile=True)

    def gradients(self, feed: Feed, share: float) -> Passed:
        """Return the mean loss of a feed's items and its gradients, times `share`."""
        return self.gradients_of(self._task.train.tensors(feed), share)

    def gradients_of(self, tensors: Feed, share: float) -> Passed:
        """Return the mean loss of these items and its gradients, times `share`."""
        values, gradients = self._passes(tensors, share)
        if share:
            return Passed(values, gradients)
        # The idle item of a device without any must not count, even if its loss is NaN.
        return Passed(tf.zeros_like(values), list(map(_zeros, gradients)))

    def sums(self, feed: Feed, share: float) -> tf.Tensor:
        """Return the sums of loss, metrics and items over a feed of the validation set."""
        assert self._task.val is not None
        return self.sums_of(self._task.val.tensors(feed), share)

    def sums_of(self, tensors: Feed, share: float) -> tf.Tensor:
        """Return the sums of loss, metrics and items over these items."""
        task = self._task
        *inputs, target = tensors
        output = call(task.model, inputs, training=False)
        items = tf.cast(tf.shape(target)[0], tf.float64) if share else tf.zeros([], tf.float64)
        values = [self._mean_loss(target, output), *(_mean(each(target, output)) for each in task.metrics.values())]
        means = tf.cast(tf.stack([*values, tf.ones([])]), tf.float64)
        return means * items if share else tf.zeros_like(means)

    def _all(self, tensors: Feed, share: float) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        if self._accumulation == 1:
            return self._one(tensors, share)
        return self._one_after_another(tensors, share)

    def _one_after_another(self, tensors: Feed, share: float) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        """Accumulate gradients. Each pass waits for the one before: else all would be in memory at once."""
        total, sums = self._micro_batch(tensors, 0, share)
        for part in range(1, min(self._accumulation, int(tensors[0].shape[0]))):
            with tf.control_dependencies([total, *(each for each in sums if each is not None)]):
                loss, gradients = self._micro_batch(tuple(map(tf.identity, tensors)), part, share)
            total += loss
            sums = list(map(add_gradients, sums, gradients))
        return total, sums

    def _micro_batch(self, tensors: Feed, part: int, share: float) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        micro_batch, part_of_it = slice_of(tensors, part, self._accumulation)
        return self._one(micro_batch, share * part_of_it)

    def _one(self, tensors: Feed, share: float) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        task = self._task
        *inputs, target = tensors

        def forward() -> tuple[tf.Tensor, tf.Tensor]:
            loss = self._mean_loss(target, self._output(inputs)) * share
            return loss, task.optimizer.scale_loss(loss)

        return self._gradient(forward, [each.value for each in task.variables])

    def _output(self, inputs: list[tf.Tensor]) -> Any:  # noqa: ANN401 (the model's output)
        return call(self._task.model, inputs, training=True)

    def _mean_loss(self, target: tf.Tensor, output: Any) -> tf.Tensor:  # noqa: ANN401 (the model's output)
        """Return the mean loss plus the losses that the model's layers add (regularisation)."""
        return tf.add_n([self._task.loss(target, output), *(_mean(each) for each in self._task.model.losses)])


class MeasuredPasses(Passes):
    """Passes that also return the output, for the recipe's metrics."""

    def __init__(self, task: Task, context: Context, gradient: Gradient | None) -> None:
        super().__init__(task, context, gradient)
        self._outputs: list[Any] = []

    def gradients_of(self, tensors: Feed, share: float) -> Passed:
        """Return the mean loss of these items and its gradients, times `share`, and the model's output."""
        values, gradients, output = self._passes(tensors, share)
        if share:
            return Passed(values, gradients, outputs=(output,))
        return Passed(tf.zeros_like(values), list(map(_zeros, gradients)), outputs=(output,))

    def _all(self, tensors: Feed, share: float) -> Any:  # noqa: ANN401 (with the output)
        self._outputs = []
        values, gradients = super()._all(tensors, share)
        if len(self._outputs) == 1:
            return values, gradients, self._outputs[0]
        return values, gradients, tf.nest.map_structure(lambda *each: tf.concat(each, 0), *self._outputs)

    def _output(self, inputs: list[tf.Tensor]) -> Any:  # noqa: ANN401 (the model's output)
        output = super()._output(inputs)
        self._outputs.append(output)
        return output


class StepPasses(Passes):
    """The passes of a recipe's own steps."""

    def __init__(self, task: Task, context: Context, step: RecipeStep, gradient: Gradient | None) -> None:
        super().__init__(task, context, gradient)
        self._step = step

    def gradients_of(self, tensors: Feed, share: float) -> Passed:
        """Return the values that the step returned for these items and its gradients, times `share` or its weight."""
        values, gradients, *_ = super().gradients_of(tensors, share)
        if not self._step.reader.weighs:
            return Passed(values, gradients)
        return Passed(values[:-1] if len(values) > 2 else values[0], gradients, values[-1])

    def _one(self, tensors: Feed, share: float) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        """Return the values, with the weight at their end if the step gives one, and the gradients."""
        task = self._task

        def forward() -> tuple[tf.Tensor, tf.Tensor]:
            loss, values, weight = self._step(task.train.packed(tensors), training=True)
            scale = share if weight is None else weight
            if weight is not None:
                values = [*values, tf.ones([])]
            return (tf.stack(values) if len(values) > 1 else values[0]) * scale, task.optimizer.scale_loss(loss * scale)

        values, gradients = self._gradient(forward, [each.value for each in task.variables])
        if all(each is None for each in gradients):
            with plainly_raised():
                raise unused_optimizer(*self._step.turn) if self._step.turn else self._step.reader.no_graph()
        return values, gradients

    def sums_of(self, tensors: Feed, share: float) -> tf.Tensor:
        """Return the sums of loss and metrics, and of the items or weights, over these items."""
        task = self._task
        if task.validation_step is None:
            return super().sums_of(tensors, share)
        assert task.val is not None
        _, values, weight = task.validation_step(task.val.packed(tensors), training=False)
        counted = tf.cast(tf.shape(tensors[0])[0] if weight is None else weight, tf.float64)
        means = tf.cast(tf.stack([*values, tf.ones([])]), tf.float64)
        return means * counted if share else tf.zeros_like(means)


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
            gradients = [_divided(each, total) for each in gradients]
        self(gradients)
        return (values, outputs) if outputs else values

    def __call__(self, gradients: list[tf.Tensor]) -> None:
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
        self._turns = [(passes_of(turn, context, gradient), Update(turn, context)) for turn in task.turns]
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


def _by_tape(forward: Forward, variables: list[tf.Variable]) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
    with tf.GradientTape() as tape:
        loss, scaled = forward()
    return loss, tape.gradient(scaled, variables)


def _mean(value: Any) -> tf.Tensor:  # noqa: ANN401 (whatever a user's function returns)
    return tf.reduce_mean(tf.cast(value, tf.float32))


def _zeros(gradient: Any) -> Any:  # noqa: ANN401 (a tensor, one of some rows only, or none)
    """Return zeros of the same kind, because all devices' gradients are added up."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.zeros_like(gradient.values), gradient.indices, gradient.dense_shape)
    return None if gradient is None else tf.zeros_like(gradient)


def _divided(gradient: Any, by: tf.Tensor) -> Any:  # noqa: ANN401 (a tensor, one of some rows only, or none)
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(by, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return None if gradient is None else gradient / tf.cast(by, gradient.dtype)


def add_gradients(one: Any, other: Any) -> Any:  # noqa: ANN401 (tensors, or some rows of one)
    """Return the sum of two gradients of a variable; None for a variable without gradient.

    Rows, such as an embedding's gradient has, are put behind each other and not added up: Keras' optimizers square each
    row by itself, and the curve with accumulation would differ from that without.
    """
    if isinstance(one, tf.IndexedSlices) and isinstance(other, tf.IndexedSlices):
        values, rows = (tf.concat(both, 0) for both in ((one.values, other.values), (one.indices, other.indices)))
        return tf.IndexedSlices(values, rows, one.dense_shape)
    return None if one is None else tf.convert_to_tensor(one) + other
