"""Build a recipe's parts for TensorFlow and Keras: data, model, loss, optimizer and metrics."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ....language import tr
from ...recipe import set_epoch_end, wrong_return
from ...steps import check_names, has_steps, takes_any_shape, turn_names, validates_itself
from ...training.metrics_reporter import SkippedSteps
from .data import Batches
from .optimizers import build_optimizers, rates_of
from .saver import undisturbed
from .steps import TrainingMetrics, training_steps, try_out, validation_step
from .stream import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ...context import Context
    from ...recipe import LoadedRecipe
    from .step_times import StepTimes
    from .steps import RecipeStep, StepReader

    Measure = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    """A function of (target, output)."""


@dataclass
class Task:
    """A recipe's parts, built: everything that a loop needs besides the step's function."""

    model: keras.Model
    loss: Measure
    """Returns the mean over its items."""
    optimizer: keras.optimizers.Optimizer
    """The recipe's, or the first of several."""
    train: Batches
    val: Batches | None
    metrics: Mapping[str, Measure]
    """Each returns a value per item."""
    training_step: RecipeStep | None = None
    """The recipe's own `training_step`; None to train with `loss`."""
    validation_step: RecipeStep | None = None
    """Likewise for the validation; None to validate with `loss` and `metrics`."""
    training_metrics: TrainingMetrics | None = None
    """Measures `metrics` on the training batches, too; None where they are not measured."""
    rates: Callable[[], list[float]] = list
    """Returns, for each optimizer, the rate that the recipe gives it at the run's learning rate, which may have
    changed."""
    skipped_steps: SkippedSteps | None = None
    """For float16, whose `optimizer` is a `LossScaleOptimizer`."""
    has_several_outputs: bool = False
    """Whether the loss is computed of several outputs of the model."""
    own_variables: list[keras.Variable] | None = None
    """What the optimizer trains, where it is one of several; None for all variables of the model."""
    of_optimizers: tuple[Task, ...] = ()
    """A task for each of several optimizers; empty for one."""
    times: StepTimes | None = None
    """Measures where the time of a step goes, in few steps; None where the graph is another process's."""

    def note(self, part: str, computed: Any) -> Any:  # noqa: ANN401 (tensors in any structure)
        """Let the graph note that a part of the step ends with these tensors, and return them for what follows."""
        return computed if self.times is None else self.times.note(part, computed)

    @property
    def turns(self) -> tuple[Task, ...]:
        """A task for each optimizer, in the order in which they take their turns in a step."""
        return self.of_optimizers or (self,)

    @property
    def variables(self) -> list[keras.Variable]:
        return self.model.trainable_variables if self.own_variables is None else self.own_variables

    @property
    def readers(self) -> list[StepReader]:
        """What reads the values of the recipe's own step, for each optimizer; empty without such a step."""
        return [turn.training_step.reader for turn in self.turns if turn.training_step is not None]

    @property
    def value_names(self) -> Sequence[str]:
        """What each step is reported with: the loss, and the metrics of the recipe's own step, once it was traced."""
        if self.of_optimizers:
            steps = [turn.training_step for turn in self.of_optimizers if turn.training_step is not None]
            return turn_names({step.turn[0]: step.reader for step in steps})
        return (self.training_step and self.training_step.reader.names) or ("loss",)

    @property
    def is_measured_by_fit(self) -> bool:
        """Whether Keras' `fit` computes the recipe's loss and metrics itself, in the training or in the validation.

        Of a model with several outputs it would want a loss for each. The recipe's loss is one function of all of them,
        so our own passes measure there, as in TensorFlow's own loop.
        """
        measures = self.training_step is None or (self.val is not None and self.validation_step is None)
        return measures and not self.has_several_outputs

    @property
    def validation_names(self) -> Sequence[str]:
        """What a validation measures, once it was traced."""
        if self.validation_step is None:
            return ["loss", *self.metrics]
        assert self.validation_step.reader.names is not None, "no batch was measured"
        return self.validation_step.reader.names


