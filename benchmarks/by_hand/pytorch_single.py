"""PyTorch on one device."""

import torch
from _script import Watch, arguments
from _torch import validate
from torch import nn

recipe, epochs, batch_size, rate = arguments()
inputs, targets = recipe.train_data()
torch.manual_seed(0)
model = recipe.model()
optimizer = recipe.optimizer(model.parameters(), learning_rate=rate)
loss_function = nn.CrossEntropyLoss()

watch = Watch()
for epoch in range(epochs):
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(epoch))
    for index in order.split(batch_size):
        optimizer.zero_grad()
        loss = loss_function(model(inputs[index]), targets[index])
        loss.backward()
        optimizer.step()
    means = validate(recipe, model, batch_size)
    watch.epoch_done()
watch.tell(None if means is None else means[0].item())
