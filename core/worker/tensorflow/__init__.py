"""TensorFlow with a training loop of our own.

- `strategies`: a function for each strategy
- `task`: what is trained: model, data, optimizers and steps of a recipe
- `loop`: train a task, and validate it
- `step`: what one device does in a step
- `devices`: claim a worker's devices; put the parts of a model on several of them

The environment variables that TensorFlow and Keras read when they are imported are set here. Import this package
before them, also where Keras' own `fit` trains.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...schema.spec import RankAssignment

os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever the user's keras.json says
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # hide how TensorFlow was compiled; show warnings and errors


def memory_of(given: RankAssignment, device: str) -> tuple[int, int | None]:
    """Return what TensorFlow has used of a GPU at most, in bytes; it does not know what it could have taken."""
    memory: Any = sys.modules["tensorflow"].config.experimental
    return memory.get_memory_info(f"GPU:{given.own.index(device)}")["peak"], None
