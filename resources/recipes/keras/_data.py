"""The data of this folder's recipes: the arrays that all frameworks share, channels last."""

from _shared import digits as _digits
from _shared import mnist as _mnist


def digits(seed, part):
    """Return images (items, 8, 8, 1) and labels (items,) of `part`, "train" or "val"."""
    return _images(*_digits.split(seed, part))


def mnist(part, items):
    """Return the first `items` images (items, 28, 28, 1) of handwritten digits, and labels (items,)."""
    return _images(*_mnist.load("mnist", part, items))


def fashion(part, items):
    """Return the first `items` images (items, 28, 28, 1) of clothes, and labels (items,)."""
    return _images(*_mnist.load("fashion-mnist", part, items))


def _images(pixels, labels):
    return pixels[..., None], labels
