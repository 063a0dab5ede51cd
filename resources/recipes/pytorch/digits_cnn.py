"""A small convolutional network that classifies handwritten digits of 8x8 pixels."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

FILE = Path(__file__).resolve().parent.parent.parent / "data" / "digits.npz"


def model(width=16, dropout=0.0):
    # Smooth activations only, as in LeNet: rounding errors stay small. With ReLU or max-pooling the last bit may
    # switch a unit, and the curves of one device and of two differ after some fifty steps.
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(width, 2 * width, 3, padding=1, stride=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 16, 64),
        nn.Tanh(),
        nn.Linear(64, 10),
    )


def train_data(seed=0):
    return digits(seed, "train")


def val_data(seed=0):
    return digits(seed, "val")


def digits(seed, part):
    """Return images (items, 1, 8, 8) of about zero mean and unit variance, and labels (items,).

    Of each digit, a fifth of the images is for validation (`part` "val"), drawn with `seed`.
    """
    with np.load(FILE) as data:
        images, labels = data["images"], data["labels"]
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = []
    for digit in range(10):
        members = order[labels[order] == digit]
        cut = round(len(members) / 5)
        chosen.append(members[:cut] if part == "val" else members[cut:])
    index = np.sort(np.concatenate(chosen))
    pixels = (images[index].astype(np.float32) - np.float32(4.88)) / np.float32(6.02)  # they are from 0 to 16
    return torch.from_numpy(pixels).unsqueeze(1), torch.from_numpy(labels[index].astype(np.int64))


def optimizer(params, learning_rate=0.05, momentum=0.9):
    return torch.optim.SGD(params, lr=learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": accuracy}


def accuracy(output, target):
    """Return the share of targets that have the highest output."""
    return (output.argmax(dim=-1) == target).float().mean()
