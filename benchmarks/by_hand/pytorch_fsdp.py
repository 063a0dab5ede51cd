"""PyTorch's FSDP2 (fully_shard), one process per device, started as by torchrun."""

import os

import torch
import torch.distributed as dist
from _script import Watch, arguments
from _torch import validate
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

recipe, epochs, batch_size, rate = arguments()
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
inputs, targets = recipe.train_data()
torch.manual_seed(0)
model = recipe.model()
fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
optimizer = recipe.optimizer(model.parameters(), learning_rate=rate)
loss_function = nn.CrossEntropyLoss()

watch = Watch()
for epoch in range(epochs):
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(epoch))
    for whole in order.split(batch_size):
        index = whole.tensor_split(ranks)[rank]
        optimizer.zero_grad()
        loss = loss_function(model(inputs[index]), targets[index])
        loss.backward()
        optimizer.step()
    means = validate(recipe, model, batch_size, rank, ranks)
    dist.all_reduce(means)
    watch.epoch_done()
if rank == 0:
    watch.tell(means[0].item() / ranks)
dist.destroy_process_group()
