"""Prints nothing; writes for TensorBoard."""

from torch.utils.tensorboard import SummaryWriter

with SummaryWriter("runs/only") as writer:
    for step in range(30):
        writer.add_scalar("train/loss", 1 / (1 + step), step)
        writer.add_scalar("lr", 0.5, step, new_style=True)
        if step % 10 == 9:
            writer.add_scalar("val/loss", 2 / (1 + step), step)
    writer.add_scalars("accuracy", {"train": 0.5, "val": 0.25}, 29)
