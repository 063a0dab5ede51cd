"""A recipe's own steps in TensorFlow, called in their mode and read; its metrics on training batches."""

from __future__ import annotations

import contextlib
import numbers
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

from ....language import tr_noop
from ... import steps
from ...recipe import TRAINING_STEP
from ...steps import LOSS, OPTIMIZERS, WEIGHT, has_steps, validates_itself, validating_function
from ...training import metrics
from ...training.metrics import Cost, median
from .data import slice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...recipe import LoadedRecipe
    from .build import Measure
    from .data import Batches


class Measured(NamedTuple):
    """What a step returned."""

    loss: tf.Tensor
    """A float32 scalar, with its graph."""
    values: list[tf.Tensor]
    """The loss and the other metrics: float32 scalars without a graph."""
    weight: tf.Tensor | None
    """What the loss counts among the parts of a step, such as its number of tokens. None: the number of its items."""


class StepReader(steps.StepReader):
    keeps_graph = tr_noop(
        "Compute it from the model's output with TensorFlow's operations, without numpy() or tf.stop_gradient()."
    )

    def is_loss(self, value: object) -> bool:
        return isinstance(value, tf.Tensor) and value.shape.rank in {0, None} and value.dtype.is_floating

    def is_number(self, value: object) -> bool:
        if isinstance(value, tf.Tensor):
            return value.shape.num_elements() in {1, None} and (value.dtype.is_floating or value.dtype.is_integer)
        return isinstance(value, numbers.Real)

    def kind(self, value: object) -> str:
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


class TrainingMetrics(metrics.TrainingMetrics):
    """Measures in the steps that are due.

    A step returns the output from which it has computed the loss, with dropout, beside the loss. The metrics are
    computed from it when they are due, without a graph: tracing them would delay the start, and a graph of its own for
    measured steps could round otherwise. A value is the mean over the global batch.
    """

    def __init__(self, metrics: Mapping[str, Measure], train: Batches) -> None:
        super().__init__(metrics)
        self._metrics, self._train = tuple(metrics.values()), train
        self._row: tf.Tensor | None = None
        """The current step's values: this worker's part of them."""
        self._spent_s: list[float] = []

    def watching(self, step: Callable[..., Any], *, first: int, parts: int) -> Callable[..., tf.Tensor]:
        """Return a function that makes a step, measures it if it is due, and returns its loss.

        `step(*feed)` returns the loss and the output of each device of this process. Their slices of the global batch
        are those from `first` on, of `parts`.
        """

        def watched(*feed: tf.Tensor) -> tf.Tensor:
            loss, outputs = step(*feed)
            if self.is_due:
                slices = (slice_of(feed, number, parts) for number in range(first, first + len(outputs)))
                self.measure(
                    (self._train.target(part), output, share)
                    for (part, share), output in zip(slices, outputs, strict=True)
                    if share  # else it is an idle item
                )
            return loss

        return watched

    def measure(self, parts: Iterable[tuple[tf.Tensor, Any, float | tf.Tensor]]) -> tf.Tensor:
        """Measure the current step on this worker's parts of its batch: target, output and share, or item weights.

        Return the values, shape (metrics).
        """
        began = time.perf_counter()
        row = tf.zeros(len(self._metrics))
        for target, output, share in parts:
            row += tf.stack([_mean(each(target, output), share) for each in self._metrics])
        self._row = row
        self._spent_s.append(time.perf_counter() - began)
        return row

    def end_step(self, step: int) -> None:
        if self._row is not None:
            self._keep(step, self._row)
            self._row = None

    def take(self, elapsed_s: float) -> tuple[list[float], Cost]:
        """Return the values since the last report, and what they took; see the base class."""
        values = tf.stack(self._rows).numpy().ravel().tolist() if self._rows else []
        # The median stands for each time: while another process had the core, the metrics took no time.
        spent_s = median(self._spent_s) * len(self._spent_s)
        cost = Cost.of(spent_s, len(self._spent_s), elapsed_s)
        self._rows, self._spent_s = [], []
        return values, cost


def _mean(value: Any, share: float | tf.Tensor) -> tf.Tensor:  # noqa: ANN401 (whatever a user's function returns)
    """Return the mean of a value per item, times the share of the items, or the sum by the weights of the items."""
    value = tf.cast(value, tf.float32)
    if not isinstance(share, tf.Tensor):
        return tf.reduce_mean(value) * share
    if value.shape.rank and value.shape[0] == share.shape[0]:
        return tf.reduce_sum(tf.reduce_mean(tf.reshape(value, [len(share), -1]), 1) * share)
    return tf.reduce_mean(value) * tf.reduce_sum(share)
