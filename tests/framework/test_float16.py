"""float16 with a scaled loss: skipped steps, clipping, several ranks, and resuming."""

from functools import partial
from pathlib import Path

import pytest
import torch

from core.catalog import strategies
from core.config import validation
from core.devices.cpu import cpu_devices
from core.runs.facts import RunState
from tests.support.by_hand import batches, functions_of
from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import Followed, make_spec, train, write_recipe
from tests.support.small_runs import recipe_fixture, small_spec

OVERFLOWS = """
    import torch
    from torch import nn

    def model():
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))

    def train_data():
        generator = torch.Generator().manual_seed(7)
        return torch.randn(65, 6, generator=generator), torch.randint(0, 3, (65,), generator=generator)

    def optimizer(params):
        return torch.optim.SGD(params, lr=1e-4, momentum=0.9)

    def loss():
        return lambda output, target: 200 * nn.functional.cross_entropy(output, target)

    def metrics():
        return {"is_half": lambda output, target: output.dtype == torch.float16}

    def schedule(optimizer, steps):
        return torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, total_iters=steps)
"""
"""65 items in batches of 16. With the first scale, 65536, gradients of a loss times 200 do not fit float16."""
TWO_OPTIMIZERS = """
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(6, 3), nn.Linear(6, 3)

    def model():
        return Two()

    def optimizers(model):
        return {name: torch.optim.SGD(getattr(model, name).parameters(), lr=1e-3) for name in ("one", "other")}

    def training_step(model, batch, optimizer):
        error = nn.functional.cross_entropy(getattr(model, optimizer)(batch[0]), batch[1])
        return error * (500 if optimizer == "one" else 1e-3)
"""
spec = partial(small_spec, epochs=3, precision="float16", gradient_clip=20.0)


def losses(followed: Followed) -> list[float]:
    assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
    return followed.losses()


def skipped(followed: Followed) -> list[str]:
    return [text for text in followed.run.facts.notices if text.startswith("float16: ")]


overflows = recipe_fixture("overflows", OVERFLOWS)


