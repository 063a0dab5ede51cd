"""Export a Keras model of a Keras or TensorFlow run: a `.keras` file or a SavedModel, and a script that loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...language import tr
from ...schema.settings import Training
from ..steps import has_steps
from ..tensorflow.task.build import checked_model, create_variables
from ..tensorflow.task.stream import batches_of

if TYPE_CHECKING:
    from pathlib import Path

    import keras

    from ..recipe import LoadedRecipe

WEIGHTS = "model.npz"
LOAD = {
    "keras": '''\
"""Load the trained model: `python load.py`, or `from load import model`. Needs only keras and tensorflow.

The recipe in this folder defines its layers and functions. The training data are not included.
"""

import sys
from pathlib import Path

import keras

here = Path(__file__).resolve().parent
sys.path.insert(0, str(here))
import recipe  # noqa: E402

model = keras.saving.load_model(here / "model.keras", custom_objects=vars(recipe), compile=False)

if __name__ == "__main__":
    model.summary()
''',
    "saved_model": '''\
"""Load the trained model: `python load.py`, or `from load import model`. Needs only tensorflow.

`model.serve(inputs)` computes. The recipe in this folder is not needed. The training data are not included.
"""

from pathlib import Path

import tensorflow as tf

model = tf.saved_model.load(Path(__file__).resolve().parent / "saved_model")

if __name__ == "__main__":
    print(model.signatures["serving_default"])
''',
}


def export(recipe: LoadedRecipe, checkpoint: Path, folder: Path, format_name: str) -> None:
    """Write `model.keras`, or the folder `saved_model`, and `load.py`.

    Raises `ValueError` if the weights are of another model.
    """
    model = checked_model(recipe.call("model"), recipe, "model")
    if not model.built:  # without an Input: calling it, or its training step, creates the weights
        batches = batches_of(
            recipe.call("train_data"), "train_data", Training(steps_per_epoch=1), any_shape=has_steps(recipe),
            collate=recipe.collate, again=recipe.bound("train_data", 0),
        )
        create_variables(recipe, model, batches, None if has_steps(recipe) else batches)
    fill(model, checkpoint)
    if format_name == "keras":
        model.save(folder / "model.keras")
    else:
        model.export(str(folder / "saved_model"), format="tf_saved_model", verbose=False)
    (folder / "load.py").write_text(LOAD[format_name], encoding="utf-8")


def fill(model: keras.Model, checkpoint: Path) -> None:
    """Set the weights from a checkpoint, by position: a model that was placed on devices has other paths.

    Raises `ValueError` if their number or shapes differ.
    """
    path = checkpoint / WEIGHTS
    if not path.exists():
        raise ValueError(tr("Checkpoint {checkpoint} has no weights of a whole model.", checkpoint=checkpoint.name))
    with np.load(path, allow_pickle=False) as file:
        saved = sorted((int(key.partition(":")[0]), key.partition(":")[2], file[key]) for key in file.files)
    fault = _difference(model, saved)
    if fault:
        raise ValueError(
            tr(
                "Checkpoint {checkpoint} is of another model: {fault}. Undo the changes to the recipe.",
                checkpoint=checkpoint.name,
                fault=fault,
            )
        )
    model.set_weights([array for _, _, array in saved])


def _difference(model: keras.Model, saved: list[tuple[int, str, np.ndarray]]) -> str:
    """Describe the first weight that does not fit; return the empty string if all do."""
    if len(saved) != len(model.weights):
        return tr("it has {count} weights, this model {own}", count=len(saved), own=len(model.weights))
    for (_, path, array), weight in zip(saved, model.weights, strict=True):
        if array.shape != tuple(weight.shape):
            return tr(
                "its {path} has the shape {shape}, this model's {own} {own_shape}",
                path=path,
                shape=array.shape,
                own=weight.path,
                own_shape=tuple(weight.shape),
            )
    return ""
