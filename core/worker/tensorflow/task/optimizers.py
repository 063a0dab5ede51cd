"""The recipe's optimizer with the run's settings, or several by name: `optimizers(model)`, which take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

from ....language import tr
from ....schema.settings import DEFAULT_LEARNING_RATE
from ...recipe import wrong_return
from ...steps import OPTIMIZERS, check_optimizers, check_owners

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...context import Context
    from ...recipe import LoadedRecipe


class Owned(NamedTuple):
    optimizer: keras.optimizers.Optimizer
    variables: list[keras.Variable] | None
    """None: all that the model has when a step is made."""


def build_optimizers(recipe: LoadedRecipe, context: Context, model: keras.Model) -> dict[str, Owned]:
    """Return the recipe's optimizers by name, with the run's settings; the only one has an empty name.

    A recipe without one gets Adam. Raises `TypeError` or `ValueError`.
    """
    function, found = _at_rate(recipe, context, model)
    training = context.training
    if training.schedule != "constant" or training.warmup_steps or training.rate_factor != 1:
        _need_plain_rates(recipe, function, found)
    for name, (optimizer, variables) in found.items():
        if training.weight_decay is not None:
            optimizer.weight_decay = training.weight_decay  # decoupled, in all optimizers of Keras
        if training.precision == "float16":
            in_one_place = isinstance(tf.distribute.get_strategy(), tf.distribute.experimental.CentralStorageStrategy)
            scaling = CentralLossScale if in_one_place else keras.optimizers.LossScaleOptimizer
            found[name] = Owned(scaling(optimizer), variables)
        found[name].optimizer.build(model.trainable_variables if variables is None else variables)
    return found


def _at_rate(recipe: LoadedRecipe, context: Context, model: keras.Model) -> tuple[str, dict[str, Owned]]:
    """Return the recipe's function, and its optimizers at the run's learning rate, as `build_optimizers`."""
    function = OPTIMIZERS if recipe.has(OPTIMIZERS) else "optimizer"
    found = _several(recipe, model) if function == OPTIMIZERS else {"": Owned(_single(recipe), None)}
    rate = context.training.learning_rate
    if rate is not None and not recipe.takes(function, "learning_rate"):
        _set_rate(recipe, function, found, rate)
    return function, found


def rates_of(recipe: LoadedRecipe, context: Context, model: keras.Model) -> list[float]:
    """Return the rates that new optimizers would have, see `Task.rates`. Raises as `build_optimizers`."""
    recipe.set_rate(context.training.learning_rate)
    function, found = _at_rate(recipe, context, model)
    _need_plain_rates(recipe, function, found)
    return [float(keras.ops.convert_to_numpy(each.optimizer.learning_rate)) for each in found.values()]


class CentralLossScale(keras.optimizers.LossScaleOptimizer):  # type: ignore[misc]  # Keras has no types
    """Loss scaling whose own variables are changed once for all replicas.

    Keras lets each replica change them, within a condition. A replica cannot do that to variables that all share.
    """

    def apply(self, grads: list[tf.Tensor], trainable_variables: list[keras.Variable]) -> None:
        """Take the step if all gradients are finite, and adapt the scale. The gradients are equal on all replicas."""
        tf.distribute.get_replica_context().merge_call(self._apply_once, args=(grads, trainable_variables))

    def _apply_once(self, strategy: tf.distribute.Strategy, grads: Any, variables: Any) -> None:  # noqa: ANN401 (of all replicas)
        on_replicas = strategy.extended.call_for_each_replica
        finite = strategy.experimental_local_results(on_replicas(self.check_finite, args=(grads,)))[0]

        def take() -> None:
            on_replicas(self._take, args=(grads, variables))
            scale, good = tf.convert_to_tensor(self.dynamic_scale), tf.convert_to_tensor(self.step_counter) + 1
            grows = tf.equal(good, self.dynamic_growth_steps)
            self.dynamic_scale.assign(tf.where(grows, 2 * scale, scale))
            self.step_counter.assign(tf.where(grows, tf.zeros_like(good), good))

        def skip() -> None:
            self.dynamic_scale.assign(tf.convert_to_tensor(self.dynamic_scale) / 2)
            self.step_counter.assign(0)

        tf.cond(finite, take, skip)

    def _take(self, grads: list[tf.Tensor], variables: list[keras.Variable]) -> None:
        scale = tf.convert_to_tensor(self.dynamic_scale)
        self.inner_optimizer.apply([each / scale for each in grads], variables)


def _single(recipe: LoadedRecipe) -> keras.optimizers.Optimizer:
    optimizer = recipe.call("optimizer") if recipe.has("optimizer") else keras.optimizers.Adam(DEFAULT_LEARNING_RATE)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise wrong_return("optimizer", recipe, optimizer, tr("Return a Keras optimizer."))
    return optimizer


def _several(recipe: LoadedRecipe, model: keras.Model) -> dict[str, Owned]:
    found = recipe.call(OPTIMIZERS, model)
    remedy = tr(
        "Return a dict of names and pairs of a Keras optimizer and what it trains: a layer, a model, or a list of "
        "variables. For example: {example}.",
        example="{'generator': (keras.optimizers.Adam(), model.generator)}",
    )
    check_optimizers(recipe, found, remedy, lambda pair: _owned(pair) is not None)
    several = {name: owned for name, pair in found.items() if (owned := _owned(pair))}
    _check(recipe, model, several)
    return several


def _owned(pair: Any) -> Owned | None:  # noqa: ANN401 (whatever the recipe returned)
    """Return an optimizer and its variables; None for anything else."""
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], keras.optimizers.Optimizer):
        return None
    optimizer, trained = pair
    if isinstance(trained, keras.Layer):
        return Owned(optimizer, list(trained.trainable_variables))
    if isinstance(trained, (list, tuple)) and all(isinstance(each, keras.Variable) for each in trained):
        return Owned(optimizer, list(trained))
    return None


def _check(recipe: LoadedRecipe, model: keras.Model, optimizers: Mapping[str, Owned]) -> None:
    """Raise `ValueError` if two optimizers are one or share a variable, or if one has none, or one of another model."""
    owners: dict[int, str] = {}
    for name, (optimizer, variables) in optimizers.items():
        assert variables is not None
        if not variables:
            raise ValueError(
                tr(
                    "Optimizer {name!r} of {recipe} has no variables that can be trained. Give it a layer or a model "
                    "that has some.",
                    name=name,
                    recipe=recipe.name,
                )
            )
        if id(optimizer) in owners:
            raise ValueError(
                tr(
                    "The optimizers {one!r} and {other!r} of {recipe} are the same object. Make two.",
                    one=owners[id(optimizer)],
                    other=name,
                    recipe=recipe.name,
                )
            )
        owners[id(optimizer)] = name
    owned = {name: each.variables or [] for name, each in optimizers.items()}
    check_owners(recipe, owned, {id(variable): variable.path for variable in model.trainable_variables})


def _set_rate(recipe: LoadedRecipe, function: str, optimizers: Mapping[str, Owned], rate: float) -> None:
    """Set the rate of the first optimizer. The rates of the others keep the recipe's proportions."""
    _need_plain_rates(recipe, function, optimizers)
    base = None
    for optimizer, _ in optimizers.values():
        own = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        base = own if base is None else base
        optimizer.learning_rate = rate * own / base if base else rate


def _need_plain_rates(recipe: LoadedRecipe, function: str, optimizers: Mapping[str, Owned]) -> None:
    if not all(isinstance(each.optimizer.learning_rate, keras.Variable) for each in optimizers.values()):
        raise ValueError(
            tr(
                "{function}() of {recipe} has a learning rate schedule of its own. Leave the run's learning rate, "
                "its scaling, schedule and warm-up unset, or give the optimizer a number.",
                function=function,
                recipe=recipe.name,
            )
        )
