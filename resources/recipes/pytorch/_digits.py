"""The handwritten digits that ship with Trainyard, split in training and validation data."""

from pathlib import Path

import numpy as np
import torch

FILE = Path(__file__).resolve().parents[2] / "data" / "digits.npz"
MEAN, DEVIATION = 4.88, 6.02  # of all pixels, which are whole numbers from 0 to 16


def split(seed: int, part: str, validation_share: float = 0.2) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (items, 1, 8, 8), about zero mean and unit variance, and labels (items,) of `part`, "train" or "val".

    Stratified: each digit is shuffled by `seed` and cut at the same share.
    """
    with np.load(FILE) as data:
        images, labels = data["images"], data["labels"]
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = []
    for digit in range(10):
        members = order[labels[order] == digit]
        cut = round(len(members) * validation_share)
        chosen.append(members[:cut] if part == "val" else members[cut:])
    index = np.sort(np.concatenate(chosen))
    pixels = torch.from_numpy(images[index]).float().unsqueeze(1)
    return (pixels - MEAN) / DEVIATION, torch.from_numpy(labels[index]).long()


def accuracy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The share of items whose highest output is their digit."""
    return (output.argmax(dim=1) == target).float().mean()
