"""Ignite with a handler that prints, as its quick start has it."""

import json
import sys

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(64, 5)
data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
loader = DataLoader(data, batch_size=8)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
criterion = nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, torch.optim.Adam(model.parameters(), lr=0.01), criterion)
evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "nll": Loss(criterion)})
losses, validations = {}, {}


@trainer.on(Events.ITERATION_COMPLETED(every=2))
def log_loss(engine):
    losses[engine.state.iteration] = engine.state.output
    print(f"Epoch[{engine.state.epoch}], Iter[{engine.state.iteration}] Loss: {engine.state.output:.5f}")


@trainer.on(Events.EPOCH_COMPLETED)
def log_validation(engine):
    evaluator.run(loader)
    found = evaluator.state.metrics
    validations[engine.state.iteration] = found["nll"]
    print(
        f"Validation Results - Epoch[{engine.state.epoch}] Avg accuracy: {found['accuracy']:.2f} "
        f"Avg loss: {found['nll']:.5f}"
    )


trainer.run(loader, max_epochs=3)
with open(sys.argv[1], "w") as file:
    json.dump({"loss": losses, "val_loss": validations}, file)
