"""PyTorch with the first half of the model on one device and the second half on another, in one process."""

import torch
from _script import Watch, arguments
from _torch import validate
from torch import nn

CUT = 4  # the convolutions on one device, the rest on the other

recipe, epochs, batch_size, rate = arguments()


class Halves(nn.Module):
    """A row of layers on two devices."""

    def __init__(self, layers):
        super().__init__()
        self.devices = [torch.device("cpu", 0), torch.device("cpu", 1)]
        self.first = nn.Sequential(*layers[:CUT]).to(self.devices[0])
        self.second = nn.Sequential(*layers[CUT:]).to(self.devices[1])

    def forward(self, inputs):
        between = self.first(inputs.to(self.devices[0]))
        return self.second(between.to(self.devices[1]))


inputs, targets = recipe.train_data()
torch.manual_seed(0)
model = Halves(list(recipe.model()))
optimizer = recipe.optimizer(model.parameters(), learning_rate=rate)
loss_function = nn.CrossEntropyLoss()

watch = Watch()
for epoch in range(epochs):
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(epoch))
    for index in order.split(batch_size):
        optimizer.zero_grad()
        output = model(inputs[index])
        loss = loss_function(output, targets[index].to(output.device))
        loss.backward()
        optimizer.step()
    means = validate(recipe, model, batch_size)
    watch.epoch_done()
watch.tell(means[0].item())
