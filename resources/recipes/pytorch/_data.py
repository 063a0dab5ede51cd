"""The data of this folder's recipes: the arrays that all frameworks share, as tensors."""

import numpy as np
import torch
from _shared import digits as _digits
from _shared import mnist as _mnist
from _shared import pairs as _pairs
from _shared import text as _text


def digits(seed, part):
    """Return images (items, 1, 8, 8) and labels (items,) of `part`, "train" or "val"."""
    return _images(*_digits.split(seed, part))


def ink(seed, part):
    """Return images (items, 64) of the digits of `part`, "train" or "val", with 0 for paper and 1 for ink."""
    images, _ = _digits.split(seed, part)
    pixels = (images * _digits.DEVIATION + _digits.MEAN) / 16
    return torch.from_numpy(pixels.astype(np.float32)).flatten(1).clamp(0, 1)


def mnist(part, items):
    """Return the first `items` images (items, 1, 28, 28) of handwritten digits, and labels (items,)."""
    return _images(*_mnist.load("mnist", part, items))


def fashion(part, items):
    """Return the first `items` images (items, 1, 28, 28) of clothes, and labels (items,)."""
    return _images(*_mnist.load("fashion-mnist", part, items))


def waves(seed, items, steps):
    """Return left and right waves (items, steps, 2), and labels (items,): which of the two swings faster."""
    return tuple(torch.from_numpy(each) for each in _pairs.waves(seed, items, steps))


def characters(text, part, context):
    """Return windows (items, context) of a text's characters, and the characters that come next."""
    return tuple(torch.from_numpy(each) for each in _text.windows(text, part, context))


def accuracy(output, target):
    """Return the share of targets that have the highest output."""
    return (output.argmax(dim=-1) == target).float().mean()


def _images(pixels, labels):
    return torch.from_numpy(pixels).unsqueeze(1), torch.from_numpy(labels)
