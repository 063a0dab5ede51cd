"""Data parallel without `tf.distribute`: one tower per device, all on one set of variables."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from .loop.common import loop, traced, train_step
from .loop.devices import claim
from .loop.placing import record_shared
from .loop.step import Passed, WholeStep, add_gradients
from .task.build import build
from .task.data import slice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..context import Context
    from ..recipe import LoadedRecipe
    from .task.data import Feed


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested."""
    devices = claim(context)
    with tf.device(devices[0]):  # the variables are here; the other towers read them each step
        task = build(recipe, context)
    record_shared(context, task.model, devices[0])
    whole = WholeStep(task, context)

    def step(*feed: tf.Tensor) -> Any:  # noqa: ANN401 (see `Update.make`)
        with tf.device(devices[0]):
            return whole.make(lambda passes: _added_up(_towers(devices, passes.gradients, feed)))

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


def _added_up(parts: Sequence[Passed]) -> Passed:
    """Add up what the passes of all towers gave."""
    gradients = [_sum(each) for each in zip(*(part.gradients for part in parts), strict=True)]
    weights = [part.weight for part in parts if part.weight is not None]
    values = tf.add_n([part.values for part in parts])
    outputs = tuple(output for part in parts for output in part.outputs)
    return Passed(values, gradients, tf.add_n(weights) if weights else None, outputs)


def _sum(gradients: Sequence[tf.Tensor | None]) -> tf.Tensor | None:
    """Add up the gradients of all towers, which are weighted by their share of the items."""
    known = [each for each in gradients if each is not None]
    return reduce(add_gradients, known) if known else None
