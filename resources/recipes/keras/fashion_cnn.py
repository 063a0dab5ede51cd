"""A convolutional network that classifies ten kinds of clothes (Fashion-MNIST, 28x28 pixels, downloaded once)."""

import gzip
import hashlib
import os
import tempfile
import urllib.request
import zlib
from http.client import HTTPException
from pathlib import Path

import keras
import numpy as np
from keras import layers

# The checksums are those of tensorflow_datasets' fashion_mnist.
ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
SHA256 = {
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
FILES = {"train": list(SHA256)[:2], "val": list(SHA256)[2:]}


def model(width=16, dropout=0.0):
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(width, 3, padding="same", activation="gelu"),
            layers.AveragePooling2D(2),
            layers.Conv2D(2 * width, 3, padding="same", activation="gelu"),
            layers.AveragePooling2D(2),
            layers.Conv2D(4 * width, 3, activation="gelu"),
            layers.Flatten(),
            layers.Dropout(dropout),
            layers.Dense(64, activation="gelu"),
            layers.Dense(10),
        ]
    )


def train_data(items=60_000):
    return fashion("train", items)


def val_data(val_items=2_000):
    return fashion("val", val_items)


def fashion(part, items):
    """Return the first `items` images (items, 28, 28, 1) of about zero mean and unit variance, and labels (items,)."""
    images, labels = [read(file)[:items] for file in FILES[part]]
    pixels = (images.astype(np.float32) / np.float32(255) - np.float32(0.2860)) / np.float32(0.3530)
    return pixels[..., None], labels.astype(np.int64)


def read(file):
    """Return the array of a compressed IDX file: its fourth byte counts dimensions, whose sizes are before the data."""
    path = downloaded("fashion-mnist", ADDRESS + file, SHA256[file])
    try:
        content = gzip.decompress(path.read_bytes())
        dimensions = content[3]
        shape = np.frombuffer(content, ">u4", dimensions, offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    except (OSError, ValueError, IndexError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read ({error}). Delete it to download it again.") from error


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
