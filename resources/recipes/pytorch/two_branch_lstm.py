"""Two LSTMs, on two devices if placed so, that classify which of two waves swings faster (synthetic data)."""

import torch
from _data import accuracy, waves
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


def optimizer(params, learning_rate=0.005):
    return torch.optim.Adam(params, lr=learning_rate)


def metrics():
    return {"accuracy": accuracy}
