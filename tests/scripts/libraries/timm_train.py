"""A model of timm in a loop of one's own, with timm's averages and its line."""

import json
import sys

import timm
import torch
from timm.optim import create_optimizer_v2
from timm.utils import AverageMeter
from torch import nn

torch.manual_seed(0)
model = timm.create_model("resnet10t", num_classes=2, in_chans=1)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
images, labels = torch.randn(8, 1, 32, 32), torch.randint(0, 2, (8,))
losses = {}
for epoch in range(2):
    mean = AverageMeter()
    for update in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        mean.update(loss.item(), len(images))
        losses[epoch * 4 + update] = loss.item()
        print(
            f"Train: {epoch} [{update:>4d}/4 ({100 * (update + 1) / 4:>3.0f}%)]  "
            f"Loss: {mean.val:#.3g} ({mean.avg:#.3g})  Time: 0.101s (0.101s)  LR: 1.000e-03  Data: 0.001 (0.001)"
        )
with open(sys.argv[1], "w") as file:
    json.dump({"loss": losses}, file)
