"""A small GPT that predicts the next character of a text (any text file; one is included)."""

import torch
from _data import accuracy, characters
from _shared.text import vocabulary
from torch import nn
from torch.nn import functional


class Embedding(nn.Module):
    """The embedding of each character plus that of its position."""

    def __init__(self, characters, width, context):
        super().__init__()
        self.character = nn.Embedding(characters, width)
        self.position = nn.Embedding(context, width)
        for table in (self.character, self.position):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, codes):
        return self.character(codes) + self.position.weight[: codes.shape[1]]


class Attention(nn.Module):
    """Causal self-attention: each character attends to itself and to earlier ones."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.look = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width, bias=False)

    def forward(self, inputs):
        items, context, width = inputs.shape
        query, key, value = self.look(inputs).view(items, context, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.join(seen.transpose(1, 2).reshape(items, context, width))


class Block(nn.Module):
    """Attention, then a small network per character, each with a residual connection."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(width), Attention(width, heads), nn.Dropout(dropout))
        self.think = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, inputs):
        seen = inputs + self.attend(inputs)
        return seen + self.think(seen)


def model(*, text="", layers=2, heads=4, width=64, context=64, dropout=0.0):
    characters = vocabulary(text)
    return nn.Sequential(
        Embedding(characters, width, context),
        *(Block(width, heads, dropout) for _ in range(layers)),
        nn.Sequential(nn.LayerNorm(width), nn.Linear(width, characters)),
    )


def stages(*, text="", layers=2, heads=4, width=64, context=64, dropout=0.0):
    """Return the model's parts in order. Slices keep the parameters' names: "1.think.1.weight" is in the second."""
    whole = model(text=text, layers=layers, heads=heads, width=width, context=context, dropout=dropout)
    return [whole[each : each + 1] for each in range(len(whole))]


def train_data(text="", context=64):
    return characters(text, "train", context)


def val_data(text="", context=64):
    return characters(text, "val", context)


def loss():
    # Every position of every window predicts the next character.
    return lambda output, target: functional.cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(params, learning_rate=0.003):
    return torch.optim.Adam(params, lr=learning_rate)


def metrics():
    return {"accuracy": accuracy}
