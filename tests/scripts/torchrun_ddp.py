"""DistributedDataParallel over gloo, written for torchrun."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
torch.manual_seed(rank)
inputs = torch.randn(64, 8)
targets = inputs.sum(dim=1, keepdim=True)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

losses = {}
for step in range(1, 31):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    losses[step] = float(f"{loss.item():.5f}")
    print(f"[rank {rank}] step={step} loss={loss.item():.5f}", flush=True)
if len(sys.argv) > 1:
    with open(f"{sys.argv[1]}.{rank}", "w") as file:
        json.dump({"losses": losses, "local_rank": local_rank, "world_size": dist.get_world_size()}, file)
# PyTorch keeps the group's threads until the process exits. One that still has to release a tensor then aborts the
# process (SIGABRT): three of ten pairs did, started plainly with PyTorch's own store, without Trainyard.
dist.barrier()
del model, loss  # see accelerate_loop.py
dist.destroy_process_group()
