"""Data parallel without `tf.distribute`, as before it existed: one tower per device, all on one set of variables."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ._build import build
from ._devices import claim
from ._loop import Reporter, loop
from ._step import Passes, Update, add_gradients, slice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..context import Context
    from ..recipe import LoadedRecipe
    from ._data import Feed


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    devices = claim(context)
    with tf.device(devices[0]):  # the variables are here; the other towers read them each step
        task = build(recipe, context)
    passes, update = Passes(task, context), Update(task, context)

    def step(*feed: tf.Tensor) -> tf.Tensor:
        losses, gradients = zip(*_towers(devices, passes.gradients, feed), strict=True)
        with tf.device(devices[0]):
            update([_sum(each) for each in zip(*gradients, strict=True)])
            return tf.add_n(losses)

    def measure(*feed: tf.Tensor) -> tf.Tensor:
        return tf.add_n(_towers(devices, passes.sums, feed))

    loop(task, context, Reporter(context), tf.function(step), tf.function(measure))


def _towers(devices: Sequence[str], compute: Callable[[Feed, float], Any], feed: Feed) -> list[Any]:
    """Return what each device computes on its slice of the global batch."""
    results = []
    for number, device in enumerate(devices):
        with tf.device(device):
            results.append(compute(*slice_of(feed, number, len(devices))))
    return results


def _sum(gradients: Sequence[tf.Tensor | None]) -> tf.Tensor | None:
    """Add up the gradients of all towers, which are weighted by their share of the items."""
    known = [each for each in gradients if each is not None]
    return reduce(add_gradients, known) if known else None
