"""Two LSTMs, on two devices if placed so, that classify which of two waves swings faster (synthetic data)."""

import numpy as np
import torch
from torch import nn


class TwoBranches(nn.Module):
    """An encoder for each wave, and layers that combine their outputs."""

    def __init__(self, hidden):
        super().__init__()
        self.left = nn.LSTM(2, hidden, batch_first=True)
        self.right = nn.LSTM(2, hidden, batch_first=True)
        self.join = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, 3))

    def forward(self, left, right):
        return self.join(torch.cat([self.left(left)[0][:, -1], self.right(right)[0][:, -1]], dim=1))


class PlacedBranches(TwoBranches):
    """The encoders on two devices, combined on the first."""

    def __init__(self, hidden, first, second):
        super().__init__(hidden)  # draws the weights on the CPU: the same ones for any placement
        self.first, self.second = first, second
        self.left.to(first)
        self.right.to(second)
        self.join.to(first)

    def forward(self, left, right):
        # Start the second device first, so that both compute at the same time.
        ended_right = self.right(right.to(self.second))[0][:, -1]
        ended_left = self.left(left.to(self.first))[0][:, -1]
        return self.join(torch.cat([ended_left, ended_right.to(self.first)], dim=1))


def model(hidden=32):
    return TwoBranches(hidden)


def placed_model(devices, hidden=32):
    return PlacedBranches(hidden, devices[0], devices[-1])


def train_data(items=2_000, steps=24):
    return waves(1, items, steps)


def val_data(val_items=500, steps=24):
    return waves(2, val_items, steps)


def waves(seed, items, steps):
    """Return left and right waves (items, steps, 2), and labels (items,): the left one swings slower, as fast, faster.

    A wave is a noisy sine and cosine with a random phase. One wave alone does not determine the label.
    """
    random = np.random.default_rng(seed)
    pace = random.integers(0, 3, (2, items))
    pair = []
    for swings in np.take([0.10, 0.16, 0.22], pace):  # per step
        phase = 2 * np.pi * (swings[:, None] * np.arange(steps) + random.random((items, 1)))
        clean = np.stack([np.sin(phase), np.cos(phase)], axis=-1)
        pair.append((clean + random.normal(0, 0.2, clean.shape)).astype(np.float32))
    return tuple(torch.from_numpy(each) for each in (*pair, np.sign(pace[0] - pace[1]) + 1))


def optimizer(params, learning_rate=0.005):
    return torch.optim.Adam(params, lr=learning_rate)


def metrics():
    return {"accuracy": accuracy}


def accuracy(output, target):
    """Return the share of targets that have the highest output."""
    return (output.argmax(dim=-1) == target).float().mean()
