"""What the recipes of this folder train on: the arrays that all frameworks share, channels last."""

from _shared import digits as _digits
from _shared import mnist as _mnist


def digits(seed, part):
    """Images (items, 8, 8, 1) and labels (items,) of `part`, "train" or "val"."""
    return _images(*_digits.split(seed, part))


def mnist(part, items):
    """The first so many images (items, 28, 28, 1) of handwritten digits, and labels (items,)."""
    return _images(*_mnist.load("mnist", part, items))


def fashion(part, items):
    """The first so many images (items, 28, 28, 1) of clothes, and labels (items,)."""
    return _images(*_mnist.load("fashion-mnist", part, items))


def _images(pixels, labels):
    return pixels[..., None], labels
