"""Data parallel on all cores of a TPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from ...language import tr
from .loop.common import train_replicas

if TYPE_CHECKING:
    from ..context import Context
    from ..recipe import LoadedRecipe


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until a stop or a pause is requested. Raises `RuntimeError` without a TPU."""
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
