"""Settings that are changed while a run trains: the curve is that of a run whose recipe changes them at that step."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.schema.event_kinds import SettingChange, Trace, read_all
from core.schema.events import Tail
from core.schema.paths import CONTROL, EVENTS, OUTPUTS, SETTING_EVENTS, worker_events
from core.schema.spec import RunSpec, read_spec, setting_changes, write_spec
from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import curves, make_spec, train, write_recipe

EPOCHS, LATER_EPOCHS, STEPS = 3, 4, 8
"""Before and after the change; steps of an epoch."""
RATE, LATER_RATE = 0.125, 0.03125
ASKED = {"epochs": LATER_EPOCHS, "learning_rate": LATER_RATE, "checkpoints.every": 1, "checkpoints.keep": 1}
"""What is asked for. Only what is `CHANGEABLE` counts."""

ASK = """
import json, os, time
from pathlib import Path

calls = []

def ask_in_third_step(asked, name, rank=0):
    calls.append(1)
    folder = Path(os.environ["TRAINYARD_RUN_DIR"])
    if asked and len(calls) == 3 and rank == 0 and not (folder / "events/settings.jsonl").exists():
        (folder / "control" / name).write_text(asked)
        time.sleep(0.3)  # a report is due after this step
"""
PYTORCH = f"""
import torch
from torch import nn
{ASK}
class Changing(torch.optim.SGD):
    def __init__(self, params, rate, change_after, later):
        super().__init__(params, lr=rate, momentum=0.9)
        self.done, self.change_after, self.later = 0, change_after, later

    def step(self, closure=None):
        if self.done == self.change_after:
            for group in self.param_groups:
                group["lr"] = self.later
        self.done += 1
        super().step(closure)

def model():
    return nn.Linear(4, 2)

def train_data(has_outputs=True):
    if not has_outputs:
        Path(os.environ["TRAINYARD_RUN_DIR"], "outputs").touch()
    torch.manual_seed(0)
    return torch.randn({STEPS * 4}, 4), torch.randint(0, 2, ({STEPS * 4},))

def loss(asked="", name="set.json"):
    def measure(output, target):
        ask_in_third_step(asked, name, torch.distributed.is_initialized() and torch.distributed.get_rank())
        return nn.functional.cross_entropy(output, target)
    return measure

def optimizer(params, learning_rate={RATE}, change_after=-1, later={RATE}):
    return Changing(params, learning_rate, change_after, later)
"""
KERAS = f"""
import keras
import numpy as np
import tensorflow as tf
{ASK}
def model():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])

def train_data():
    random = np.random.default_rng(0)
    return random.normal(size=({STEPS * 4}, 4)).astype("float32"), random.integers(0, 2, {STEPS * 4})

def loss(asked="", name="set.json"):
    measure = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def asking(target, output):
        if asked:
            tf.py_function(lambda: ask_in_third_step(asked, name), [], [])
        return measure(target, output)
    return asking

def optimizer(learning_rate={RATE}, change_after=-1, later={RATE}):
    rate = learning_rate
    if change_after >= 0:
        rate = keras.optimizers.schedules.PiecewiseConstantDecay([change_after - 1], [learning_rate, later])
    return keras.optimizers.SGD(rate, momentum=0.9)
"""
OPERATIONS = {"pytorch": "aten::addmm", "tensorflow": "MatMul", "keras": "MatMul"}
"""Part of the name of an operation of the model, as the framework's profiler names it."""


@dataclass(frozen=True)
class Way:
    framework: str
    strategy: str
    devices: str = "cpu:0"

    def spec(self, folder: Path, *, epochs: int, **settings: object) -> RunSpec:
        recipe = write_recipe(folder, PYTORCH if self.framework == "pytorch" else KERAS, f"{self.framework}_recipe")
        return make_spec(
            recipe, framework=self.framework, strategy=self.strategy, devices=self.devices, settings=dict(settings),
            checkpoints=EVERY_STEP, epochs=epochs, batch_size=4,
        )


