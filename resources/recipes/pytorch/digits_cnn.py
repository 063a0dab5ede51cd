"""A small convolutional network that classifies handwritten digits of 8x8 pixels."""

import torch
from _data import accuracy, digits
from torch import nn


def model(width=16, dropout=0.0):
    # Smooth activations only, as in LeNet: rounding errors stay small. With ReLU or max-pooling the last bit may
    # switch a unit, and the curves of one device and of two differ after some fifty steps.
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(width, 2 * width, 3, padding=1, stride=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 16, 64),
        nn.Tanh(),
        nn.Linear(64, 10),
    )


def train_data(seed=0):
    return digits(seed, "train")


def val_data(seed=0):
    return digits(seed, "val")


def optimizer(params, learning_rate=0.05, momentum=0.9):
    return torch.optim.SGD(params, lr=learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": accuracy}
