"""Putting the parts of one model on several devices, and telling which part is where."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ._build import call, checked_model, seed_everything
from ._devices import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..context import Context
    from ..recipe import LoadedRecipe


def placed_model(
    recipe: LoadedRecipe, context: Context, devices: Sequence[str], inputs: Sequence[keras.KerasTensor]
) -> keras.Model:
    """The recipe's own, or its model's layers in turn on these devices. Raises `ValueError` where it cannot be cut."""
    if recipe.has("placed_model"):
        return checked_model(recipe.call("placed_model", list(devices)), recipe, "placed_model")
    with tf.device(HOST):  # whole, it need not fit on any of them
        model = checked_model(recipe.call("model"), recipe, "model")
        if not isinstance(model, keras.Sequential):
            why = f"it is a {type(model).__name__}, not a keras.Sequential"
            raise ValueError(_cannot(recipe.name, len(devices), why))  # noqa: TRY004 (the user's choice)
        call(model, inputs, training=False)
    seed_everything(context.training.seed)
    return InTurn(_cut(model, devices, recipe.name), name=model.name)


class InTurn(keras.Model):  # type: ignore[misc]  # Keras ships no types
    """Runs of layers, each with its variables on a device, where it also computes."""

    def __init__(self, parts: Sequence[tuple[str, Sequence[keras.Layer]]], **keywords: Any) -> None:  # noqa: ANN401 (Keras' own)
        super().__init__(**keywords)
        self._devices = [device for device, _ in parts]
        self._runs = [list(run) for _, run in parts]

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """The output of the last layer."""
        for device, run in zip(self._devices, self._runs, strict=True):
            with tf.device(device):
                for layer in run:
                    inputs = layer(inputs)
        return inputs


def _cut(model: keras.Model, devices: Sequence[str], recipe: str) -> list[tuple[str, list[keras.Layer]]]:
    """Copies of the layers with their weights, in order, so that each device keeps about as many parameters."""
    layers = model.layers
    begins = split_evenly([layer.count_params() for layer in layers], len(devices))
    if begins is None:
        found = sum(layer.count_params() > 0 for layer in layers)
        raise ValueError(_cannot(recipe, len(devices), f"its layers with parameters of their own are {found}"))
    parts = []
    for device, begin, end in zip(devices, begins, [*begins[1:], len(layers)], strict=True):
        parts.append((device, [_copy(layer, device) for layer in layers[begin:end]]))
    return parts


def _copy(layer: keras.Layer, device: str) -> keras.Layer:
    with tf.device(device):
        copy = type(layer).from_config(layer.get_config())
        if not copy.built:
            copy.build(layer.input.shape)
        copy.set_weights(layer.get_weights())
    return copy


def split_evenly(sizes: Sequence[int], parts: int) -> list[int] | None:
    """Where each of so many runs of layers begins, so that they are of about the same size; None if there are too few.

    Layers of size 0 go with the one before them.
    """
    heavy = [at for at, size in enumerate(sizes) if size]
    if len(heavy) < parts:
        return None
    before = dict(zip(heavy, accumulate(sizes[at] for at in heavy), strict=True))  # sizes up to and with this layer
    total, first = sum(sizes), [0]  # each run's first, as a place among the heavy ones
    for part in range(1, parts):
        allowed = range(first[-1] + 1, len(heavy) - (parts - part) + 1)
        first.append(min(allowed, key=lambda place: abs(before[heavy[place - 1]] - total * part / parts)))
    return [0, *(heavy[place] for place in first[1:])]


def _cannot(recipe: str, devices: int, why: str) -> str:
    return (
        f"The model of {recipe} cannot be placed on {devices} devices because {why}. Tick fewer devices, "
        "or give the recipe a function placed_model(devices), which returns the model with its parts on these devices."
    )


def tell(context: Context, model: keras.Model, devices: Sequence[str]) -> None:
    """Record which variables are on which of the ticked devices."""
    by_place: dict[str, list[str]] = {}
    for variable in model.weights:
        by_place.setdefault(variable.value.device, []).append(variable.path)
    for device, name in zip(context.assignment.own, devices, strict=True):
        here = [where for where in by_place if where.lower().endswith(name.replace("/", "device:").lower())]
        names = [path for where in here for path in by_place[where]]
        context.record_parts(device, names, ", ".join(here))
