"""`trainyard doctor --first-nan` repeats a training, and names the layer that made the first NaN."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.runs.facts import RunState
from core.worker.errors import explain
from tests.support.commands import call
from tests.support.running import make_spec, source_spec, train, write_recipe
from tests.support.written_runs import write_run

PYTORCH = """
import torch
from torch import nn

class Breaks(nn.Module):
    def __init__(self, how, at):
        super().__init__()
        self.how, self.at = how, at
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
    def forward(self, x):
        if self.training:
            self.calls += 1
            is_one = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 1
            if self.calls == self.at and is_one:
                return torch.log(x * 0 - 1) if self.how == "layer" else x + torch.sqrt(x * 0)
        return x

class Mask(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = nn.Parameter(torch.tensor([0.0, -torch.inf] * 10), requires_grad=False)
    def forward(self, x):
        return x + self.mask

class Own(nn.Module):
    def __init__(self, how, at):
        super().__init__()
        self.first, self.breaks, self.how, self.last = nn.Linear(20, 8), Breaks(how, at), how, nn.Linear(8, 2)
        self.table = nn.Embedding(2, 20, sparse=True) if how == "own" else None
        self.mask = nn.Identity() if how == "loss" else Mask()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
    def forward(self, x):
        x = x + torch.softmax(self.mask(x), -1)
        x = x if self.table is None else x + self.table((x[:, 0] > 0).long())
        x = self.breaks(torch.relu(self.first(x)) + 1)
        self.calls += self.training
        return self.last(x / 0 if self.how == "own" and self.calls == self.breaks.at else x)

def model(how="layer", at=30):
    return Own(how, at)

def loss(how="layer"):
    def measure(output, target):
        value = nn.functional.cross_entropy(output, target)
        return value / 0 if how == "loss" else value
    return measure

def optimizer(parameters, how="layer"):
    class Divides(torch.optim.SGD):
        def step(self):
            super().step()
            self.param_groups[0]["params"][0].data.div_(0)
    return (Divides if how == "update" else torch.optim.SGD)(parameters, lr=0.01)

def train_data(how="layer"):
    inputs = torch.randn(1280, 20, generator=torch.Generator().manual_seed(0))
    if how in {"data", "step"}:
        inputs[77, 3] = torch.nan
    return inputs, (inputs.nan_to_num().sum(1) > 0).long()
"""
STEP = """
def model():
    return torch.compile(nn.Sequential(nn.Linear(20, 8), nn.Linear(8, 2)), fullgraph=True, backend="eager")

def training_step(model, batch):
    inputs, target = batch
    return {"loss": nn.functional.cross_entropy(model(inputs), target), "recall": torch.tensor(torch.nan)}
"""
KERAS = """
import keras
import numpy as np
import tensorflow as tf

class Breaks(keras.layers.Layer):
    def build(self, shape):
        self.calls = self.add_weight(shape=(), dtype="int64", initializer="zeros", trainable=False)
    def call(self, x, training=False):
        if training:
            self.calls.assign_add(1)
            return tf.math.log(x - tf.cast(self.calls >= 30, x.dtype) * 1e9 + 1e4)
        return x

def model():
    return keras.Sequential([keras.Input((20,)), keras.layers.Dense(8), Breaks(name="breaks"), keras.layers.Dense(2)])

def train_data():
    inputs = np.random.default_rng(0).normal(size=(1280, 20)).astype("float32")
    return inputs, (inputs.sum(1) > 0).astype("int64")
"""
CASES = [
    ("pytorch", "layer", "cpu:0", 30, "In step 30, layer breaks (Breaks) makes NaN of inputs from"),
    ("pytorch", "layer", "cpu:0,cpu:1", 30, "In step 30, layer breaks (Breaks) makes NaN of inputs from"),
    ("pytorch", "own", "cpu:0", 30, "is made after breaks (Breaks) and before last (Linear), in the model's own code"),
    ("pytorch", "backward", "cpu:0", 31, "the gradient of the output of first (Linear) is NaN, in the backward"),
    ("pytorch", "loss", "cpu:0", 1, "In step 1, the loss is infinity, made of finite outputs of model (Own)"),
    ("pytorch", "update", "cpu:0", 2, "In step 1, the optimizer makes infinity in the weight first.weight"),
    ("pytorch", "data", "cpu:0", None, "the data have NaN"),
    ("pytorch", "step", "cpu:0", None, "the data have NaN"),
    ("tensorflow", "layer", "cpu:0", 30, "makes NaN: call() in"),
    ("keras", "layer", "cpu:0", 30, "makes NaN: call() in"),
]


@pytest.mark.parametrize(("framework", "how", "devices", "step", "said"), CASES)
def test_place_of_the_first_nan_is_named(framework, how, devices, step, said, tmp_path: Path, capsys) -> None:
    source = KERAS if framework != "pytorch" else PYTORCH + STEP if how == "step" else PYTORCH
    recipe = write_recipe(tmp_path, source)
    spec = make_spec(recipe, framework=framework, devices=devices, strategy="ddp" if "," in devices else "single",
                     accumulation=2 if how == "data" else 1, checkpoints={"unit": "steps", "every": 10}, epochs=4,
                     batch_size=64, stop_on_nan=True, training_metrics=False,
                     settings={"how": how} if framework == "pytorch" else {})
    run = train(spec, tmp_path / "runs").run
    assert run.facts.state is RunState.FAILED, run.facts.error
    Path(recipe).unlink()  # the copy in the run is trained
    code, out, err = call(capsys, "doctor", run.dir, "--first-nan", "--runs", tmp_path / "runs", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert said in found["sentence"]
    assert found["found"]
    if step is not None:
        assert found["step"] == step
        assert bool(found["checkpoint"]) == (step > 20)
    assert not (tmp_path / "runs" / ".probes").exists()


@pytest.mark.parametrize(("value", "is_doubted"), [("Inf", True), ("NaN", False), ("Inf and NaN", False)])
def test_infinity_of_tensorflow_may_be_on_purpose(value: str, is_doubted: bool) -> None:
    assignment, spec = SimpleNamespace(addresses=()), SimpleNamespace(framework="tensorflow")
    context: Any = SimpleNamespace(has_no_network=False, spec=spec, assignment=assignment)
    error = RuntimeError(f"Detected at node model/mask/SelectV2/CheckNumerics: Tensor had {value} values")
    said = explain(error, context)
    assert said is not None
    assert said.startswith("The operation model/mask/SelectV2 makes ")
    assert ("on purpose, as in a mask" in said) is is_doubted


def test_run_that_cannot_be_repeated_is_refused_with_a_sentence(tmp_path: Path, capsys) -> None:
    runs = tmp_path / "runs"
    shared = replace(make_spec("digits_mlp"), devices=("cpu:0", "b/cpu:0"))
    elsewhere = write_run(runs, "20260101-000000-run", spec=shared)
    code, _, err = call(capsys, "doctor", elsewhere, "--first-nan", "--runs", runs)
    assert code == 2
    assert "has devices of other machines" in err
    for spec, said in (
        (make_spec("digits_mlp", epochs=1), "is finite at every step"),
        (source_spec(tmp_path, "print('loss: nan')"), "is a script, which Trainyard cannot look into"),
    ):
        run = train(spec, runs).run
        code, _, err = call(capsys, "doctor", run.dir, "--first-nan", "--runs", runs)
        assert code == 2
        assert said in err
    assert not (runs / ".probes").exists()
