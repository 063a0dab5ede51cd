"""A wide convolutional network on made images: so much to compute that exchanging gradients hardly counts."""

import torch
from torch import nn


def model(width=48, layers=3):
    first = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    further = [part for _ in range(layers - 1) for part in (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*first, *further, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def train_data(items=256, size=32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(items, 3, size, size, generator=generator), torch.randint(0, 10, (items,), generator=generator)


def optimizer(params, learning_rate=0.05):
    return torch.optim.SGD(params, lr=learning_rate, momentum=0.9)
