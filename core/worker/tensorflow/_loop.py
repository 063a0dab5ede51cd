"""What the TensorFlow strategies share: building from the recipe, and the loop over epochs, steps and validations."""

from __future__ import annotations

import contextlib
import inspect
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ...schema.settings import DEFAULT_LEARNING_RATE
from ..context import REPORT_EVERY_S
from ..controller import TrainingController
from ._data import Batches
from ._saver import Saver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ..context import Context
    from ..controller import TrainingSize, Values
    from ..metrics_reporter import MetricsReporter
    from ..recipe import LoadedRecipe
    from ._data import Feed

    Measure = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    """A function of (target, output)."""

ADDED_AT_ONCE = 64  # sums of batches of a validation: each operation on so little costs microseconds


@dataclass
class Task:
    """A recipe's parts, built: all that a loop needs besides the step's function."""

    model: keras.Model
    loss: Measure
    """Gives the mean over the items it is shown."""
    optimizer: keras.optimizers.Optimizer
    train: Batches
    val: Batches | None
    metrics: Mapping[str, Measure]
    """Each gives a value per item."""

    @property
    def size(self) -> TrainingSize:
        """How much there is in an epoch."""
        return {
            "steps_per_epoch": self.train.steps,
            "samples_per_epoch": self.train.items,
            "validates": self.val is not None,
        }


def build(
    recipe: LoadedRecipe,
    context: Context,
    *,
    scope: AbstractContextManager[Any] | None = None,
    make_model: Callable[[Sequence[keras.KerasTensor]], object] | None = None,
) -> Task:
    """The recipe's parts, model and optimizer within `scope` (a strategy's, or a device's).

    The random states are set before each part, so that no part depends on what another drew: the weights
    are those of a hand-written loop that calls `keras.utils.set_random_seed(seed)`, then `model()`.
    `make_model`: what makes the model instead of the recipe's `model()`, told what its inputs look like.
    """
    training = context.training
    train, val = (_batches(recipe, context, name) for name in ("train_data", "val_data"))
    assert train is not None
    if training.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    with scope or contextlib.nullcontext():
        seed_everything(training.seed)
        inputs = [keras.KerasTensor(spec.shape, spec.dtype.name) for spec in train.specs()[:-1]]
        model = make_model(inputs) if make_model else recipe.call("model")
        model = checked_model(model, recipe, "model")
        output = call(model, inputs, training=False)  # makes the variables of one that has none yet
        optimizer = _optimizer(recipe, context)
        optimizer.build(model.trainable_variables)
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
    _tell_of_a_large_batch(context, train)
    loss = _mean_of(_loss(recipe))
    return Task(
        model=model,
        loss=loss if replicas == 1 else _outside(loss, train.specs()[-1], output),
        optimizer=optimizer,
        train=train,
        val=val,
        metrics=_metrics(recipe),
    )


def _tell_of_a_large_batch(context: Context, train: Batches) -> None:
    if train.batch_size > train.items and not context.rank:
        context.notice(f"The batch is {train.batch_size}, but there are {train.items} items: each step takes them all.")


def seed_everything(seed: int) -> None:
    """Set the random states of Python, numpy, TensorFlow and Keras, which takes 32 bits."""
    keras.utils.set_random_seed(seed % 2**32)


def learning_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """The rate of the next step, in the few digits that it was given with: TensorFlow keeps seven."""
    return float(str(keras.ops.convert_to_numpy(optimizer.learning_rate)))


def one_by_one(function: Callable[..., tf.Tensor], feeds: Iterable[Feed]) -> Iterator[tf.Tensor]:
    """What the function makes of each feed, when it is asked for."""
    return (function(*feed) for feed in feeds)


def loop(
    task: Task,
    context: Context,
    meter: MetricsReporter,
    step: Callable[..., tf.Tensor],
    measure: Callable[..., tf.Tensor],
    *,
    each: Callable[[Callable[..., tf.Tensor], Iterable[Feed]], Iterator[tf.Tensor]] = one_by_one,
    saver: Saver | None = None,
) -> None:
    """Train to the last epoch, or until a stop or a pause is asked for.

    `step(*feed)`: one optimizer step on a global batch; its loss, left on its device.
    `measure(*feed)`: the sums of loss, metrics and items over a batch of the validation set.
    """
    course = TrainingController(context, meter, saver or Saver(task.model, task.optimizer, context), **task.size)
    set_rate = rate_setter(task.optimizer, course)
    course.begin(learning_rate(task.optimizer))
    rate = rate_reader(task.optimizer)
    set_rate()
    for epoch in course.epochs():
        for loss in each(step, task.train.shuffled(epoch, skip=course.done_in_epoch)):
            if course.stepped(loss):
                return
            set_rate()

        course.epoch_trained(rate())
        means = validate(task, context, course, each(measure, task.val.in_order())) if task.val is not None else {}
        if course.validated(means):
            return
    course.end()


def validate(task: Task, context: Context, course: TrainingController, sums: Iterable[tf.Tensor]) -> Values | None:
    """The means by Keras' names from the sums over each batch; nothing when a request cut them short."""
    parts, cut = [tf.zeros(len(task.metrics) + 2, tf.float64)], False
    due = time.monotonic() + REPORT_EVERY_S
    for each in sums:
        parts.append(each)
        if len(parts) == ADDED_AT_ONCE:
            parts = [tf.add_n(parts)]
        if time.monotonic() >= due:
            due = time.monotonic() + REPORT_EVERY_S
            cut = course.meets and context.end_requested()  # else the end of the epoch is told later, and it is whole
            if cut:
                break

    def means(added_up: Sequence[float]) -> Values:
        *totals, items, cuts = added_up
        if cuts:  # on any worker: all hear the same, so all end here
            return {}
        names = ["val_loss", *(f"val_{name}" for name in task.metrics)]
        return {name: [value / items] for name, value in zip(names, totals, strict=True)}

    return course.conclude([*tf.add_n(parts).numpy().tolist(), float(cut)], means)


