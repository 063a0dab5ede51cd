"""Runs of a model of blocks, which some settings divide, make in shards or compute twice."""

from pathlib import Path

import pytest

from core.runs.facts import RunState
from tests.support.running import Followed, make_spec, train
from tests.support.small_runs import TWO, recipe_fixture

BLOCKS = """
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.inner, self.outer = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, inputs):
            return inputs + self.outer(torch.relu(self.inner(self.norm(inputs))))


    class Model(nn.Module):
        def __init__(self, width, blocks):
            super().__init__()
            self.embedding = nn.Linear(8, width)
            self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
            self.head = nn.Linear(width, 3)
            self.register_buffer("scale", torch.arange(1.0, 1 + width, device="cpu").rsqrt())
            self.register_buffer("shift", torch.linspace(0, 1, width))
            self.apply(self._initialise)

        def _initialise(self, module):
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.1)
                nn.init.zeros_(module.bias)

        def forward(self, inputs):
            hidden = self.embedding(inputs) * self.scale + self.shift
            for block in self.blocks:
                hidden = block(hidden)
            return self.head(hidden)


    def model(width=12, blocks=3):
        return Model(width, blocks)


    def train_data(items=77):
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(items, 8, generator=generator)
        return inputs, inputs[:, :3].argmax(1)


    def val_data():
        return train_data(13)


    def optimizer(params, learning_rate=0.01):
        return torch.optim.Adam(params, lr=learning_rate)
"""
"""A model of blocks that initialises itself, with data that two devices cannot share evenly."""
SETTINGS = {"epochs": 4, "batch_size": 16}
blocks = recipe_fixture("blocks", BLOCKS)
"""The path of a recipe with this model."""


@pytest.fixture(scope="module")
def blocks_alone(blocks: str, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """Its finished run on one device."""
    return train(make_spec(blocks, **SETTINGS), tmp_path_factory.mktemp("alone"))


def on_two(recipe: str, runs_root: Path, strategy: str, **training: object) -> Followed:
    return train(make_spec(recipe, strategy=strategy, devices=TWO, **{**SETTINGS, **training}), runs_root)


def values(followed: Followed) -> list[float]:
    assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
    return [*followed.losses(), *followed.run_series.metrics["val_loss"].values.tolist()]
