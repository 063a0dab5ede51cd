"""The handwritten digits that come with Trainyard, split into training and validation data."""

from pathlib import Path

import numpy as np

FILE = Path(__file__).resolve().parents[2] / "data" / "digits.npz"
MEAN, DEVIATION = 4.88, 6.02  # of all pixels, which are whole numbers from 0 to 16


def split_digits(seed, part, validation_share=0.2):
    """Return images (items, 8, 8), float32, and labels (items,) of `part`, "train" or "val".

    Pixels have about zero mean and unit variance. The split is stratified: each digit is shuffled by `seed` and cut at
    the same share.
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
    pixels = (images[index].astype(np.float32) - np.float32(MEAN)) / np.float32(DEVIATION)
    return pixels, labels[index].astype(np.int64)
