"""`on_epoch_end(model, metrics, folder)` of a recipe: numbers, files, no influence on the training, and its errors."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from core.runs.facts import RunState
from core.schema.paths import OUTPUTS
from tests.framework.test_documentation import documented
from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import Followed, curves, make_spec, train, train_both, write_recipe

TWO = "cpu:0,cpu:1"
EPOCHS, STEPS = 3, 5
SETTINGS = {"epochs": EPOCHS, "batch_size": 16}

TORCH = """
    import random
    import torch
    from torch import nn

    def model():
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))

    def made(items):
        generator = torch.Generator().manual_seed(7)
        return torch.randn(items, 6, generator=generator), torch.randint(0, 3, (items,), generator=generator)

    def train_data():
        return made(70)

    def val_data():
        return made(21)

    def metrics():
        return {"accuracy": lambda output, target: (output.argmax(1) == target).float().mean()}
"""
TORCH_END = """
    def on_epoch_end(model, metrics, folder, draws=1):
        assert not model.training and not model[1].training and not torch.is_grad_enabled()
        output = model(torch.randn(4, 6))
        random.random(), torch.randperm(draws)
        model.train()
        facts = {**metrics, "output": output.sum().item(), "model": type(model).__name__}
        with (folder / "epochs.jsonl").open("a") as file:
            file.write(json.dumps(facts) + "\\n")
        (folder / "samples").mkdir(exist_ok=True)
        torch.save(output, folder / "samples" / f"{metrics['epoch']}.pt")

    import json
"""
KERAS = """
    import json
    import random
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers

    def model():
        parts = [layers.Dense(8), layers.Dropout(0.5), layers.Dense(3)]
        return keras.Sequential([keras.Input((6,)), *parts])

    def made(items):
        generator = np.random.default_rng(items)
        return generator.normal(size=(items, 6)).astype("float32"), generator.integers(0, 3, items)

    def train_data():
        return made(70)

    def val_data():
        return made(21)

    def metrics():
        return {"accuracy": keras.metrics.sparse_categorical_accuracy}
"""
KERAS_END = """
    def on_epoch_end(model, metrics, folder):
        random.random(), np.random.rand(), keras.random.normal((2,))
        inputs, _ = val_data()
        output = model(inputs, training=False)
        model.layers[1](output, training=True)  # draws from the model's own generator
        facts = {**metrics, "output": float(tf.reduce_sum(output)), "predicted": PREDICT(model, inputs)}
        with (folder / "epochs.jsonl").open("a") as file:
            file.write(json.dumps(facts) + "\\n")
"""
WITH_PREDICT = KERAS_END.replace("PREDICT(model, inputs)", "float(model.predict(inputs, verbose=0).sum())")
RAISES = """
    def on_epoch_end(model, metrics, folder):
        (folder / f"{metrics['epoch']}.txt").write_text("here")
        if metrics["epoch"] == 2:
            fail(folder)

    def fail(folder):
        (folder / "3.txt").write_text("was here")
        with open("/dev/full", "w") as file:
            file.write("picture")
