"""The data of this folder's recipes: the arrays that all frameworks share, channels last."""

from _shared.digits import split_digits
from _shared.mnist import load_images


def digits(seed, part):
    """Return images (items, 8, 8, 1) and labels (items,) of `part`, "train" or "val"."""
    return _images(*split_digits(seed, part))


def mnist(part, items):
    """Return the first `items` images (items, 28, 28, 1) of handwritten digits, and labels (items,)."""
    return _images(*load_images("mnist", part, items))


def fashion(part, items):
    """Return the first `items` images (items, 28, 28, 1) of clothes, and labels (items,)."""
    return _images(*load_images("fashion-mnist", part, items))


def _images(pixels, labels):
    return pixels[..., None], labels
