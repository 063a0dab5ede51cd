"""A small GPT that predicts the next character of a text (any text file; one is included)."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FILE = Path(__file__).resolve().parent.parent.parent / "data" / "founding.txt"


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
    characters = coded(text)[0]
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
    return windows(text, "train", context)


def val_data(text="", context=64):
    return windows(text, "val", context)


def windows(text, part, context):
    """Return windows (items, context) of the characters of a text, as numbers, and the characters that come next.

    The last tenth of the text is for validation (`part` "val").
    """
    codes = coded(text)[1]
    cut = round(len(codes) * 0.9)
    codes = codes[cut:] if part == "val" else codes[:cut]
    items = (len(codes) - 1) // context
    if items < 1:
        raise ValueError(f"The text {text or FILE} is too short for a context of {context}. Use a longer text.")
    inputs, following = codes[: items * context], codes[1 : items * context + 1]
    return tuple(torch.from_numpy(each.reshape(items, context)) for each in (inputs, following))


@cache
def coded(text):
    """Return how many different characters a text file has, and its characters as numbers; "" is the included text."""
    path = Path(text).expanduser() if text else FILE
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OSError(f"The text {path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"The text {path} is not in UTF-8. Save it in that encoding.") from error
    kinds, codes = np.unique(np.frombuffer(content.encode("utf-32-le"), "<u4"), return_inverse=True)
    return len(kinds), codes.astype(np.int64)


def loss():
    # Every position of every window predicts the next character.
    return lambda output, target: functional.cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(params, learning_rate=0.003):
    return torch.optim.Adam(params, lr=learning_rate)


def metrics():
    return {"accuracy": accuracy}


def accuracy(output, target):
    """Return the share of targets that have the highest output."""
    return (output.argmax(dim=-1) == target).float().mean()