@pytest.fixture(scope="module")
def single(overflows: str, pools: object, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    return train(spec(overflows, checkpoints=EVERY_STEP), tmp_path_factory.mktemp("single") / "runs")


def by_hand(recipe: str) -> tuple[list[float], list[int]]:
    """Return the losses of a loop with torch's own scaler, and the steps that it skipped."""
    functions = functions_of(recipe)
    inputs, targets = functions["train_data"]()
    torch.manual_seed(0)
    model = functions["model"]()
    optimizer, scaler = functions["optimizer"](model.parameters()), torch.amp.GradScaler("cpu")
    schedule = functions["schedule"](optimizer, 15)
    values: list[float] = []
    skips: list[int] = []
    for index in batches(65, epochs=3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = functions["loss"]()(model(inputs[index]), targets[index])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 20.0)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        values.append(loss.item())
        if scaler.get_scale() < before:
            skips.append(len(values))
        else:
            schedule.step()
    return values, skips


@pytest.mark.slow
def test_losses_and_skipped_steps_are_those_of_the_scaler_of_torch(overflows: str, single: Followed) -> None:
    values, skips = by_hand(overflows)
    assert skips[:3] == [1, 2, 3], "the test needs skipped steps"
    assert losses(single) == pytest.approx(values, rel=1e-6)
    assert losses(single)[:3] != losses(single)[3:6]
    assert skipped(single)[0].startswith(
        "float16: 1 of the first 1 steps changed nothing, because a gradient was not finite. The loss is now scaled by "
        "32768. A few such steps at the start are usual"
    )
    assert set(single.run_series.metrics["is_half"].values.tolist()) == {1.0}
    rates = single.run_series.metrics["learning_rate"].values.tolist()
    assert rates[-1] == pytest.approx(1e-4 * (1 - 0.5 * (15 - len(skips)) / 15)), "follows the optimizer's steps"


@pytest.mark.parametrize(("strategy", "accumulation"), [("single", 2), ("ddp", 2), ("fsdp", 1), ("pipeline", 1)])
def test_curve_is_that_of_one_device(strategy, accumulation, overflows, single, runs_root) -> None:
    followed = train(spec(overflows, strategy, accumulation=accumulation), runs_root)
    assert losses(followed) == pytest.approx(losses(single), rel=0.01)
    assert skipped(followed)[0] == skipped(single)[0]


ONE_RANK = f"""{OVERFLOWS.partition("    def model")[0]}
    class Overflow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, output, overflows):
            ctx.overflows = overflows
            return output.view_as(output)

        @staticmethod
        def backward(ctx, gradient):
            gradient = gradient.clone()
            if ctx.overflows:
                gradient[:, 0] = float("inf")
            return gradient, None

    class First(nn.Linear):
        def forward(self, inputs):
            return Overflow.apply(super().forward(inputs), bool((inputs > 9).any()))

    def model():
        return nn.Sequential(First(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))

    def train_data():
        generator = torch.Generator().manual_seed(7)
        inputs = torch.randn(64, 6, generator=generator)
        inputs[20, 0] = 10.0
        return inputs, torch.randint(0, 3, (64,), generator=generator)

    def optimizer(params):
        return torch.optim.SGD(params, lr=0.2, momentum=0.9)
"""
"""In one step of each epoch, the gradient of the first row of the first weight is infinite: on one rank, if sharded."""


@pytest.mark.slow
def test_all_ranks_skip_a_step_if_the_gradients_of_one_overflow(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, ONE_RANK, "one_rank")
    alone, *others = (
        train(spec(recipe, strategy, gradient_clip=None), runs_root)
        for strategy in ("single", "ddp", "fsdp", "pipeline")
    )
    assert len(skipped(alone)) == 1
    for each in others:
        assert losses(each) == pytest.approx(losses(alone), rel=5e-3)
        assert skipped(each) == skipped(alone)


@pytest.mark.slow
def test_resumed_training_is_bitwise_equal(single: Followed, runs_root: Path) -> None:
    for step in (2, 7):
        assert losses(resumed(broken_off(single, step, runs_root))) == losses(single)


@pytest.mark.slow
def test_each_of_several_optimizers_has_a_scale_of_its_own(runs_root: Path, tmp_path: Path) -> None:
    source = OVERFLOWS.partition("    def model")[0] + TWO_OPTIMIZERS
    source += "\n    def train_data" + OVERFLOWS.partition("    def train_data")[2].partition("    def optimizer")[0]
    followed = train(spec(write_recipe(tmp_path, source, "two"), gradient_clip=None, checkpoints=EVERY_STEP), runs_root)
    assert losses(followed)
    assert skipped(followed)[0].startswith("float16: 1 of the first 1 steps of optimizer one changed nothing")
    assert not [text for text in skipped(followed) if "optimizer other" in text]
    assert losses(resumed(broken_off(followed, 7, runs_root))) == losses(followed)


REFUSED = "parameter_server"


def test_float16_is_refused_where_the_loss_cannot_be_scaled() -> None:
    chosen = make_spec(
        "digits_mlp", framework="tensorflow", strategy=REFUSED, devices="cpu:0,cpu:1", precision="float16"
    )
    found = [str(each) for each in validation.problems(chosen, cpu_devices())]
    assert any(each.startswith(f"Strategy {REFUSED} cannot scale the loss for float16, because") for each in found)


KERAS = """
    import keras
    import numpy as np
    import tensorflow as tf

    def model():
        parts = [keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(16, activation="tanh")]
        return keras.Sequential([keras.Input((6,)), *parts, keras.layers.Dense(3)])

    def train_data():
        generator = np.random.default_rng(7)
        return generator.normal(size=(65, 6)).astype("float32"), generator.integers(0, 3, 65)

    def val_data():
        return train_data()

    def optimizer():
        return keras.optimizers.SGD(1e-5, momentum=0.9)

    def loss():
        return lambda target, output: 200 * keras.losses.sparse_categorical_crossentropy(
            target, tf.cast(output, tf.float32), from_logits=True)

    def metrics():
        return {"is_half": lambda target, output: tf.fill(tf.shape(target), float(output.dtype == tf.float16))}
"""
"""65 items in batches of 16: the last batch has one, so one of two devices has none. Keras' first scale is 32768.

Numbers of float16 have 11 bits, so sums over parts of a batch differ by less than 0.1 %. A gradient that is within this
of the largest number, 65504, overflows in one division of the batch and not in another; a loss times 200 leads to none.
"""


@pytest.mark.slow
def test_central_storage_of_tensorflow_scales_the_loss_once_for_all_devices(runs_root: Path, tmp_path: Path) -> None:
    """Keras' own optimizer cannot change its scale there; a resumed run continues with it."""
    recipe = write_recipe(tmp_path, KERAS, "keras_overflows")
    choices = {"framework": "tensorflow", "checkpoints": EVERY_STEP, "gradient_clip": None}
    alone, central = (train(spec(recipe, name, **choices), runs_root) for name in ("single", "central_storage"))
    assert losses(central) == pytest.approx(losses(alone), rel=1e-3)
    assert skipped(central) == skipped(alone)
    assert losses(resumed(broken_off(central, 7, runs_root))) == pytest.approx(losses(central), rel=1e-5)


@pytest.mark.soak
@pytest.mark.parametrize("framework", ["tensorflow", "keras"])
def test_keras_scales_the_loss_with_every_strategy_and_resumes(framework: str, runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, KERAS, "keras_overflows")
    alone = train(spec(recipe, framework=framework, checkpoints=EVERY_STEP, gradient_clip=None), runs_root)
    assert skipped(alone)[0].startswith("float16: 1 of the first 1 steps changed nothing")
    assert losses(alone)[-1] < losses(alone)[0]
    assert set(alone.run_series.metrics["val_is_half"].values.tolist()) == {1.0}
    assert losses(resumed(broken_off(alone, 7, runs_root))) == losses(alone)
    clipped = train(spec(recipe, framework=framework), runs_root)
    for each in strategies.strategies_of(framework):
        if each.name in {"single", REFUSED} or validation.obstacle(each, cpu_devices()[:2]):
            continue
        for wanted, gradient_clip in ((alone, None), (clipped, 20.0)):
            followed = train(
                spec(recipe, each.name, framework=framework, accumulation=2, gradient_clip=gradient_clip), runs_root
            )
            assert losses(followed) == pytest.approx(losses(wanted), rel=1e-3), each.name
            assert skipped(followed)[0] == skipped(wanted)[0], each.name
