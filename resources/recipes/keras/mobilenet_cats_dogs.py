"""MobileNetV2 that classifies cats and dogs (cats_vs_dogs: 23 262 photographs, 0.8 GB, downloaded once)."""

import hashlib
import os
import sys
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path

import keras
import tensorflow as tf

# The address is tensorflow_datasets' own. We download it ourselves: tensorflow_datasets retries for minutes offline.
ADDRESS = (
    "https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F/kagglecatsanddogs_5340.zip"
)
SHA256 = "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"
SPLITS = {"train": "train[:95%]", "val": "train[95%:]"}


def model(size=128, width=1.0, weights=""):
    """`weights`: "" for random weights, "imagenet" for those that Keras downloads, or the path of a weights file."""
    base = keras.applications.MobileNetV2(
        (size, size, 3), alpha=width, include_top=False, weights=weights or None, pooling="avg"
    )
    return keras.Sequential([keras.Input((size, size, 3)), base, keras.layers.Dense(2)])


def train_data(size=128):
    return photographs("train", size)


def val_data(size=128):
    return photographs("val", size)


def photographs(part, size):
    """Return pictures (size, size, 3) from -1 to 1 and labels, 0 for a cat and 1 for a dog, read on demand."""

    def prepared(picture, label):
        return tf.image.resize(picture, (size, size)) / 127.5 - 1, label

    try:
        pictures = cats_vs_dogs(SPLITS[part])
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"cats_vs_dogs needs tensorflow_datasets, which is missing or incomplete ({error}). "
            f"Install it, in Trainyard's folder: "
            f"`{sys.executable} -m pip install --constraint constraints.txt tensorflow-datasets importlib_resources`."
        ) from error
    return pictures.map(prepared, num_parallel_calls=tf.data.AUTOTUNE)


def cats_vs_dogs(split):
    """Return tensorflow_datasets' data set of (picture, label), made from the archive the first time."""
    import tensorflow_datasets as tfds

    builder = tfds.builder("cats_vs_dogs")
    try:
        return builder.as_dataset(split=split, as_supervised=True)
    except AssertionError:  # raised if the data set has not been made yet
        archive = downloaded("cats_vs_dogs", ADDRESS, SHA256)
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir=archive.parent))
    return builder.as_dataset(split=split, as_supervised=True)


def downloaded(folder, address, sha256):
    """Return the path of a file of public data, downloaded once into the user's cache folder.

    Only what is downloaded is checked: a file that the user put there may be an extract or another edition.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "trainyard" / "data"
    path = Path(os.environ.get("TRAINYARD_DATA") or cache).expanduser() / folder / address.rpartition("/")[2]
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # First into a folder of its own: two ranks that download at once both get the whole file.
        with tempfile.TemporaryDirectory(dir=path.parent) as own, urllib.request.urlopen(address, timeout=20) as answer:
            part, digest = Path(own, path.name), hashlib.sha256()
            with part.open("wb") as file:
                while block := answer.read(1 << 20):
                    digest.update(block)
                    file.write(block)
            if digest.hexdigest() != sha256:
                raise ValueError(f"its SHA-256 is {digest.hexdigest()} instead of {sha256}")
            part.replace(path)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise OSError(
            f"{path.name} could not be downloaded from {address} ({reason}). "
            f"Get it elsewhere, put it into the folder {path.parent}, and start again."
        ) from error
    return path


def optimizer(learning_rate=0.001):
    return keras.optimizers.Adam(learning_rate)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}
