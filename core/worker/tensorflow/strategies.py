"""The strategies of one process, each a function of the recipe and the run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ...language import tr
from .devices import claim, mirrored_strategy, placed_model, record_parts, record_shared
from .loop import loop, traced, train_alone, train_replicas, train_step
from .step import WholeStep, added_up
from .task.build import build
from .task.data import HOST, slice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..context import Context
    from ..recipe import LoadedRecipe
    from .step import Forward, Passed
    from .task.data import Feed


def single(recipe: LoadedRecipe, context: Context) -> None:
    """Train on one device."""
    (device,) = claim(context)
    with tf.device(device):
        train_alone(build(recipe, context), context)


def mirrored(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel: MirroredStrategy keeps a copy of the model on each device."""
    strategy = mirrored_strategy(context)
    train_replicas(strategy, recipe, context)


def central_storage(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel: the variables are on one device, all devices compute."""
    devices = claim(context)
    # On the host, the strategy's own choice for several GPUs. A single device keeps its variables.
    storage = devices[0] if len(devices) == 1 else HOST
    strategy = tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices, parameter_device=storage)
    train_replicas(strategy, recipe, context)


def tpu(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel on all cores of a TPU. Raises `RuntimeError` without one."""
    train_replicas(_strategy(), recipe, context)


def _strategy() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise RuntimeError(
            tr("TensorFlow found no TPU on this machine: {error}. Choose another strategy.", error=error)
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def towers(recipe: LoadedRecipe, context: Context) -> None:
    """Train data parallel without `tf.distribute`: one tower per device, all on one set of variables."""
    devices = claim(context)
    with tf.device(devices[0]):  # the variables are here; the other towers read them each step
        task = build(recipe, context)
    record_shared(context, task.model, devices[0])
    whole = WholeStep(task, context)

    def step(*feed: tf.Tensor) -> Any:  # noqa: ANN401 (see `Update.make`)
        with tf.device(devices[0]):
            return whole.make(lambda passes: added_up(_towers(devices, passes.gradients, feed)))

    def measure(*feed: tf.Tensor) -> tf.Tensor:
        return tf.add_n(_towers(devices, whole.passes.sums, feed))

    loop(task, context, train_step(task, step, parts=len(devices)), traced(measure, task.val))


def _towers(devices: Sequence[str], compute: Callable[[Feed, float], Any], feed: Feed) -> list[Any]:
    """Return what each device computes on its slice of the global batch."""
    results = []
    for number, device in enumerate(devices):
        with tf.device(device):
            results.append(compute(*slice_of(feed, number, len(devices))))
    return results


def placement(recipe: LoadedRecipe, context: Context) -> None:
    """Train a model whose parts are on the devices that the recipe names, or in order on all."""
    devices = claim(context)
    with tf.device(devices[0]):  # for everything that is not placed
        task = build(recipe, context, make_model=partial(placed_model, recipe, context, devices))
        record_parts(context, task.model, devices)
        train_alone(task, context, where_it_was_computed)


def where_it_was_computed(forward: Forward, variables: list[tf.Variable]) -> tuple[Passed, list[tf.Tensor | None]]:
    """Compute each gradient on the device of its forward operation. A tape would use the first device for all."""
    passed, scaled = forward()
    return passed, tf.gradients(scaled, variables)
