"""A linear model on made data: so little work a step that every microsecond of overhead shows."""

import torch
from torch import nn


def model():
    return nn.Linear(20, 2)


def train_data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(32_000, 20, generator=generator), torch.randint(0, 2, (32_000,), generator=generator)


def optimizer(params, learning_rate=0.05):
    return torch.optim.SGD(params, lr=learning_rate, momentum=0.9)
