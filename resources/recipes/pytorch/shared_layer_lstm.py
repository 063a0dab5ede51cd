"""Two LSTM branches on two devices that share one layer and are joined on the CPU (synthetic data).

Strategy placement calls `placed_model(devices)`. All other strategies call `model()`, which is the same model on one
device. Both have the same curve.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import linear


class SharedBranches(nn.Module):
    """A layer that both waves go through, an LSTM for each wave, and layers that join the two results."""

    def __init__(self, hidden):
        super().__init__()
        self.shared = nn.Linear(2, hidden)
        self.left = nn.LSTM(hidden, hidden, batch_first=True)
        self.right = nn.LSTM(hidden, hidden, batch_first=True)
        self.join = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, 3))

    def forward(self, left, right):
        return self.join(torch.cat([self.encode(left, self.left), self.encode(right, self.right)], dim=1))

    def encode(self, wave, branch):
        """Return the last output of a branch, (items, hidden)."""
        return branch(self.embed(wave))[0][:, -1]

    def embed(self, wave):
        return torch.tanh(self.shared(wave))


class PlacedBranches(SharedBranches):
    """A branch on each of two devices. The shared layer and the join are on the CPU."""

    def __init__(self, hidden, first, second):
        super().__init__(hidden)  # draws the weights on the CPU, so that they are the same for any placement
        self.places = {self.left: first, self.right: second}
        for branch, device in self.places.items():
            branch.to(device)

    def forward(self, left, right):
        # GPUs compute in the background, so the second branch starts while the first is still computing.
        ended = [self.encode(left, self.left), self.encode(right, self.right)]
        return self.join(torch.cat([each.to("cpu") for each in ended], dim=1))

    def encode(self, wave, branch):
        return super().encode(wave.to(self.places[branch]), branch)

    def embed(self, wave):
        # Each device computes with a copy of the shared weights. The gradients of the copies add up on the CPU.
        return torch.tanh(linear(wave, self.shared.weight.to(wave.device), self.shared.bias.to(wave.device)))


def model(hidden=32):
    return SharedBranches(hidden)


def placed_model(devices, hidden=32):
    return PlacedBranches(hidden, devices[0], devices[-1])


def train_data(items=2_000, steps=24):
    # The inputs come first, the target last: model(left, right) is compared with the labels.
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
