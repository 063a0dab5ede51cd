"""Prints nothing; writes for TensorBoard."""

from torch.utils.tensorboard import SummaryWriter

with SummaryWriter("runs/only") as writer:
    for step in range(30):
        writer.add_scalar("train/loss", 1 / (1 + step), step)
        if step % 10 == 9:
            writer.add_scalar("val/loss", 2 / (1 + step), step)
