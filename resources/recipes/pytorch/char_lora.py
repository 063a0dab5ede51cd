"""A small GPT, fine-tuned with low-rank adapters (LoRA, Hu et al. 2021) while its own weights stay frozen.

Fine-tuning needs a model that was trained before. There are two ways to get one:

- `base` is the path of the weights of a `char_transformer` run, which `trainyard export RUN --model FOLDER` writes as
  FOLDER/model.pt. It must be of the same text and of the same size.
- Without it, `model()` itself trains the base on the first half of the text, for `base_steps` steps. This takes a few
  seconds at each start and is not drawn.

The adapters learn the second half of the text.
"""

from pathlib import Path

import torch
from _data import accuracy, characters
from _shared.text import vocabulary
from char_transformer import Block, Embedding
from torch import nn
from torch.nn.functional import cross_entropy, linear


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


def model(*, text="", base="", base_steps=200, rank=4, alpha=8.0, layers=2, heads=4, width=64, context=64):
    kinds = vocabulary(text)
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
    inputs, target = characters(text, "train", context)
    middle = len(inputs) // 2
    chosen = slice(None, middle) if which == "first" else slice(middle, None)
    return inputs[chosen], target[chosen]


def train_data(text="", context=64):
    return half("second", text, context)


def val_data(text="", context=64):
    return characters(text, "val", context)


def loss():
    # Every position of every window predicts the next character.
    return lambda output, target: cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(params, learning_rate=0.003):
    # Only the adapters: the optimizer then keeps no state for the frozen weights.
    return torch.optim.Adam([each for each in params if each.requires_grad], lr=learning_rate)


def metrics():
    return {"accuracy": accuracy}