def rate_reader(optimizer: keras.optimizers.Optimizer) -> Callable[[], float]:
    """Tells the rate where it is no schedule of the run's own that changes it, from the state the optimizer has now on.

    A plain variable of an optimizer of Keras' own is read once: a recipe has no callback that could change it, and on
    a parameter server each reading is a message to another process and back, half a step for a small model.
    """
    of_keras = type(optimizer).__module__.startswith("keras.")
    if not of_keras or not isinstance(optimizer.learning_rate, keras.Variable):
        return lambda: learning_rate(optimizer)
    constant = learning_rate(optimizer)
    return lambda: constant


def rate_setter(optimizer: keras.optimizers.Optimizer, course: TrainingController) -> Callable[[], object]:
    """Sets the next step's learning rate; does nothing where it never changes."""
    if not course.varies:
        return lambda: None
    base = learning_rate(optimizer)

    def assign() -> None:
        optimizer.learning_rate.assign(base * course.rate_factor())

    return assign


def _batches(recipe: LoadedRecipe, context: Context, function: str) -> Batches | None:
    if function != "train_data" and not recipe.has(function):
        return None
    training = context.training
    seed_everything(training.seed)
    return Batches(recipe.call(function), function, batch_size=training.batch_size, seed=training.seed)


def checked_model(model: object, recipe: LoadedRecipe, function: str) -> keras.Model:
    """Raises `TypeError` with a sentence when this function of the recipe returned something else."""
    if not isinstance(model, keras.Model):
        raise TypeError(f"{function}() of {recipe.name} returned {type(model).__name__}. Return a keras.Model.")
    return model


def call(model: keras.Model, inputs: Sequence[Any], *, training: bool) -> Any:  # noqa: ANN401 (in whatever structure)
    """The model's output; one input is given as such, several as a list."""
    given = inputs[0] if len(inputs) == 1 else list(inputs)
    if "training" in inspect.signature(model.call).parameters:
        return model(given, training=training)
    return model(given)


def _optimizer(recipe: LoadedRecipe, context: Context) -> keras.optimizers.Optimizer:
    """The recipe's optimizer with the run's settings; Adam where the recipe has none."""
    training = context.training
    rate = training.learning_rate
    optimizer = recipe.call("optimizer") if recipe.has("optimizer") else keras.optimizers.Adam(DEFAULT_LEARNING_RATE)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(f"optimizer() of {recipe.name} returned {type(optimizer).__name__}. Return a Keras optimizer.")
    if rate is not None and not recipe.takes("optimizer", "learning_rate"):
        _needs_plain_rate(recipe, optimizer)
        optimizer.learning_rate = rate
    if training.schedule != "constant" or training.warmup_steps:
        _needs_plain_rate(recipe, optimizer)
    if training.weight_decay is not None:
        optimizer.weight_decay = training.weight_decay  # decoupled, in all optimizers of Keras
    return optimizer


def _needs_plain_rate(recipe: LoadedRecipe, optimizer: keras.optimizers.Optimizer) -> None:
    if not isinstance(optimizer.learning_rate, keras.Variable):
        raise ValueError(  # noqa: TRY004 (the user's choice, not a type of ours)
            f"optimizer() of {recipe.name} has a learning rate schedule of its own. Leave the run's learning rate, "
            "schedule and warm-up alone, or give the optimizer a number."
        )


def _loss(recipe: LoadedRecipe) -> Measure:
    """The recipe's loss, or cross entropy on logits."""
    loss = recipe.call("loss") if recipe.has("loss") else keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if not callable(loss):
        raise TypeError(
            f"loss() of {recipe.name} returned {type(loss).__name__}. Return a keras.losses.Loss or a function of "
            "(y_true, y_pred)."
        )
    if getattr(loss, "reduction", None) == "sum":
        raise ValueError(
            f"loss() of {recipe.name} sums over the batch. The loss of a step is the mean over its global batch: "
            "leave the reduction as it is."
        )
    return loss  # type: ignore[no-any-return]  # callable, as just asked


def _mean_of(loss: Measure) -> Measure:
    """Takes the mean where a loss gives a value per item."""
    return lambda target, output: tf.reduce_mean(tf.cast(loss(target, output), tf.float32))


def _outside(loss: Measure, target: tf.TensorSpec, output: Any) -> Measure:  # noqa: ANN401 (as above)
    """The loss as it is where there is no strategy.

    Losses of Keras divide by the number of replicas where they see a strategy, and plain functions do not:
    traced outside of it, both give the mean over the items they are shown.
    """
    like = tf.nest.map_structure(lambda each: tf.TensorSpec(each.shape, each.dtype), output)
    return tf.function(loss).get_concrete_function(target, like)  # type: ignore[no-any-return]


def _metrics(recipe: LoadedRecipe) -> dict[str, Any]:
    metrics: dict[str, Any] = recipe.call("metrics") if recipe.has("metrics") else {}
    if "loss" in metrics:
        raise ValueError(
            f"metrics() of {recipe.name} has a metric called loss, which is the loss's own name. Rename it."
        )
    for name, metric in metrics.items():
        if isinstance(metric, keras.metrics.Metric) or not callable(metric):
            raise TypeError(
                f"metrics() of {recipe.name} has {type(metric).__name__} as {name}. Give a function of "
                "(y_true, y_pred) with a value per item, such as keras.metrics.sparse_categorical_accuracy."
            )
    return metrics
