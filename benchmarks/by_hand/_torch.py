"""What the PyTorch scripts share: the validation at the end of an epoch."""

import torch
from torch import nn


@torch.no_grad()
def validate(recipe, model, batch_size, rank=0, ranks=1):
    """The mean loss and the mean of each metric over this rank's share of the validation data."""
    if not hasattr(recipe, "val_data"):
        return None
    if not hasattr(validate, "data"):
        validate.data = recipe.val_data()
    inputs, targets = validate.data
    loss_function, metrics = nn.CrossEntropyLoss(), recipe.metrics()
    sums, items = torch.zeros(1 + len(metrics)), 0
    model.eval()
    for whole in torch.arange(len(inputs)).split(batch_size):
        index = whole.tensor_split(ranks)[rank]
        output, target = model(inputs[index]), targets[index]
        values = [loss_function(output, target), *(metric(output, target) for metric in metrics.values())]
        sums += len(index) * torch.stack(values)
        items += len(index)
    model.train()
    return sums / items
