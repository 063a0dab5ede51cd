"""The data of this folder's recipes: the arrays that all frameworks share, as tensors."""

import numpy as np
import torch
from _shared.digits import DEVIATION, MEAN, split_digits
from _shared.mnist import load_images
from _shared.pairs import pairs_of_waves
from _shared.text import windows


def digits(seed, part):
    """Return images (items, 1, 8, 8) and labels (items,) of `part`, "train" or "val"."""
    return _images(*split_digits(seed, part))


def ink(seed, part):
    """Return images (items, 64) of the digits of `part`, "train" or "val", with 0 for paper and 1 for ink."""
    images, _ = split_digits(seed, part)
    pixels = (images * DEVIATION + MEAN) / 16
    return torch.from_numpy(pixels.astype(np.float32)).flatten(1).clamp(0, 1)


def mnist(part, items):
    """Return the first `items` images (items, 1, 28, 28) of handwritten digits, and labels (items,)."""
    return _images(*load_images("mnist", part, items))


def fashion(part, items):
    """Return the first `items` images (items, 1, 28, 28) of clothes, and labels (items,)."""
    return _images(*load_images("fashion-mnist", part, items))


def waves(seed, items, steps):
    """Return left and right waves (items, steps, 2), and labels (items,): which of the two swings faster."""
    return tuple(torch.from_numpy(each) for each in pairs_of_waves(seed, items, steps))


def characters(text, part, context):
    """Return windows (items, context) of a text's characters, and the characters that come next."""
    return tuple(torch.from_numpy(each) for each in windows(text, part, context))


def accuracy(output, target):
    """Return the share of targets that have the highest output."""
    return (output.argmax(dim=-1) == target).float().mean()


def _images(pixels, labels):
    return torch.from_numpy(pixels).unsqueeze(1), torch.from_numpy(labels)
