"""A line through points, for the runs that are recorded: it trains in no time, or slowly where WAIT_S says so."""

import math
import os
import time

import torch
from torch import nn

WAIT_S = float(os.environ.get("WAIT_S", "0"))


class Points(torch.utils.data.Dataset):
    def __init__(self, items, shift):
        self.inputs = torch.tensor([[math.sin(i + shift), math.cos(2 * i + shift)] for i in range(items)])
        self.targets = self.inputs @ torch.tensor([[1.5], [-0.5]]) + 0.25

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        time.sleep(WAIT_S)
        return self.inputs[index], self.targets[index]


class Descent:
    """Plain gradient descent: an optimizer of torch's own would take longer to come up."""

    def __init__(self, params, rate):
        self.param_groups = [{"params": list(params), "lr": rate}]

    def zero_grad(self):
        for each in self.param_groups[0]["params"]:
            each.grad = None

    def step(self):
        with torch.no_grad():
            for each in (each for each in self.param_groups[0]["params"] if each.grad is not None):
                each.sub_(each.grad, alpha=self.param_groups[0]["lr"])

    def state_dict(self):
        return {"lr": self.param_groups[0]["lr"]}

    def load_state_dict(self, state):
        self.param_groups[0]["lr"] = state["lr"]


def model():
    line = nn.Linear(2, 1)
    nn.init.zeros_(line.weight)
    nn.init.zeros_(line.bias)
    return line


def train_data(items=32):
    return Points(items, 0.0)


def val_data(val_items=16):
    return Points(val_items, 0.5)


def loss():
    return nn.functional.mse_loss


def optimizer(params, learning_rate=0.1):
    return Descent(params, learning_rate)


def metrics():
    return {"distance": nn.functional.l1_loss}
