"""Keras' own `model.fit`: one file per strategy, each with `train(recipe, context)`."""

from __future__ import annotations

from .. import tensorflow as tensorflow  # first: it sets the environment that Keras reads when imported
