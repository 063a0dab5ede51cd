"""Claim a worker's devices before TensorFlow makes its first tensor; put the parts of one model on several of them."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from ...language import tr, tr_plural
from ..recipe import cannot_place
from .task.build import checked_model, seed_everything
from .task.data import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..context import Context
    from ..recipe import LoadedRecipe


def claim(context: Context) -> list[str]:
    """Return this worker's devices by TensorFlow's names, such as `/gpu:1`, in the order ticked.

    Call it first: TensorFlow fixes its devices with the first tensor. Raises `RuntimeError` if the process sees more
    or fewer devices than the ticked ones.
    """
    if context.spec.finds_nan:
        tf.debugging.enable_check_numerics()
    own, cores = len(context.assignment.own), len(context.assignment.cores)
    if cores:  # else the process is not pinned, and TensorFlow chooses
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(cores)
    gpus = tf.config.list_physical_devices("GPU")
    # Workers that meet over the network see only their own devices; one process for all sees all.
    ticked = context.assignment.own if context.assignment.addresses else context.assignment.devices
    context.check_seen(len(gpus), tf.config.threading.get_intra_op_parallelism_threads(), ticked, _cuda_advice)
    if not gpus:
        parts = [tf.config.LogicalDeviceConfiguration()] * max(1, own)
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
        return [f"/cpu:{number}" for number in range(own)]
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)  # else TensorFlow takes all memory at once
    return [f"/gpu:{number}" for number in range(own)]  # the environment lists them in the order ticked


def mirrored_strategy(context: Context) -> tf.distribute.MirroredStrategy:
    """Claim this worker's devices and return a strategy that adds up gradients over them as the run says."""
    devices, name = claim(context), context.training.cross_device_ops
    kinds = {
        "nccl": tf.distribute.NcclAllReduce,
        "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
        "one_device": tf.distribute.ReductionToOneDevice,
    }
    # "auto" leaves the choice to TensorFlow.
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=None if name == "auto" else kinds[name]())


def _cuda_advice() -> str:
    if not tf.test.is_built_with_cuda():
        return tr("TensorFlow {version} is built without CUDA: install tensorflow[and-cuda].", version=tf.__version__)
    return tr(
        "Check that the driver fits this TensorFlow and that tensorflow[and-cuda] is installed: "
        "python -c 'import tensorflow as tf; print(tf.config.list_physical_devices())' says why."
    )


def placed_model(
    recipe: LoadedRecipe, context: Context, devices: Sequence[str], create_variables: Callable[[keras.Model], object]
) -> keras.Model:
    """Return the recipe's placed model, or its layers in order on these devices. Raises `ValueError` if impossible."""
    if recipe.has("placed_model"):
        return checked_model(recipe.call("placed_model", list(devices)), recipe, "placed_model")
    with tf.device(HOST):  # the whole model need not fit on any of the devices
        model = checked_model(recipe.call("model"), recipe, "model")
        if not isinstance(model, keras.Sequential):
            reason = tr("its class is {kind}, not keras.Sequential", kind=type(model).__name__)
            raise cannot_place(recipe.name, len(devices), reason)
        create_variables(model)
    seed_everything(context.training.seed)
    return PlacedSequential(_cut(model, devices, recipe.name), name=model.name)


class PlacedSequential(keras.Model):  # type: ignore[misc]  # Keras ships no types
    """Runs of consecutive layers. Each run has its variables on one device and computes there."""

    def __init__(self, parts: Sequence[tuple[str, Sequence[keras.Layer]]], **keywords: Any) -> None:  # noqa: ANN401 (Keras' own)
        super().__init__(**keywords)
        self._devices = [device for device, _ in parts]
        self._runs = [list(run) for _, run in parts]

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the output of the last layer."""
        for device, run in zip(self._devices, self._runs, strict=True):
            with tf.device(device):
                for layer in run:
                    inputs = layer(inputs)
        return inputs


def _cut(model: keras.Model, devices: Sequence[str], recipe: str) -> list[tuple[str, list[keras.Layer]]]:
    """Copy the layers with their weights to the devices in order, so that each holds about as many parameters."""
    layers = model.layers
    begins = split_evenly([layer.count_params() for layer in layers], len(devices))
    if begins is None:
        found = sum(layer.count_params() > 0 for layer in layers)
        raise cannot_place(
            recipe,
            len(devices),
            tr_plural(
                "only {count} of its {whole} layers has parameters",
                "only {count} of its {whole} layers have parameters",
                found,
                whole=len(layers),
            ),
        )
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
    """Return where each run of layers begins, so that runs are about equally large; None with too few layers.

    Layers of size 0 go with the one before them.
    """
    heavy = [at for at, size in enumerate(sizes) if size]
    if len(heavy) < parts:
        return None
    before = dict(zip(heavy, accumulate(sizes[at] for at in heavy), strict=True))  # sizes up to this layer
    total, first = sum(sizes), [0]  # each run's first layer, as a position in `heavy`
    for part in range(1, parts):
        allowed = range(first[-1] + 1, len(heavy) - (parts - part) + 1)
        first.append(min(allowed, key=lambda place: abs(before[heavy[place - 1]] - total * part / parts)))
    return [0, *(heavy[place] for place in first[1:])]


def record_parts(context: Context, model: keras.Model, devices: Sequence[str]) -> None:
    """Record which variables are on which of the ticked devices."""
    by_place: dict[str, list[keras.Variable]] = {}
    for variable in model.weights:
        by_place.setdefault(variable.value.device, []).append(variable)
    for device, name in zip(context.assignment.own, devices, strict=True):
        here = [where for where in by_place if where.lower().endswith(name.replace("/", "device:").lower())]
        held = [variable for where in here for variable in by_place[where]]
        _record(context, device, held, ", ".join(here))
        if not held:
            context.notice_empty_device(device)


def record_shared(context: Context, model: keras.Model, where: str) -> None:
    """Record that the first device, or the host, has all variables, and that the other devices read them."""
    first, *others = context.assignment.own
    _record(context, first, model.weights, where)
    for device in others:
        context.record_parts(device, [], where, size_bytes=0, reads_from=first)


def _record(context: Context, device: str, held: Sequence[keras.Variable], where: str) -> None:
    size_bytes = sum(math.prod(each.shape) * tf.as_dtype(each.dtype).size for each in held)
    context.record_parts(device, [each.path for each in held], where, size_bytes=size_bytes)
