"""A fully connected network that classifies handwritten digits of 8x8 pixels."""

import torch
from _data import accuracy, digits
from torch import nn


def model(hidden=64, dropout=0.0):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, hidden),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.Tanh(),
        nn.Linear(hidden, 10),
    )


def train_data(seed=0):
    return digits(seed, "train")


def val_data(seed=0):
    return digits(seed, "val")


def optimizer(params, learning_rate=0.05, momentum=0.9):
    return torch.optim.SGD(params, lr=learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": accuracy}
