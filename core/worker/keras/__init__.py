"""Keras' own `model.fit`: one file per strategy, each with `train(recipe, context)`.

`_fit` compiles the model and calls `fit` once for the whole run, `_callback` connects `fit` with the controller,
`_callbacks` makes the recipe's own,
`_data` is the stream of batches, `_step` one batch. Model, data and checkpoints are those of the package `tensorflow`.
`export` writes models of both.
"""

from __future__ import annotations

from .. import tensorflow as tensorflow  # first: it sets the environment variables that Keras reads when imported
