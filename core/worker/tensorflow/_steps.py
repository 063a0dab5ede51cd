"""A recipe's own steps in TensorFlow: call them in the mode of training or validation, and read what they return."""

from __future__ import annotations

import contextlib
import numbers
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

from ...language import tr_noop
from .. import steps
from ..steps import LOSS, TRAINING_STEP, WEIGHT, has_steps, validates_itself, validating_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..recipe import LoadedRecipe


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

    def __init__(self, function: Callable[..., Any], model: keras.Model, reader: StepReader) -> None:
        self._function, self._model = function, model
        self.reader = reader
        self._mode = Mode()

    def __call__(self, batch: Any, *, training: bool) -> Measured:  # noqa: ANN401 (any shape)
        """Return what the step computes on a batch. Raises `TypeError` or `ValueError` with a sentence."""
        # Keras does not let TensorFlow convert Python's `if` and `for` over tensors within a layer.
        convert = tf.__internal__.autograph
        step = convert.tf_convert(self._function, convert.control_status_ctx())
        return self.reader.read(self._mode(run=lambda: step(self._model, batch), training=training))

    def try_out(self, batch: Any) -> None:  # noqa: ANN401 (any shape)
        """Create the variables of a model that has none before its first call. Nothing else changes."""
        with keras.StatelessScope():
            self._function(self._model, batch)


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


def recipe_steps(recipe: LoadedRecipe, model: keras.Model) -> tuple[RecipeStep | None, RecipeStep | None]:
    """Return the recipe's steps of training and validation; None for those made of the recipe's loss."""
    if not has_steps(recipe):
        return None, None

    def step(function: str) -> RecipeStep:
        return RecipeStep(recipe.bound(function, 2), model, StepReader(function, recipe.name_and_line(function)))

    return step(TRAINING_STEP), step(validating_function(recipe)) if validates_itself(recipe) else None