WAYS = (
    Way("pytorch", "single"), Way("pytorch", "ddp", "cpu:0,cpu:1"), Way("tensorflow", "single"), Way("keras", "single"),
)
OTHERS = (Way("pytorch", "fsdp", "cpu:0,cpu:1"), Way("keras", "mirrored", "cpu:0,cpu:1"))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS + OTHERS, ids=lambda way: f"{way.framework}-{way.strategy}")
def test_changed_settings_are_those_of_all_later_steps_also_after_a_resume(tmp_path: Path, way: Way) -> None:
    root = tmp_path / "runs"
    changed = train(way.spec(tmp_path, epochs=EPOCHS, asked=json.dumps(ASKED)), root)
    found = setting_changes(changed.run.dir)
    at = found[0].step
    assert 1 < at < STEPS
    assert found == [
        SettingChange(step=at, name="epochs", old=EPOCHS, new=LATER_EPOCHS),
        SettingChange(step=at, name="learning_rate", old=RATE, new=LATER_RATE),
    ]
    losses = curves(changed)["loss"]
    assert len(losses) == LATER_EPOCHS * STEPS

    def expected(change_after: int) -> list[float]:
        spec = way.spec(tmp_path, epochs=LATER_EPOCHS, change_after=change_after, later=LATER_RATE)
        return curves(train(spec, root))["loss"]

    assert losses == expected(at)
    assert losses != expected(STEPS * LATER_EPOCHS)

    as_started = read_spec(changed.run.dir, changed=False)
    assert (as_started.training.epochs, as_started.training.learning_rate) == (EPOCHS, RATE)
    effective = changed.run.spec()
    assert (effective.training.epochs, effective.training.learning_rate) == (LATER_EPOCHS, LATER_RATE)
    assert effective.checkpoints == as_started.checkpoints

    # From a checkpoint after the change, and from one before it: the change holds for all that is trained again.
    assert curves(resumed(broken_off(changed, at + 4, root)))["loss"] == losses
    assert curves(resumed(broken_off(changed, at - 1, root)))["loss"] == expected(at - 1)
    # A run that was started with these settings goes on from the checkpoint of that step alike.
    started_so = broken_off(changed, at, root)
    write_spec(started_so, effective)
    (started_so / EVENTS / SETTING_EVENTS).unlink()
    assert curves(resumed(started_so))["loss"] == losses


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.framework}-{way.strategy}")
def test_trace_of_some_steps_is_a_file_for_perfetto_and_training_goes_on(tmp_path: Path, way: Way) -> None:
    ranks = [rank for rank, _ in enumerate(way.devices.split(","))]
    asked = json.dumps({"steps": 4, "ranks": ranks})
    plain = train(way.spec(tmp_path, epochs=EPOCHS), tmp_path / "plain")
    traced = train(way.spec(tmp_path, epochs=EPOCHS, asked=asked, name="trace.json"), tmp_path / "runs")
    assert curves(traced)["loss"] == curves(plain)["loss"]
    events = [each for rank in ranks for each in Tail(traced.run.dir / EVENTS / worker_events(rank)).read()]
    found = read_all(Trace, events)
    assert sorted(each.rank for each in found) == ranks
    for each in found:
        assert (each.steps, each.why) == (4, "")
        with gzip.open(traced.run.dir / OUTPUTS / each.file) as file:
            names = {entry.get("name", "") for entry in json.load(file)["traceEvents"]}
        assert any(OPERATIONS[way.framework] in name for name in names)
    assert not list((traced.run.dir / CONTROL).iterdir())


def test_trace_that_cannot_be_written_is_a_notice_and_training_goes_on(tmp_path: Path) -> None:
    asked = json.dumps({"steps": 4, "ranks": [0]})
    spec = WAYS[0].spec(tmp_path, epochs=EPOCHS, asked=asked, name="trace.json", has_outputs=False)
    followed = train(spec, tmp_path / "runs")
    assert len(curves(followed)["loss"]) == EPOCHS * STEPS
    (notice,) = followed.run.facts.notices
    assert "Rank 0 could not be traced" in notice
    assert "outputs" in notice
