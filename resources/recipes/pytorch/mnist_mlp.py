"""A fully connected network that classifies handwritten digits of 28x28 pixels (MNIST, downloaded once)."""

import torch
from _data import accuracy, mnist
from torch import nn


def model(hidden=128, dropout=0.0):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, hidden),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.Tanh(),
        nn.Linear(hidden, 10),
    )


def train_data(items=60_000):
    return mnist("train", items)


def val_data(val_items=2_000):
    return mnist("val", val_items)


def optimizer(params, learning_rate=0.05, momentum=0.9):
    return torch.optim.SGD(params, lr=learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": accuracy}
