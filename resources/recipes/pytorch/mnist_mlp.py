"""A fully connected network that classifies handwritten digits of 28x28 pixels (MNIST, downloaded once)."""

import hashlib
import os
import tempfile
import urllib.request
import zipfile
import zlib
from http.client import HTTPException
from pathlib import Path

import numpy as np
import torch
from torch import nn

# The checksum is that of keras.datasets.mnist.
ADDRESS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
KEYS = {"train": ("x_train", "y_train"), "val": ("x_test", "y_test")}


def model(hidden=128, dropout=0.0):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, hidden),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.Tanh(),
        nn.Linear(hidden, 10),
    )


def train_data(items=60_000):
    return mnist("train", items)


def val_data(val_items=2_000):
    return mnist("val", val_items)


def mnist(part, items):
    """Return the first `items` images (items, 1, 28, 28) of about zero mean and unit variance, and labels (items,)."""
    path = downloaded("mnist", ADDRESS, SHA256)
    try:
        with np.load(path, allow_pickle=False) as data:
            images, labels = [data[key][:items] for key in KEYS[part]]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read ({error}). Delete it to download it again.") from error
    pixels = (images.astype(np.float32) / np.float32(255) - np.float32(0.1307)) / np.float32(0.3081)
    return torch.from_numpy(pixels).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


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


def optimizer(params, learning_rate=0.05, momentum=0.9):
    return torch.optim.SGD(params, lr=learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": accuracy}


def accuracy(output, target):
    """Return the share of targets that have the highest output."""
    return (output.argmax(dim=-1) == target).float().mean()
