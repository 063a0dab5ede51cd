"""Runs that are resumed on another number of devices, or with another strategy: their curve, step by step."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from core.config import moving
from core.devices.cpu import COUNT_VARIABLE, cpu_devices
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.spec import read_spec
from core.worker.pytorch.task.saver import Saver
from tests.support.resuming import EVERY_STEP, LEARNING, broken_off, resumed
from tests.support.running import Followed, Trained, make_spec, train, write_recipe
from tests.support.shared import shared_root

LAYERS = """
    import torch
    from torch import nn

    def model(width=16):
        layers = (nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        return nn.Sequential(nn.Linear(6, width), nn.LayerNorm(width), nn.Tanh(), *layers, nn.Linear(width, 3))

    def train_data(items=70):
        generator = torch.Generator().manual_seed(7)
        return torch.randn(items, 6, generator=generator), torch.randint(0, 3, (items,), generator=generator)

    def val_data():
        return train_data(items=21)

    def optimizer(params, learning_rate=0.01):
        params = list(params)
        weights, others = ([each for each in params if (each.ndim > 1) is many] for many in (True, False))
        return torch.optim.Adam([{"params": weights}, {"params": others, "lr": learning_rate / 2, "eps": 1e-6}])
"""
"""70 items in batches of 12: the last batch has 10, which three ranks cannot share evenly. The optimizer has two groups
in another order than the model, so that a state of the wrong parameter shows."""
DROPS = LAYERS.replace("nn.LayerNorm(width)", "nn.Dropout(0.5)")
HALF = f"""{LAYERS}
    def loss():
        return lambda output, target: 2000 * nn.functional.cross_entropy(output, target)
"""
"""With float16, the first steps overflow and change nothing, but for the scale of the loss."""
STREAM = "    import os\n" + LAYERS.replace("def train_data(", "def items(") + """
    class Shuffled(torch.utils.data.IterableDataset):
        def set_epoch(self, epoch):
            self.order, self.at, self.epoch = None, 0, epoch

        def state_dict(self):
            return {"order": self.order, "at": self.at}

        def load_state_dict(self, state):
            self.order, self.at = state["order"], state["at"]

        def __iter__(self):
            resumed = "-from-" in os.environ["TRAINYARD_RUN_DIR"]
            assert self.order or self.epoch != 1 or not resumed, "read again from its beginning"
            self.order = self.order or torch.randperm(70).tolist()
            inputs, targets = items()
            while self.at < 70:
                self.at += 1
                yield inputs[self.order[self.at - 1]] + 0.1 * torch.randn(6), targets[self.order[self.at - 1]]

    def train_data():
        return Shuffled()

    def val_data():
        return items(21)
"""
TURNS = LAYERS.partition("    def optimizer(")[0] + """
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(6, 3), nn.Linear(6, 3)

    def model():
        return Two()

    def optimizers(model):
        return {name: torch.optim.Adam(getattr(model, name).parameters(), lr=0.01) for name in ("other", "one")}

    def training_step(model, batch, optimizer):
        return nn.functional.cross_entropy(getattr(model, optimizer)(batch[0]), batch[1])

    def validation_step(model, batch):
        return nn.functional.cross_entropy(model.one(batch[0]) + model.other(batch[0]), batch[1])
"""
KERAS = """
    import keras
    import numpy as np
    from keras import layers

    def model(width=16):
        hidden = [layers.Dense(width, activation="tanh") for _ in range(3)]
        return keras.Sequential([keras.Input((6,)), *hidden, layers.LayerNormalization(), layers.Dense(3)])

    def train_data(items=70):
        inputs = np.random.default_rng(7).normal(size=(items, 6)).astype("float32")
        return inputs, (inputs.sum(axis=1) > 0).astype("int32")

    def val_data():
        return train_data(items=21)

    def loss():
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def optimizer(learning_rate=0.01):
        return keras.optimizers.Adam(learning_rate)
"""
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "layers": (LAYERS, {}),
    "drops": (DROPS, {}),
    "half": (HALF, {"precision": "float16", "learning_rate": 1e-3}),
    "stream": (STREAM, {"steps_per_epoch": 5}),
    "turns": (TURNS, {"learning_rate": None}),
    "tensorflow": (KERAS, {"framework": "tensorflow"}),
    "keras": (KERAS, {"framework": "keras"}),
}
"""Recipes with settings of their runs."""
BREAK = 8
"""In the middle of the second epoch, after the warm-up."""
TOLERANCE = {"half": 1e-2, "tensorflow": 1e-4, "keras": 1e-4}
DIVISIONS = {
    "layers": ("single 1", "ddp 2", "ddp 3", "fsdp 2", "fsdp 3", "pipeline 2", "pipeline 3", "placement 2"),
    "tensorflow": ("single 1", "mirrored 2", "mirrored 3", "central_storage 2", "towers 2", "placement 2"),
    "keras": ("single 1", "mirrored 2", "mirrored 3", "placement 2"),
}
"""A strategy and a number of devices each."""
OFTEN = {
    ("layers", "single 1", "ddp 3"), ("layers", "ddp 2", "single 1"), ("layers", "ddp 3", "fsdp 2"),
    ("layers", "fsdp 3", "pipeline 2"), ("layers", "pipeline 2", "pipeline 3"), ("layers", "pipeline 3", "fsdp 3"),
    ("layers", "fsdp 2", "placement 2"), ("layers", "placement 2", "ddp 2"), ("half", "ddp 2", "fsdp 3"),
    ("stream", "ddp 2", "ddp 3"), ("turns", "single 1", "fsdp 2"), ("tensorflow", "mirrored 2", "towers 2"),
    ("tensorflow", "placement 2", "central_storage 2"), ("keras", "mirrored 2", "placement 2"),
}
"""Each division of PyTorch once as the one before and once as the one after; the others are for `make soak`."""
CHANGES = [
    *((recipe, *pair) for recipe, every in DIVISIONS.items() for pair in itertools.permutations(every, 2)),
    ("half", "ddp 2", "fsdp 3"), ("half", "fsdp 2", "pipeline 2"), ("stream", "ddp 2", "ddp 3"),
    ("turns", "single 1", "fsdp 2"), ("turns", "fsdp 2", "ddp 2"),
]


@pytest.fixture(scope="module", autouse=True)
def _three_devices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COUNT_VARIABLE, "3")
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Trained[tuple[str, str]]:
    """Finished runs with a checkpoint of each step, by their recipe and their division, such as `ddp 2`."""
    root = shared_root(tmp_path_factory) / "moving"

    def made(key: tuple[str, str], runs_root: Path) -> Followed:
        (source, choices), (strategy, count) = RECIPES[key[0]], key[1].split()
        spec = make_spec(
            write_recipe(root, source, key[0]), strategy=strategy, devices=",".join(device_ids(int(count))),
            **{**LEARNING, "batch_size": 12, "checkpoints": EVERY_STEP, **choices},
        )
        followed = train(spec, runs_root)
        assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
        return followed

    return Trained(made, root)


def device_ids(count: int, first: int = 0) -> list[str]:
    return [each.id for each in cpu_devices()[first : first + count]]


def moved(followed: Followed, after: str, runs_root: Path, first: int = 0) -> Followed:
    """Break a copy of a run off, and resume it in another division. `first`: the number of its first device."""
    run_dir = broken_off(followed, BREAK, runs_root)
    strategy, count = after.split()
    on = moving.moved(Run.attach(run_dir), device_ids(int(count), first), strategy)
    again = resumed(run_dir, on)
    assert again.state is RunState.FINISHED, f"{again.run.facts.error}\n{again.run.log_end()}"
    assert (read_spec(run_dir).strategy, list(again.run.facts.devices)) == (strategy, list(on.devices))
    return again


@pytest.mark.parametrize(
    ("recipe", "before", "after"),
    [pytest.param(*each, marks=pytest.mark.slow if each in OFTEN else pytest.mark.soak) for each in CHANGES],
)
def test_a_run_goes_on_in_another_division_along_the_curve_of_one_device(
    runs_root: Path, finished: Trained[tuple[str, str]], recipe: str, before: str, after: str
) -> None:
    again, whole = moved(finished[recipe, before], after, runs_root), finished[recipe, "single 1"]
    for metric, series in whole.run_series.metrics.items():
        values = again.run_series.metrics[metric].values.tolist()
        assert values == pytest.approx(series.values.tolist(), rel=TOLERANCE.get(recipe, 1e-5)), metric
        assert again.run_series.metrics[metric].steps.tolist() == series.steps.tolist(), metric
    (notice,) = (each for each in again.run.facts.notices if "resumed" in each)
    assert f"({after.split(maxsplit=1)[0]}). Before, it trained on" in notice
    assert not any("float16: 1 of" in each for each in again.run.facts.notices), "the scale of the loss was kept"


@pytest.mark.slow
@pytest.mark.parametrize("division", ["single 1", "ddp 2", "fsdp 2", "pipeline 2"])
def test_a_run_goes_on_in_its_own_division_on_other_devices_to_the_bit(
    runs_root: Path, finished: Trained[tuple[str, str]], division: str
) -> None:
    before = finished["drops", division]
    again = moved(before, division, runs_root, first=1)
    for metric, series in before.run_series.metrics.items():
        assert again.run_series.metrics[metric].values.tolist() == series.values.tolist(), metric


def test_ranks_that_are_new_draw_numbers_of_their_own(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    task = SimpleNamespace(model=model, optimizer=optimizer, turns=(), turn=(), scaler=None, train=())
    savers = [Saver(task, SimpleNamespace(rank=rank)) for rank in range(3)]  # type: ignore[arg-type]
    torch.manual_seed(5)
    savers[0].save(tmp_path)

    def drawn(saver: Saver) -> tuple[float, float]:
        saver.load(tmp_path)
        return random.random(), float(torch.rand(()))

    every = [drawn(each) for each in savers]
    assert [drawn(each) for each in savers] == every
    assert len({number for pair in every for number in pair}) == 6
