"""A forecast of a time series that is read as a stream (made hourly values with a daily and a weekly cycle).

`train_data()` returns an `IterableDataset`. Every rank and every data-loader worker reads the whole stream, and keeps
its part. `set_epoch(epoch)` is called before each epoch, so that each has values of its own. The length is known here;
a stream without `__len__` needs `--steps-per-epoch N`.
"""

import math

import torch
from torch import nn
from torch.utils.data import IterableDataset

DAY, WEEK = 24, 168  # hours


class Readings(IterableDataset):
    """Windows of a series: `past` values, and the `ahead` values after them. Each window begins where one ended."""

    def __init__(self, items, past, ahead, seed):
        self.items, self.past, self.ahead, self.seed = items, past, ahead, seed
        self.epoch = 0

    def __len__(self):
        return self.items

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        # The numbers depend on the seed and the epoch only. All ranks must read the same stream.
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        start, state = int(torch.randint(WEEK, (), generator=random)), 0.0
        size = self.past + self.ahead
        for item in range(self.items):
            values = []
            for hour, noise in enumerate(torch.randn(size, generator=random).tolist(), start=start + item * size):
                state = 0.8 * state + 0.1 * noise  # what lasts for some hours, such as the weather
                weekly = 1 + 0.5 * math.sin(2 * math.pi * hour / WEEK)
                values.append(weekly * math.sin(2 * math.pi * hour / DAY) + state)
            yield torch.tensor(values[: self.past]), torch.tensor(values[self.past :])


class Forecaster(nn.Module):
    """A GRU that reads the past, and a linear layer that writes all values ahead at once."""

    def __init__(self, hidden, ahead):
        super().__init__()
        self.reader = nn.GRU(1, hidden, batch_first=True)
        self.writer = nn.Linear(hidden, ahead)

    def forward(self, past):
        return self.writer(self.reader(past.unsqueeze(-1))[0][:, -1])


def model(hidden=32, ahead=6):
    return Forecaster(hidden, ahead)


def train_data(items=1_000, past=48, ahead=6, seed=0):
    return Readings(items, past, ahead, seed)


def val_data(val_items=200, past=48, ahead=6, seed=0):
    return Readings(val_items, past, ahead, seed + 1)


def loss():
    return nn.functional.mse_loss


def metrics():
    return {"mean_absolute_error": nn.functional.l1_loss}


def optimizer(params, learning_rate=5e-3):
    return torch.optim.Adam(params, lr=learning_rate)
