"""A GAN that learns to draw handwritten digits, with two optimizers (Goodfellow et al. 2014).

`optimizers(model)` returns one for the generator and one for the discriminator. In each step, `training_step` is called
once for each of them, by name. After each epoch, the run's folder `outputs` gets a picture of drawn digits.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import leaky_relu, pad, softplus

FILE = Path(__file__).resolve().parent.parent.parent / "data" / "digits.npz"


class Generator(nn.Module):
    """Turns noise (items, latent) into pictures (items, 64), from 0 for paper to 1 for ink."""

    def __init__(self, latent, hidden):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(latent, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 64)
        )

    def forward(self, noise):
        return self.layers(noise).sigmoid()


class Discriminator(nn.Module):
    """Says whether pictures (items, 64) are real: logits (items,)."""

    def __init__(self, hidden):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)

    def forward(self, pictures):
        seen = leaky_relu(self.first(pictures), 0.2)
        return self.last(leaky_relu(self.second(seen), 0.2)).squeeze(1)


def model(latent=16, hidden=128):
    return nn.ModuleDict({"generator": Generator(latent, hidden), "discriminator": Discriminator(hidden)})


def train_data(seed=0, latent=16):
    # The noise comes with the data, so that one device and several draw the same. Noise that is drawn in the step, by
    # torch.randn, never repeats, but each rank draws its own.
    pixels = ink(seed, "train")
    return {"pixels": pixels, "noise": noise(seed, len(pixels), latent)}


def val_data(seed=0, latent=16):
    pixels = ink(seed, "val")
    return {"pixels": pixels, "noise": noise(seed + 1, len(pixels), latent)}


def ink(seed, part):
    """Return images (items, 64) of digits, with 0 for paper and 1 for ink.

    Of each digit, a fifth of the images is for validation (`part` "val"), drawn with `seed`.
    """
    with np.load(FILE) as data:
        images, labels = data["images"], data["labels"]
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = []
    for digit in range(10):
        members = order[labels[order] == digit]
        cut = round(len(members) / 5)
        chosen.append(members[:cut] if part == "val" else members[cut:])
    index = np.sort(np.concatenate(chosen))
    return torch.from_numpy(images[index].astype(np.float32) / 16).flatten(1)


def noise(seed, items, latent):
    return torch.randn(items, latent, generator=torch.Generator().manual_seed(seed))


def optimizers(model, learning_rate=1e-3):
    return {name: torch.optim.Adam(part.parameters(), learning_rate, betas=(0.0, 0.99)) for name, part in model.items()}


def training_step(model, batch, optimizer, penalty=2.0):
    """Return the loss of the generator or that of the discriminator.

    `penalty` weighs the gradient at real pictures (R1, Mescheder et al. 2018). Without it, the generator soon draws one
    shape only.
    """
    drawn = model["generator"](batch["noise"])
    if optimizer == "generator":
        return softplus(-model["discriminator"](drawn)).mean()
    pixels = batch["pixels"].clone().requires_grad_()
    real = model["discriminator"](pixels)
    (slope,) = torch.autograd.grad(real.sum(), pixels, create_graph=True)
    measured = told_apart(real, model["discriminator"](drawn.detach()))
    return {**measured, "loss": measured["loss"] + penalty / 2 * slope.square().sum(dim=1).mean()}


def validation_step(model, batch):
    """Return the sum of both losses, as of the training, for digits that the discriminator has not seen.

    `told_apart` says how well it tells drawn ones from them: 0.5 is a guess.
    """
    drawn = model["discriminator"](model["generator"](batch["noise"]))
    measured = told_apart(model["discriminator"](batch["pixels"]), drawn)
    return {**measured, "loss": measured["loss"] + softplus(-drawn).mean()}


def told_apart(real, drawn):
    """Return the discriminator's loss for its logits of real and of drawn pictures, and the share that is right."""
    right = ((real > 0).float().mean() + (drawn < 0).float().mean()) / 2
    return {"loss": softplus(-real).mean() + softplus(drawn).mean(), "told_apart": right}


@torch.no_grad()
def on_epoch_end(model, metrics, folder, latent=16):
    """Save a picture of 64 drawn digits, always of the same noise, as a portable graymap."""
    device = next(model.parameters()).device
    drawn = model["generator"](noise(0, 64, latent).to(device)).cpu()
    framed = pad(1 - drawn.view(8, 8, 8, 8), (1, 1, 1, 1), value=1.0)  # 8 rows of 8 digits, each with a margin
    sheet = framed.permute(0, 2, 1, 3).reshape(80, 80).repeat_interleave(4, dim=0).repeat_interleave(4, dim=1)
    pixels = bytes((255 * sheet).round().byte().flatten().tolist())
    (folder / f"epoch-{int(metrics['epoch']):03}.pgm").write_bytes(b"P5 320 320 255\n" + pixels)
