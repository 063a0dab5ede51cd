"""MobileNetV2 that classifies cats and dogs (cats_vs_dogs: 23 262 photographs, 0.8 GB, downloaded once)."""

import sys

import keras
import tensorflow as tf
from _shared.fetch import fetch, folder

# The address is tensorflow_datasets' own. We download it ourselves: tensorflow_datasets retries for minutes offline.
FOLDER = "https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F/"
ARCHIVE = "kagglecatsanddogs_5340.zip"
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
        archive = fetch(folder("cats_vs_dogs") / ARCHIVE, FOLDER + ARCHIVE, SHA256)
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(manual_dir=archive.parent))
    return builder.as_dataset(split=split, as_supervised=True)


def optimizer(learning_rate=0.001):
    return keras.optimizers.Adam(learning_rate)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}
