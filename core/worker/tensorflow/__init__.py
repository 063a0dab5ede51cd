"""TensorFlow with a training loop of our own: one file per strategy, each with `train(recipe, context)`.

`_build` makes model and data from a recipe, `_optimizers` one or several optimizers, `_data` the batches of arrays and
data sets, `_stream` those of data that are read item by item, `_devices` claims devices. `_step` is what one device
does of a step, `_steps` calls a recipe's own steps, `_training_metrics` measures on training batches, `_loop` is the
loop that all strategies share, `_saver` the checkpoints, `_placing` a model on several devices, `_coordinator` a
parameter server's chief. `_errors` explains TensorFlow's errors.

The environment variables that TensorFlow and Keras read when they are imported are set here. Import this package
before them, also where Keras' own `fit` trains.
"""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever the user's keras.json says
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # hide how TensorFlow was compiled; show warnings and errors