def build(
    recipe: LoadedRecipe,
    context: Context,
    *,
    scope: AbstractContextManager[Any] | None = None,
    make_model: Callable[[Callable[[keras.Model], object]], object] | None = None,
) -> Task:
    """Build the recipe's parts, model and optimizer within `scope` (a strategy's, or a device's).

    The seed is set before each part, so that no part depends on random numbers of another: the weights are those of a
    hand-written loop that calls `keras.utils.set_random_seed(seed)`, then `model()`.
    `make_model`: makes the model, instead of the recipe's `model()`. It gets a function that creates the variables of a
    model without any.
    """
    training = context.training
    train, val = (_batches(recipe, context, name) for name in ("train_data", "val_data"))
    assert train is not None
    if training.compile and any(spec.dtype == tf.string for spec in train.specs()):
        raise ValueError(
            tr("XLA cannot compile a step whose batch has texts. Switch compiling off, or leave them out of the data.")
        )
    if training.precision != "float32":
        keras.config.set_dtype_policy(f"mixed_{training.precision}")
    measured = val if has_steps(recipe) else train
    create = partial(create_variables, recipe, train=train, measured=measured)
    with scope or contextlib.nullcontext():
        seed_everything(training.seed)
        model = checked_model(make_model(create) if make_model else recipe.call("model"), recipe, "model")
        output = create(model)
        optimizers = build_optimizers(recipe, context, model)
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
    context.notice_large_batch(train.items)
    set_epoch_end(recipe, context, model, partial(undisturbed, model))
    loss = _mean_loss(recipe, measured, output, replicas)
    metrics = _metrics(recipe)
    steps: Sequence[RecipeStep | None] = training_steps(recipe, model, optimizers) or [None]
    tasks = [
        Task(
            model=model,
            loss=loss,
            optimizer=owned.optimizer,
            train=train,
            val=val,
            metrics=metrics,
            training_step=step,
            validation_step=validation_step(recipe, model),
            training_metrics=_training_metrics(metrics, model, train, recipe, context),
            rates=partial(rates_of, recipe, context, model),
            skipped_steps=SkippedSteps(name=name) if training.precision == "float16" else None,
            has_several_outputs=len(tf.nest.flatten(output)) > 1,
            own_variables=owned.variables,
        )
        for (name, owned), step in zip(optimizers.items(), steps, strict=True)
    ]
    return tasks[0] if len(tasks) == 1 else replace(tasks[0], of_optimizers=tuple(tasks))


def create_variables(recipe: LoadedRecipe, model: keras.Model, train: Batches, measured: Batches | None) -> Any:  # noqa: ANN401 (in whatever structure)
    """Create the variables of a model without any. Return its output on symbols of `measured`, if there is one.

    `measured`: what the loss is computed on; where the recipe has a step of its own, at most the validation.
    """
    if has_steps(recipe) and not model.built:
        try_out(recipe, model, train.packed(train.sample()))
    if measured is None or validates_itself(recipe):
        return None
    symbols = [keras.KerasTensor(spec.shape, spec.dtype.name) for spec in measured.specs()[:-1]]
    return call(model, symbols, training=False)


def _training_metrics(
    metrics: Mapping[str, Measure], model: keras.Model, train: Batches, recipe: LoadedRecipe, context: Context
) -> TrainingMetrics | None:
    """Return what measures the metrics on training batches; None without any, or where it is switched off.

    A parameter server's workers would have to send every output to the chief. A step of the recipe's own, or of the
    model's own with `fit`, reports what it has measured itself.
    """
    by_fit = context.spec.framework == "keras"
    own_step = has_steps(recipe) or (by_fit and type(model).train_step is not keras.Model.train_step)
    if own_step or context.spec.strategy == "parameter_server" or not context.training.training_metrics:
        return None
    check_names("metrics", recipe.name, metrics)
    return TrainingMetrics(metrics, train) if metrics else None


def seed_everything(seed: int) -> None:
    """Seed Python, numpy, TensorFlow and Keras, which takes 32 bits."""
    keras.utils.set_random_seed(seed % 2**32)


def _batches(recipe: LoadedRecipe, context: Context, function: str) -> Batches | None:
    if function != "train_data" and not recipe.has(function):
        return None
    training, any_shape = context.training, takes_any_shape(recipe, function)
    seed_everything(training.seed)
    data = recipe.call(function)
    if context.spec.framework == "keras":
        if any_shape and not (isinstance(data, (tf.data.Dataset, tuple, Mapping)) or hasattr(data, "shape")):
            remedy = tr(
                "Keras' fit takes arrays in a tuple or a dict, or a tf.data.Dataset. For lists and streams of items "
                "choose framework tensorflow."
            )
            raise wrong_return(function, recipe, data, remedy)
        return Batches(data, function, batch_size=training.batch_size, seed=training.seed, any_shape=any_shape)
    return batches_of(
        data, function, training, any_shape=any_shape, collate=recipe.collate, again=recipe.bound(function, 0)
    )


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


def _mean_loss(recipe: LoadedRecipe, measured: Batches | None, output: Any, replicas: int) -> Measure:  # noqa: ANN401
    """Return the recipe's loss, with the mean taken where it returns a value per item.

    `output`: the model's, on symbols of the data that the loss is computed on. Keras' losses divide by the number of
    replicas inside a strategy, and plain functions do not. Traced here, outside, both return the mean over their items.
    """
    loss = _loss(recipe)

    def mean(target: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.cast(loss(target, output), tf.float32))

    if replicas == 1 or output is None:
        return mean
    assert measured is not None, "there is an output of it"
    like = tf.nest.map_structure(lambda each: tf.TensorSpec(each.shape, each.dtype), output)
    return tf.function(mean).get_concrete_function(measured.specs()[-1], like)  # type: ignore[no-any-return]


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
