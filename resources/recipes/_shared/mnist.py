"""MNIST and Fashion-MNIST: 70 000 images of 28x28 pixels in ten classes, downloaded once into the cache folder."""

import gzip
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np

from .fetch import fetch, folder

MAGIC = b"\x00\x00\x08"  # the beginning of an IDX file of bytes; the number of dimensions follows
PREFIX = {"train": "train", "val": "t10k"}
KEYS = {"train": ("x_train", "y_train"), "val": ("x_test", "y_test")}


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and the mean and deviation of its pixels from 0 to 1."""

    address: str
    sha256: dict
    mean: float
    deviation: float


# The checksums are those of keras.datasets.mnist and of tensorflow_datasets' fashion_mnist.
SOURCES = {
    "mnist": Source(
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        {"mnist.npz": "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"},
        mean=0.1307,
        deviation=0.3081,
    ),
    "fashion-mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
        mean=0.2860,
        deviation=0.3530,
    ),
}


def load_images(name, part, items):
    """Return the first `items` images (items, 28, 28), float32 of about zero mean and unit variance, and their labels.

    `name` is "mnist" or "fashion-mnist", `part` is "train" or "val" (the original test images). The cache folder may
    have either data set in either format: one .npz file as Keras has it, or four IDX files, compressed or not.
    Raises `OSError` if a file is missing and cannot be downloaded, `ValueError` if it is damaged.
    """
    source = SOURCES[name]
    images, labels = _arrays(name, source, part)
    pixels = images[:items].astype(np.float32) / np.float32(255)
    pixels = (pixels - np.float32(source.mean)) / np.float32(source.deviation)
    return pixels, labels[:items].astype(np.int64)


def _arrays(name, source, part):
    """Return images and labels from the files in the cache folder, or else from downloaded ones."""
    where = folder(name)
    packed = where / f"{name}.npz"
    stems = [f"{PREFIX[part]}-{each}-ubyte" for each in ("images-idx3", "labels-idx1")]
    if packed.exists():
        return _npz(packed, part)
    if packed.name in source.sha256 and not all(_present(where, stem) for stem in stems):
        return _npz(_fetched(where, source, packed.name), part)
    return [_idx(_present(where, stem) or _fetched(where, source, f"{stem}.gz")) for stem in stems]


def _present(where, stem):
    """Return the IDX file in the folder, compressed or not, or None."""
    return next((path for path in (where / stem, where / f"{stem}.gz") if path.exists()), None)


def _fetched(where, source, file):
    return fetch(where / file, source.address + file, source.sha256[file])


def _npz(path, part):
    try:
        with np.load(path, allow_pickle=False) as data:
            return [data[key] for key in KEYS[part]]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path, error) from error


def _idx(path):
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return _from_idx(content)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise _damaged(path, error) from error


def _from_idx(content):
    """Return the array of an IDX file: a magic number, the sizes of the dimensions, then the bytes."""
    if not content.startswith(MAGIC) or len(content) < 4:
        raise ValueError("it is not an IDX file of bytes")
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _damaged(path, error):
    return ValueError(f"{path} cannot be read ({error}). Delete it to download it again.")
