"""A loop under Accelerate; the main process tells."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
data = torch.randn(128, 8)
loader = DataLoader(TensorDataset(data, data.sum(dim=1, keepdim=True)), batch_size=16)
model = nn.Linear(8, 1)
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05), loader)
step = 0
for epoch in range(2):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        step += 1
        accelerator.print(f"epoch {epoch} | step {step} | train_loss: {loss.item():.5f}")
# A thread of a process group that still lives may abort the process at its exit. The model holds the group as well.
del loss, inputs, targets
model, optimizer, loader = accelerator.free_memory(model, optimizer, loader)
accelerator.end_training()