"""


def spec_of(recipe: str, **keywords: Any) -> Any:
    return make_spec(recipe, **{**SETTINGS, **keywords})


def told(followed: Followed) -> list[dict[str, Any]]:
    """Return what the function was called with."""
    text = (followed.run.dir / OUTPUTS / "epochs.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def check(followed: Followed, rates: Sequence[float] = (0.001,) * EPOCHS) -> None:
    """The function was called once per epoch with the numbers that the run has recorded, and with these rates."""
    found, facts = curves(followed), told(followed)
    assert [each["epoch"] for each in facts] == [1, 2, 3]
    assert [each["step"] for each in facts] == [STEPS, 2 * STEPS, 3 * STEPS]
    for name in ("val_loss", "val_accuracy"):
        assert [each[name] for each in facts] == pytest.approx(found[name])
    means = [sum(found["loss"][at : at + STEPS]) / STEPS for at in range(0, 3 * STEPS, STEPS)]
    assert [each["loss"] for each in facts] == pytest.approx(means)
    assert [each["learning_rate"] for each in facts] == pytest.approx(rates)
    assert all(("accuracy" in each) == ("accuracy" in found) for each in facts)
    if "accuracy" in found:
        series = followed.run_series.metrics["accuracy"]
        epochs = ((series.steps - 1) // STEPS).astype(int).tolist()
        for number, each in enumerate(facts):
            measured = [value for epoch, value in zip(epochs, found["accuracy"], strict=True) if epoch == number]
            assert each["accuracy"] == pytest.approx(sum(measured) / len(measured))


@pytest.mark.slow
def test_function_of_pytorch_changes_nothing(runs_root: Path, tmp_path: Path) -> None:
    without = write_recipe(tmp_path, TORCH, "without")
    with_it = write_recipe(tmp_path, TORCH + TORCH_END, "with_it")
    plain, called = train_both(
        spec_of(without, training_metrics=False),
        spec_of(with_it, devices="cpu:1", checkpoints=EVERY_STEP, training_metrics=False),
        runs_root,
    )
    assert curves(plain) == curves(called)
    check(called)
    assert not (plain.run.dir / OUTPUTS).exists()
    assert sorted(path.name for path in (called.run.dir / OUTPUTS / "samples").iterdir()) == ["1.pt", "2.pt", "3.pt"]

    again = resumed(broken_off(called, 2 * STEPS, runs_root))
    assert curves(again)["loss"] == curves(plain)["loss"]
    # The function was called for the third epoch again, and not for the second, which was over.
    assert [each["epoch"] for each in told(again)] == [1, 2, 3, 3]
    assert told(again)[2] == told(again)[3]


def test_rank_0_calls_the_function(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, TORCH + TORCH_END, "with_it")
    followed = train(spec_of(recipe, devices=TWO, strategy="ddp"), runs_root)
    check(followed)
    assert {each["model"] for each in told(followed)} == {"Sequential"}


@pytest.mark.soak
@pytest.mark.parametrize(("framework", "strategy"), [("keras", "single"), ("tensorflow", "mirrored")])
def test_function_of_keras_changes_nothing(framework: str, strategy: str, runs_root: Path, tmp_path: Path) -> None:
    without = write_recipe(tmp_path, KERAS, "without")
    with_it = write_recipe(tmp_path, KERAS + WITH_PREDICT, "with_it")
    devices = TWO if strategy == "mirrored" else "cpu:0"
    settings = {"framework": framework, "strategy": strategy, "devices": devices}
    settings["training_metrics"] = False  # how often they are measured depends on time
    plain = train(spec_of(without, **settings), runs_root)
    called = train(spec_of(with_it, **settings), runs_root)
    assert curves(plain) == curves(called)
    check(called)
    assert all(each["predicted"] == pytest.approx(each["output"], rel=1e-4) for each in told(called))


@pytest.mark.parametrize(
    ("framework", "strategy", "reason"),
    [
        ("pytorch", "fsdp", "each rank has only a part of each parameter"),
        ("pytorch", "pipeline", "no device has the whole model"),
        ("tensorflow", "multi_worker_mirrored", "a call of the model by one worker would wait for the others"),
        ("tensorflow", "parameter_server", "the model is in another process"),
    ],
)
def test_strategies_without_the_whole_model_refuse_it(framework, strategy, reason, tmp_path) -> None:
    source = TORCH + TORCH_END if framework == "pytorch" else KERAS + WITH_PREDICT
    with pytest.raises(ValueError, match=rf"Strategy {strategy} cannot call on_epoch_end\(\) of .*{reason}"):
        spec_of(write_recipe(tmp_path, source), framework=framework, strategy=strategy, devices=TWO)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "keras"])
def test_function_gets_means_of_measured_steps_and_the_rate_of_the_last(framework, runs_root, tmp_path) -> None:
    text = TORCH + TORCH_END if framework == "pytorch" else KERAS + WITH_PREDICT
    spec = spec_of(write_recipe(tmp_path, text, "with_it"), framework=framework, schedule="cosine", warmup_steps=2)
    found = train(spec, runs_root)
    rates = curves(found)["learning_rate"][STEPS - 1 :: STEPS]
    assert len(set(rates)) == EPOCHS
    check(found, rates)


@pytest.mark.parametrize(("devices", "strategy"), [("cpu:0", "single"), (TWO, "ddp")])
def test_failing_function_loses_no_epoch(devices: str, strategy: str, runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, TORCH + RAISES)
    failed = train(spec_of(recipe, devices=devices, strategy=strategy), runs_root)
    line = (tmp_path / "recipe.py").read_text().splitlines().index('    with open("/dev/full", "w") as file:') + 1
    assert failed.failure == (
        f"Worker 0 on cpu:0: OSError: on_epoch_end() of recipe failed after epoch 2, line {line}: "
        "[Errno 28] No space left on device. "
        "Correct the recipe, then resume the run: it goes on after its last checkpoint."
    )
    assert "in fail" in (failed.run.facts.traceback or "")

    write_recipe(tmp_path, TORCH + RAISES.replace("== 2", "== 7"))
    again = resumed(failed.run.dir)
    assert again.state is RunState.FINISHED
    assert again.run_series.metrics["val_loss"].count == EPOCHS
    assert sorted(path.name for path in (again.run.dir / OUTPUTS).iterdir()) == ["1.txt", "2.txt", "3.txt"]


def test_documented_function_writes_its_file(runs_root: Path, tmp_path: Path) -> None:
    source = TORCH + indent(documented("def on_epoch_end"), "    ")
    followed = train(spec_of(write_recipe(tmp_path, source)), runs_root)
    lines = (followed.run.dir / OUTPUTS / "mistakes.txt").read_text().splitlines()
    assert [re.sub(r"\d+ of", "N of", line) for line in lines] == [f"epoch {each}: N of 21" for each in (1, 2, 3)]
