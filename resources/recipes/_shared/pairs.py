"""Synthetic data: pairs of noisy waves, and which of the two swings faster. One wave alone does not determine it."""

import numpy as np

PACES = (0.10, 0.16, 0.22)  # swings per step
CLASSES = 3  # the left one is slower, as fast, faster
FEATURES = 2


def pairs_of_waves(seed, items, steps):
    """Return left and right waves, each (items, steps, 2), float32, and labels (items,)."""
    random = np.random.default_rng(seed)
    pace = random.integers(0, len(PACES), (2, items))
    left, right = (_waves(random, np.take(PACES, each), steps) for each in pace)
    return left, right, np.sign(pace[0] - pace[1]) + 1


def _waves(random, pace, steps):
    """Return sine and cosine of one wave per item, with random phase and a little noise."""
    phase = 2 * np.pi * (pace[:, None] * np.arange(steps) + random.random((len(pace), 1)))
    clean = np.stack([np.sin(phase), np.cos(phase)], axis=-1)
    return (clean + random.normal(0, 0.2, clean.shape)).astype(np.float32)
