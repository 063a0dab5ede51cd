"""Keras' own `model.fit`.

`strategies` has a function for each strategy; it compiles the model and calls `fit` once for the whole run.
`_callbacks` connects `fit` with the controller and makes the recipe's own callbacks, `_step` makes the stream of
batches and the step on a batch. Model, data and checkpoints are those of the package `tensorflow`. `export`
writes models of both.
"""

from __future__ import annotations

from .. import tensorflow as tensorflow  # first: it sets the environment variables that Keras reads when imported
from ..tensorflow import memory_of as memory_of
from ..tensorflow import start_trace as start_trace
