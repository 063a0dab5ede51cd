"""A LeNet-like convolutional network that classifies handwritten digits of 28x28 pixels (MNIST, downloaded once)."""

import torch
from _data import accuracy, mnist
from torch import nn


def model(width=8, dropout=0.0):
    return nn.Sequential(
        nn.Conv2d(1, width, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(width, 2 * width, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 25, 84),
        nn.Tanh(),
        nn.Linear(84, 10),
    )


def train_data(items=60_000):
    return mnist("train", items)


def val_data(val_items=2_000):
    return mnist("val", val_items)


def optimizer(params, learning_rate=0.05, momentum=0.9):
    return torch.optim.SGD(params, lr=learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": accuracy}
