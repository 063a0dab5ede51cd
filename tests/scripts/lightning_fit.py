"""A Lightning module under its Trainer, with its CSV logger and its progress bar."""

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Linear(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, _):
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.layer(inputs), targets)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        inputs, targets = batch
        self.log("val_loss", nn.functional.mse_loss(self.layer(inputs), targets), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


lightning.seed_everything(0)
data = torch.randn(160, 8)
loader = DataLoader(TensorDataset(data, data.sum(dim=1, keepdim=True)), batch_size=16)
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", devices=1, log_every_n_steps=1, logger=CSVLogger("logs"),
    enable_checkpointing=False, enable_model_summary=False,
)
trainer.fit(Linear(), loader, loader)
