"""A variational autoencoder of handwritten digits: reconstruction plus KL divergence (Kingma and Welling 2014)."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

FILE = Path(__file__).resolve().parent.parent.parent / "data" / "digits.npz"


class Autoencoder(nn.Module):
    """`noise`: of the latent variables in training; 1 for a variational autoencoder, 0 for a plain one."""

    def __init__(self, hidden, latent, noise):
        super().__init__()
        self.noise = noise
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 64))

    def forward(self, pixels):
        mean, log_variance = self.encoder(pixels).chunk(2, dim=1)
        # Each rank draws noise of its own, so the curves of one device and of several agree on average only.
        drawn = self.noise * torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        return self.decoder(mean + drawn * (log_variance / 2).exp()), mean, log_variance


def model(hidden=128, latent=8, noise=1.0):
    return Autoencoder(hidden, latent, noise)


def train_data(seed=0):
    return {"pixels": ink(seed, "train")}


def val_data(seed=0):
    return {"pixels": ink(seed, "val")}


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


def training_step(model, batch, beta=1.0):
    """Return the loss and its two parts, in nats per image. `beta` weighs the second (beta-VAE)."""
    pixels = batch["pixels"]
    logits, mean, log_variance = model(pixels)
    reconstruction = binary_cross_entropy_with_logits(logits, pixels, reduction="sum") / len(pixels)
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum() / len(pixels)
    return {"loss": reconstruction + beta * divergence, "reconstruction": reconstruction, "divergence": divergence}


def optimizer(params, learning_rate=1e-3):
    return torch.optim.Adam(params, lr=learning_rate)
