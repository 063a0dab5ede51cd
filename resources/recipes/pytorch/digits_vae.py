"""A variational autoencoder of handwritten digits: reconstruction plus KL divergence (Kingma and Welling 2014)."""

import torch
from _data import ink
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits


class Autoencoder(nn.Module):
    def __init__(self, hidden, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 64))

    def forward(self, pixels):
        mean, log_variance = self.encoder(pixels).chunk(2, dim=1)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        return self.decoder(mean + noise * (log_variance / 2).exp()), mean, log_variance


def model(hidden=128, latent=8):
    return Autoencoder(hidden, latent)


def train_data(seed=0):
    return {"pixels": ink(seed, "train")}


def val_data(seed=0):
    return {"pixels": ink(seed, "val")}


def training_step(model, batch, beta=1.0):
    """Return the loss and its two parts, in nats per image. `beta` weighs the second (beta-VAE)."""
    pixels = batch["pixels"]
    logits, mean, log_variance = model(pixels)
    reconstruction = binary_cross_entropy_with_logits(logits, pixels, reduction="sum") / len(pixels)
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum() / len(pixels)
    return {"loss": reconstruction + beta * divergence, "reconstruction": reconstruction, "divergence": divergence}


def optimizer(params, learning_rate=1e-3):
    return torch.optim.Adam(params, lr=learning_rate)
