"""A convolutional network that classifies ten kinds of clothes (Fashion-MNIST, 28x28 pixels, downloaded once)."""

import torch
from _data import accuracy, fashion
from torch import nn


def model(width=16, dropout=0.0):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Conv2d(2 * width, 4 * width, 3),
        nn.GELU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(4 * width * 25, 64),
        nn.GELU(),
        nn.Linear(64, 10),
    )


def train_data(items=60_000):
    return fashion("train", items)


def val_data(val_items=2_000):
    return fashion("val", val_items)


def optimizer(params, learning_rate=0.001):
    return torch.optim.Adam(params, lr=learning_rate)


def metrics():
    return {"accuracy": accuracy}
