"""A pipeline of two stages with torch.distributed.pipelining (1F1B), one process per stage, started as by torchrun."""

import os
from types import SimpleNamespace

import torch
import torch.distributed as dist
from _script import Watch, arguments
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

MICRO_BATCHES = 4
CUT = 4  # the convolutions take about as long as the rest and the loss
NOT_AN_ITEM = -100  # as nn.CrossEntropyLoss has it

recipe, epochs, batch_size, rate = arguments()
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
inputs, targets = recipe.train_data()
val_inputs, val_targets = recipe.val_data()
metrics = recipe.metrics()

torch.manual_seed(0)
layers = list(recipe.model())
model = nn.Sequential(*(layers[:CUT] if rank == 0 else layers[CUT:]))
optimizer = recipe.optimizer(model.parameters(), learning_rate=rate)
summed = nn.CrossEntropyLoss(reduction="sum", ignore_index=NOT_AN_ITEM)
under_way = SimpleNamespace(items=batch_size)


def mean_of_batch(output, target):
    return summed(output, target) / under_way.items


def filled(index):
    """The pipeline's batches have one size: a smaller one is filled up."""
    return index[torch.arange(batch_size) % len(index)]


def filled_targets(target):
    return torch.cat([target, torch.full((batch_size - len(target),), NOT_AN_ITEM)])


stages = [PipelineStage(model, rank, ranks, torch.device("cpu")) for _ in range(2)]
training = Schedule1F1B(stages[0], MICRO_BATCHES, loss_fn=mean_of_batch, scale_grads=False)
validation = ScheduleGPipe(stages[1], MICRO_BATCHES)


def train(index):
    under_way.items = len(index)
    optimizer.zero_grad()
    if rank == 0:
        training.step(inputs[filled(index)])
    else:
        training.step(target=filled_targets(targets[index]), return_outputs=False)
    optimizer.step()


@torch.no_grad()
def validate():
    """The mean loss and the mean of each metric, on the last rank."""
    sums = torch.zeros(1 + len(metrics))
    model.eval()
    for index in torch.arange(len(val_inputs)).split(batch_size):
        if rank == 0:
            validation.step(val_inputs[filled(index)])
            continue
        output, target = validation.step()[: len(index)], val_targets[index]
        values = [nn.functional.cross_entropy(output, target), *(each(output, target) for each in metrics.values())]
        sums += len(index) * torch.stack(values)
    model.train()
    return sums / len(val_inputs)


watch = Watch()
for epoch in range(epochs):
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(epoch))
    for index in order.split(batch_size):
        train(index)
    means = validate()
    watch.epoch_done()
if rank == ranks - 1:
    watch.tell(means[0].item())
dist.destroy_process_group()
