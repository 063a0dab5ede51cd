"""A recipe's own steps in TensorFlow: call them in the mode of training or validation, and read what they return."""

from __future__ import annotations

import contextlib
import numbers
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

from ....language import tr_noop
from ... import steps
from ...recipe import TRAINING_STEP
from ...steps import LOSS, OPTIMIZERS, WEIGHT, has_steps, validates_itself, validating_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...recipe import LoadedRecipe


class Measured(NamedTuple):
    """What a step returned."""

    loss: tf.Tensor
    """A float32 scalar, with its graph."""
    values: list[tf.Tensor]
    """The loss and the other metrics: float32 scalars without a graph."""
    weight: tf.Tensor | None
    """What the loss counts among the parts of a step, such as its number of tokens. None: the number of its items."""


class StepReader(steps.StepReader):
    """Reads what a step returns as tensors."""

    keeps_graph = tr_noop(
        "Compute it from the model's output with TensorFlow's operations, without numpy() or tf.stop_gradient()."
    )

    def is_loss(self, value: object) -> bool:
        """Return whether this is a tensor of one floating-point number."""
        return isinstance(value, tf.Tensor) and value.shape.rank in {0, None} and value.dtype.is_floating

    def is_number(self, value: object) -> bool:
        """Return whether this is a number, or a tensor of one element."""
        if isinstance(value, tf.Tensor):
            return value.shape.num_elements() in {1, None} and (value.dtype.is_floating or value.dtype.is_integer)
        return isinstance(value, numbers.Real)

    def kind(self, value: object) -> str:
        """Return what a value is, for messages."""
        if isinstance(value, tf.Tensor):
            return steps.tensor_kind(None if value.shape.rank is None else tuple(value.shape), value.dtype.name)
        return super().kind(value)

    def read(self, returned: Any) -> Measured:  # noqa: ANN401 (whatever the recipe returns)
        """Return loss, metrics and weight. Raises `TypeError` or `ValueError` with a sentence."""
        with plainly_raised():
            values = self.checked(returned)
        assert self.names is not None, "`checked` has set them"
        weight = _scalar(values[WEIGHT]) if self.weighs else None
        loss = tf.reshape(tf.cast(values[LOSS], tf.float32), [])
        return Measured(loss, [_scalar(values[name]) for name in self.names], weight)


@contextlib.contextmanager
def plainly_raised() -> Any:  # noqa: ANN401 (a context manager)
    """Let an error of ours pass through TensorFlow's tracing, which would wrap its sentence in a traceback."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as error:
        error.__dict__["ag_pass_through"] = True
        raise


def _scalar(value: Any) -> tf.Tensor:  # noqa: ANN401 (a number, or a tensor of one element)
    return tf.stop_gradient(tf.reshape(tf.cast(value, tf.float32), []))


class RecipeStep:
    """A recipe's step for a model."""

    def __init__(
        self, function: Callable[..., Any], model: keras.Model, reader: StepReader, turn: tuple[str, ...] = ()
    ) -> None:
        """`turn`: the name of an optimizer, where several take turns: what the function gets after the batch."""
        self._function, self._model, self.turn = function, model, turn
        self.reader = reader
        self._mode = Mode()

    def __call__(self, batch: Any, *, training: bool) -> Measured:  # noqa: ANN401 (any shape)
        """Return what the step computes on a batch. Raises `TypeError` or `ValueError` with a sentence."""
        # Keras does not let TensorFlow convert Python's `if` and `for` over tensors within a layer.
        convert = tf.__internal__.autograph
        step = convert.tf_convert(self._function, convert.control_status_ctx())
        return self.reader.read(self._mode(run=lambda: step(self._model, batch, *self.turn), training=training))

    def try_out(self, batch: Any) -> None:  # noqa: ANN401 (any shape)
        """Create the variables of a model that has none before its first call. Nothing else changes."""
        with keras.StatelessScope():
            self._function(self._model, batch, *self.turn)


class Mode(keras.Layer):  # type: ignore[misc]  # Keras ships no types
    """Passes its mode on to the layers that are called within it, as every layer does: `model(x)` follows the run."""

    def __init__(self) -> None:
        super().__init__(name="step", autocast=False)
        self.built = True

    def call(self, run: Callable[[], Any], training: bool | None = None) -> Any:  # noqa: ANN401, ARG002 (Keras')
        """Return what the function returns."""
        try:
            return run()
        except Exception as error:
            error.__dict__["_keras_call_info_injected"] = True  # else Keras would describe this layer in its message
            raise


def training_steps(recipe: LoadedRecipe, model: keras.Model, optimizers: Iterable[str]) -> list[RecipeStep]:
    """Return the recipe's own training step for each of its optimizers; none without one.

    `optimizers`: their names; the only one has an empty name, and the step does not get it.
    """
    if not has_steps(recipe):
        return []
    turns = [(name,) if name else () for name in optimizers]
    return [_recipe_step(recipe, model, TRAINING_STEP, turn) for turn in turns]


def validation_step(recipe: LoadedRecipe, model: keras.Model) -> RecipeStep | None:
    """Return the recipe's own step of validation; None to validate with its loss and metrics."""
    function = validating_function(recipe)
    if not validates_itself(recipe) or (function == TRAINING_STEP and recipe.has(OPTIMIZERS)):
        return None  # a step of several optimizers does not validate: such a recipe has no data to do so
    return _recipe_step(recipe, model, function, ())


def _recipe_step(recipe: LoadedRecipe, model: keras.Model, function: str, turn: tuple[str, ...]) -> RecipeStep:
    reader = StepReader(function, recipe.name_and_line(function))
    return RecipeStep(recipe.bound(function, 2 + len(turn)), model, reader, turn)


def try_out(recipe: LoadedRecipe, model: keras.Model, batch: Any) -> None:  # noqa: ANN401 (any shape)
    """Create the variables of a model without any, as the recipe's training step does for each of its optimizers."""
    names: Iterable[str] = ("",)
    if recipe.has(OPTIMIZERS):
        found = recipe.call(OPTIMIZERS, model)  # what else it returns is checked when the optimizers are built
        names = [str(name) for name in found] if isinstance(found, dict) else []
    for step in training_steps(recipe, model, names):
        step.try_out(batch)
