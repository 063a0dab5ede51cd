"""A recipe whose loss raises in its sixth step: a run of it fails."""

import time

import torch
from torch import nn


def model():
    return nn.Linear(2, 1)


def train_data(items=32):
    return torch.ones(items, 2), torch.ones(items, 1)


def loss():
    calls = []

    def function(output, target):
        calls.append(1)
        time.sleep(0.3)  # so that the steps before are reported
        if len(calls) == 6:
            raise ValueError("the sixth step is one too many")
        return nn.functional.mse_loss(output, target)

    return function
