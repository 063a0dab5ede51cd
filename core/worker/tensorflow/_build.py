"""Build a recipe's parts for TensorFlow and Keras: data, model, loss, optimizer and metrics."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ...language import tr
from ...schema.settings import DEFAULT_LEARNING_RATE
from ..recipe import wrong_return
from ._data import Batches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ..context import Context
    from ..controller import TrainingSize
    from ..recipe import LoadedRecipe

    Measure = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    """A function of (target, output)."""


@dataclass
class Task:
    """A recipe's parts, built: everything that a loop needs besides the step's function."""

    model: keras.Model
    loss: Measure
    """Returns the mean over its items."""
    optimizer: keras.optimizers.Optimizer
    train: Batches
    val: Batches | None
    metrics: Mapping[str, Measure]
    """Each returns a value per item."""

    @property
    def size(self) -> TrainingSize:
        """How long an epoch is."""
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
    """Build the recipe's parts, model and optimizer within `scope` (a strategy's, or a device's).

    The seed is set before each part, so that no part depends on random numbers of another: the weights are those of a
    hand-written loop that calls `keras.utils.set_random_seed(seed)`, then `model()`.
    `make_model`: makes the model from its symbolic inputs, instead of the recipe's `model()`.
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
        output = call(model, inputs, training=False)  # creates the variables of a model without any
        optimizer = _optimizer(recipe, context)
        optimizer.build(model.trainable_variables)
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
    context.notice_large_batch(train.items)
    loss = _mean_of(_loss(recipe))
    return Task(
        model=model,
        loss=loss if replicas == 1 else _outside(loss, train.specs()[-1], output),
        optimizer=optimizer,
        train=train,
        val=val,
        metrics=_metrics(recipe),
    )


def seed_everything(seed: int) -> None:
    """Seed Python, numpy, TensorFlow and Keras, which takes 32 bits."""
    keras.utils.set_random_seed(seed % 2**32)


def _batches(recipe: LoadedRecipe, context: Context, function: str) -> Batches | None:
    if function != "train_data" and not recipe.has(function):
        return None
    training = context.training
    seed_everything(training.seed)
    return Batches(recipe.call(function), function, batch_size=training.batch_size, seed=training.seed)


def checked_model(model: object, recipe: LoadedRecipe, function: str) -> keras.Model:
    """Return the model. Raises `TypeError` if this function of the recipe returned something else."""
    if not isinstance(model, keras.Model):
        raise wrong_return(function, recipe, model, tr("Return a keras.Model."))
    return model


def call(model: keras.Model, inputs: Sequence[Any], *, training: bool) -> Any:  # noqa: ANN401 (in whatever structure)
    """Return the model's output. One input is passed as such, several as a list."""
    given = inputs[0] if len(inputs) == 1 else list(inputs)
    if "training" in inspect.signature(model.call).parameters:
        return model(given, training=training)
    return model(given)


def _optimizer(recipe: LoadedRecipe, context: Context) -> keras.optimizers.Optimizer:
    """Return the recipe's optimizer with the run's settings, or Adam where the recipe has none."""
    training = context.training
    rate = training.learning_rate
    optimizer = recipe.call("optimizer") if recipe.has("optimizer") else keras.optimizers.Adam(DEFAULT_LEARNING_RATE)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise wrong_return("optimizer", recipe, optimizer, tr("Return a Keras optimizer."))
    if rate is not None and not recipe.takes("optimizer", "learning_rate"):
        _needs_plain_rate(recipe, optimizer)
        optimizer.learning_rate = rate
    if training.schedule != "constant" or training.warmup_steps or training.rate_factor != 1:
        _needs_plain_rate(recipe, optimizer)
    if training.weight_decay is not None:
        optimizer.weight_decay = training.weight_decay  # decoupled, in all optimizers of Keras
    return optimizer


def _needs_plain_rate(recipe: LoadedRecipe, optimizer: keras.optimizers.Optimizer) -> None:
    if not isinstance(optimizer.learning_rate, keras.Variable):
        raise ValueError(  # noqa: TRY004 (the user's choice, not a type of ours)
            tr(
                "optimizer() of {recipe} has a learning rate schedule of its own. Leave the run's learning rate, "
                "its scaling, schedule and warm-up unset, or give the optimizer a number.",
                recipe=recipe.name,
            )
        )


def _loss(recipe: LoadedRecipe) -> Measure:
    """Return the recipe's loss, or cross entropy on logits."""
    loss = recipe.call("loss") if recipe.has("loss") else keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if not callable(loss):
        remedy = tr("Return a keras.losses.Loss or a function of (y_true, y_pred).")
        raise wrong_return("loss", recipe, loss, remedy)
    if getattr(loss, "reduction", None) == "sum":
        raise ValueError(
            tr(
                "loss() of {recipe} sums over the batch, but the loss of a step is the mean over its global batch. "
                "Do not set the reduction.",
                recipe=recipe.name,
            )
        )
    return loss  # type: ignore[no-any-return]  # callable, as just checked


def _mean_of(loss: Measure) -> Measure:
    """Return the loss with the mean taken where it returns a value per item."""
    return lambda target, output: tf.reduce_mean(tf.cast(loss(target, output), tf.float32))


def _outside(loss: Measure, target: tf.TensorSpec, output: Any) -> Measure:  # noqa: ANN401 (as above)
    """Return the loss, traced outside of any strategy.

    Keras' losses divide by the number of replicas inside a strategy, and plain functions do not. Traced outside, both
    return the mean over their items.
    """
    like = tf.nest.map_structure(lambda each: tf.TensorSpec(each.shape, each.dtype), output)
    return tf.function(loss).get_concrete_function(target, like)  # type: ignore[no-any-return]


def _metrics(recipe: LoadedRecipe) -> dict[str, Any]:
    metrics = recipe.metrics()
    for name, metric in metrics.items():
        if isinstance(metric, keras.metrics.Metric) or not callable(metric):
            raise TypeError(
                tr(
                    "metrics() of {recipe} has {kind} as {name}. Give a function of "
                    "(y_true, y_pred) with a value per item, such as keras.metrics.sparse_categorical_accuracy.",
                    recipe=recipe.name,
                    kind=type(metric).__name__,
                    name=name,
                )
            )
    return metrics
