"""A small GPT, fine-tuned with low-rank adapters (LoRA, Hu et al. 2021) while its own weights stay frozen.

Fine-tuning needs a model that was trained before. There are two ways to get one:

- `base` is the path of the weights of a `char_transformer` run, which `trainyard export RUN --model FOLDER` writes as
  FOLDER/model.pt. It must be of the same text and of the same size.
- Without it, `model()` itself trains the base on the first half of the text, for `base_steps` steps. This takes a few
  seconds at each start and is not drawn.

The adapters learn the second half of the text.
"""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention

FILE = Path(__file__).resolve().parent.parent.parent / "data" / "founding.txt"


class Adapted(nn.Module):
    """A frozen linear layer plus the product of two small matrices, which are trained."""

    def __init__(self, layer, rank, alpha):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))  # zero: training begins at the base's output
        self.scale = alpha / rank

    def forward(self, inputs):
        return self.layer(inputs) + self.scale * linear(linear(inputs, self.down), self.up)


def adapt(gpt, rank, alpha):
    """Freeze a model and give each linear layer inside its blocks an adapter."""
    gpt.requires_grad_(False)
    for block in gpt[1:-1]:
        for parent in list(block.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(parent, name, Adapted(child, rank, alpha))
    return gpt


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
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
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


def model(*, text="", base="", base_steps=200, rank=4, alpha=8.0, layers=2, heads=4, width=64, context=64):
    kinds = coded(text)[0]
    gpt = nn.Sequential(
        Embedding(kinds, width, context),
        *(Block(width, heads, 0.0) for _ in range(layers)),
        nn.Sequential(nn.LayerNorm(width), nn.Linear(width, kinds)),
    )
    if base:
        gpt.load_state_dict(weights(base))
    else:
        train_base(gpt, text, context, base_steps)
    return adapt(gpt, rank, alpha)


def weights(base):
    """Return the weights in a file that `trainyard export` wrote."""
    file = Path(base).expanduser()
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {file} with the weights of the base. Check the setting base.")
    return torch.load(file, map_location="cpu", weights_only=True)


def train_base(gpt, text, context, steps):
    """Train all weights of the model on the first half of the text."""
    inputs, target = half("first", text, context)
    adam = torch.optim.Adam(gpt.parameters(), lr=0.003)
    random = torch.Generator().manual_seed(0)
    for _ in range(steps):
        chosen = torch.randint(len(inputs), (32,), generator=random)
        adam.zero_grad()
        cross_entropy(gpt(inputs[chosen]).flatten(0, 1), target[chosen].flatten()).backward()
        adam.step()
    gpt.zero_grad()


def half(which, text, context):
    """Return the windows of one half of the training text, and the characters that come next."""
    inputs, target = windows(text, "train", context)
    middle = len(inputs) // 2
    chosen = slice(None, middle) if which == "first" else slice(middle, None)
    return inputs[chosen], target[chosen]


def train_data(text="", context=64):
    return half("second", text, context)


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
    return lambda output, target: cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(params, learning_rate=0.003):
    # Only the adapters: the optimizer then keeps no state for the frozen weights.
    return torch.optim.Adam([each for each in params if each.requires_grad], lr=learning_rate)


def metrics():
    return {"accuracy": accuracy}


def accuracy(output, target):
    """Return the share of targets that have the highest output."""
    return (output.argmax(dim=-1) == target).float().mean()
