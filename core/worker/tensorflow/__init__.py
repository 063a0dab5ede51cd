"""TensorFlow with a loop of its own: one file per strategy, each with `train(recipe, context)`.

What has to be in the environment before TensorFlow or Keras is imported is set here, since this is
loaded before any module of the package: import it first, also from where Keras' own `fit` trains.
"""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever the user's keras.json says
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # no hints on how it was compiled; warnings and errors stay
