"""Several optimizers in turn, parameter groups, and what the recipe's optimizers may not do."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from tests.framework.test_documentation import SOURCES
from tests.support.by_hand import batches, functions_of
from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import curves, train, write_recipe
from tests.support.small_runs import assert_same_curves, recipe_fixture
from tests.support.small_runs import small_spec as spec

GAN = """
    import torch
    from torch import nn
    from torch.nn.functional import binary_cross_entropy_with_logits as entropy

    class Gan(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 6))
            self.discriminator = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))

        def judge(self, points):
            return self.discriminator(points)

    def model():
        return Gan()

    def train_data():
        generator = torch.Generator().manual_seed(7)
        # The noise comes with the data: drawn in the step, each rank would draw its own.
        return {"real": torch.randn(65, 6, generator=generator) + 2, "noise": torch.randn(65, 4, generator=generator)}

    def val_data():
        return train_data()

    def optimizers(model):
        return {
            "discriminator": torch.optim.Adam(model.discriminator.parameters(), lr=0.01),
            "generator": torch.optim.SGD(model.generator.parameters(), lr=0.1, momentum=0.9),
        }

    def training_step(model, batch, optimizer):
        made = model.generator(batch["noise"])
        if optimizer == "generator":
            judged = model.judge(made)
            return entropy(judged, torch.ones_like(judged))
        judged = model.judge(made.detach())
        real = model.judge(batch["real"])
        loss = entropy(real, torch.ones_like(real)) + entropy(judged, torch.zeros_like(judged))
        return {"loss": loss, "real": real.sigmoid().mean()}

    def validation_step(model, batch):
        judged = model.judge(model.generator(batch["noise"]))
        return entropy(judged, torch.ones_like(judged))
"""
"""65 items in batches of 16: the last batch has one item, so one of two ranks has none."""
PLACED = f"""{GAN}
    def placed_model(devices):
        net = model()
        net.generator.to(devices[0])
        net.discriminator.to(devices[1])
        return net
"""
WEIGHTED = GAN.replace(
    """        loss = entropy(real, torch.ones_like(real)) + entropy(judged, torch.zeros_like(judged))
        return {"loss": loss, "real": real.sigmoid().mean()}
""",
    """        weight = batch["real"].abs().sum(1, keepdim=True)
        loss = entropy(real, torch.ones_like(real), weight, reduction="sum")
        loss = loss + entropy(judged, torch.zeros_like(judged), weight, reduction="sum")
        return {"loss": loss / weight.sum(), "weight": weight.sum()}
""",
)
assert WEIGHTED != GAN
SCHEDULED = f"""{GAN}
    def schedule(optimizer, steps, name):
        if name == "discriminator":
            return None
        return torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=steps)
"""


def by_hand(recipe: str, change: Callable[[str, torch.optim.Optimizer, int], object] = lambda *_: None) -> dict:
    """Return the losses of a loop over two epochs. `change` is called before each step of an optimizer."""
    functions = functions_of(recipe)
    data = functions["train_data"]()
    torch.manual_seed(0)
    model = functions["model"]()
    optimizers = functions["optimizers"](model)
    losses: dict[str, list[float]] = {name: [] for name in optimizers}
    for index in batches(65, epochs=2):
        batch = {name: values[index] for name, values in data.items()}
        for name, optimizer in optimizers.items():
            model.zero_grad()
            found = functions["training_step"](model, batch, name)
            loss = found["loss"] if isinstance(found, dict) else found
            loss.backward()
            change(name, optimizer, len(losses[name]) + 1)
            optimizer.step()
            losses[name].append(loss.item())
    return losses


gan = recipe_fixture("gan", GAN)


@pytest.fixture(scope="module")
def baselines(gan: str, pools: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    root = tmp_path_factory.mktemp("baselines")
    weighted = write_recipe(root, WEIGHTED, "weighted")
    return {name: curves(train(spec(path), root / "runs")) for name, path in (("gan", gan), ("weighted", weighted))}


SETTINGS: dict[str, dict[str, Any]] = {
    "schedule": {},
    "rate": {"learning_rate": 0.001},
    "warm-up": {"warmup_steps": 4},
    "clipping": {"gradient_clip": 0.05},
    "decay": {"weight_decay": 0.5},
}


def changed(setting: str) -> Callable[[str, torch.optim.Optimizer, int], None]:
    """Return what a hand-written loop does before each step of an optimizer to get the same as a setting."""
    first: dict[str, float] = {}

    def change(name: str, optimizer: torch.optim.Optimizer, step: int) -> None:
        (group,) = optimizer.param_groups
        rate = first.setdefault(name, group["lr"])
        if setting == "schedule" and name == "generator":
            group["lr"] = rate * (1 - 0.9 * (step - 1) / 10)
        if setting == "rate":
            group["lr"] = rate / 10  # of the first optimizer 0.01: the other keeps its proportion
        if setting == "warm-up":
            group["lr"] = rate * min(1, step / 4)
        if setting == "clipping":
            torch.nn.utils.clip_grad_norm_(group["params"], 0.05)
        if setting == "decay":
            with torch.no_grad():
                for parameter in group["params"]:
                    parameter.mul_(1 - rate * 0.5)

    return change


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_hold_for_each_of_several_optimizers(setting: str, runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, SCHEDULED if setting == "schedule" else GAN)
    found = curves(train(spec(recipe, "ddp", **SETTINGS[setting]), runs_root))
    wanted = by_hand(recipe, changed(setting))
    for name in ("discriminator", "generator"):
        assert found[f"loss_{name}"] == pytest.approx(wanted[name], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["single", "fsdp"])
def test_several_optimizers_go_on_after_a_resume(strategy: str, runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, SCHEDULED)
    whole = train(spec(recipe, strategy, checkpoints=EVERY_STEP), runs_root)
    again = resumed(broken_off(whole, 7, runs_root))
    wanted = curves(whole)
    assert set(wanted) >= {"loss", "loss_discriminator", "loss_generator", "real", "val_loss"}
    for name, values in curves(again).items():
        if name == "learning_rate":
            continue  # recorded when it differs from the last one that this process has recorded
        assert values == (wanted[name] if strategy == "single" else pytest.approx(wanted[name], rel=1e-6)), name


GROUPS = f"""{GAN.partition("    def optimizers")[0]}
    def optimizer(model, learning_rate=0.1):
        return torch.optim.SGD(
            [
                {{"params": model.generator.parameters(), "lr": learning_rate / 10, "weight_decay": 0.1}},
                {{"params": model.discriminator.parameters()}},
            ],
            lr=learning_rate, momentum=0.9,
        )

    def training_step(model, batch):
        judged = model.judge(model.generator(batch["noise"]) + batch["real"])
        return entropy(judged, torch.ones_like(judged))
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp"])
def test_parameter_groups_keep_their_rates_and_go_on_after_a_resume(strategy, runs_root, tmp_path) -> None:
    recipe = write_recipe(tmp_path, GROUPS)
    settings = {"warmup_steps": 4, "schedule": "cosine", "gradient_clip": 0.1, "learning_rate": 0.2}
    whole = train(spec(recipe, strategy, checkpoints=EVERY_STEP, **settings), runs_root)
    functions = functions_of(recipe)
    data = functions["train_data"]()
    torch.manual_seed(0)
    model = functions["model"]()
    optimizer = functions["optimizer"](model, 0.2)
    losses: list[float] = []
    for step, index in enumerate(batches(65, epochs=2), 1):
        factor = step / 4 if step <= 4 else 0.5 * (1 + math.cos(math.pi * (step - 5) / 6))
        for group, rate in zip(optimizer.param_groups, (0.02, 0.2), strict=True):
            group["lr"] = rate * factor
        optimizer.zero_grad()
        loss = functions["training_step"](model, {name: values[index] for name, values in data.items()})
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
    assert curves(whole)["loss"] == pytest.approx(losses, rel=1e-5)
    again = curves(resumed(broken_off(whole, 7, runs_root)))
    assert again["loss"] == (whole.losses() if strategy == "single" else pytest.approx(whole.losses(), rel=1e-6))


def test_each_optimizer_steps_with_the_gradients_of_its_own_pass(gan: str, baselines: dict) -> None:
    found, wanted = baselines["gan"], by_hand(gan)
    for name in ("discriminator", "generator"):
        assert found[f"loss_{name}"] == pytest.approx(wanted[name], rel=1e-6)
    assert found["loss"] == pytest.approx([sum(pair) for pair in zip(*wanted.values(), strict=True)], rel=1e-6)
    assert len(found["real"]) == 10, "a metric of one of them, in each step"
    assert len(found["val_loss"]) == 2
    assert found["learning_rate"] == [pytest.approx(0.01)], "of the first"


@pytest.mark.parametrize(
    ("which", "strategy", "accumulation"),
    [
        ("gan", "ddp", 1),
        ("gan", "ddp", 2),
        ("gan", "fsdp", 2),
        ("gan", "placement", 1),
        ("gan", "single", 4),
        ("weighted", "ddp", 2),
        ("weighted", "fsdp", 2),
    ],
)
def test_several_optimizers_have_one_curve_on_one_and_on_two_devices(
    which: str, strategy: str, accumulation: int, baselines: dict, runs_root: Path, tmp_path: Path
) -> None:
    source = WEIGHTED if which == "weighted" else PLACED if strategy == "placement" else GAN
    found = curves(train(spec(write_recipe(tmp_path, source), strategy, accumulation=accumulation), runs_root))
    assert_same_curves(found, baselines[which], 1e-5)


RETURNED = re.search(r"return (\{\n.*?\n        \})", GAN, re.DOTALL)[1]  # type: ignore[index]  # it is there


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((RETURNED, "[]"), "optimizers() of wrong returned list. Return a dict of names and torch.optim.Optimizer"),
        ((RETURNED, "{}"), "optimizers() of wrong returned a dict of ()."),
        ((RETURNED, "{'generator': 1}"), "returned a dict of ('generator': int). Return a dict of names"),
        (
            ("SGD(model.generator", "SGD(model"),
            "The optimizers 'discriminator' and 'generator' of wrong share the parameter discriminator.0.weight.",
        ),
        (
            ("SGD(model.generator", "SGD(nn.Linear(1, 1)"),
            "Optimizer 'generator' of wrong has a parameter that is not one of the model. Make it a part of",
        ),
        (
            ('if optimizer == "generator"', 'if optimizer == "maker"'),
            "No parameter of optimizer 'generator' got a gradient from training_step(model, batch, 'generator').",
        ),
    ],
)
def test_optimizers_that_cannot_be_used_are_named(change, words, runs_root, tmp_path) -> None:
    strategy = "ddp" if words.startswith("No parameter") else "single"  # the others are found before the ranks meet
    assert change[0] in GAN
    followed = train(spec(write_recipe(tmp_path, GAN.replace(*change), "wrong"), strategy, epochs=1), runs_root)
    assert words in followed.failure


@pytest.mark.parametrize(
    ("strategy", "change", "words"),
    [
        (
            "single",
            ("batch, optimizer)", "batch)"),
            "is called with model, batch, optimizer, but it takes model, batch.",
        ),
        ("single", ("def validation_step", "def _step"), "nothing says how to validate. Add validation_st"),
        ("single", ("def optimizers", "def optimizer(p): pass\n\n    def optimizers"), "has optimizer.., too"),
        ("single", ("def training_step", "def _step"), "each optimizer needs a loss. Add training_step"),
        ("single", ("optimizers(model)", "optimizers()"), "is called with model, but it takes no arguments"),
        ("pipeline", ("", ""), "because no device has the whole model. Choose strategy single, ddp"),
        ("data_parallel", ("", ""), "because it divides the batch after collating it. Choose strategy"),
    ],
)
def test_optimizers_that_cannot_be_trained_are_refused_before_the_start(strategy, change, words, tmp_path) -> None:
    path = write_recipe(tmp_path, GAN.replace(*change), "refused")
    choices = RecipeChoices(recipe=path, devices=("cpu:0", "cpu:1"), strategy=strategy)
    with pytest.raises(ValueError, match=words):
        compose(choices, cpu_devices())


def test_optimizer_of_a_whole_model_is_refused_for_a_pipeline(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, GROUPS.replace("def training_step", "def _step"), "whole")
    choices = RecipeChoices(recipe=path, devices=("cpu:0", "cpu:1"), strategy="pipeline")
    with pytest.raises(ValueError, match="whole needs the model, but in a pipeline no device has the whole model"):
        compose(choices, cpu_devices())


@pytest.mark.slow
def test_documented_gan_trains_on_two_devices(runs_root: Path, tmp_path: Path) -> None:
    (source,) = [each for each in SOURCES if "def optimizers" in each]
    found = curves(train(spec(write_recipe(tmp_path, source, "circle"), "ddp", epochs=4), runs_root))
    assert found.keys() == {"loss", "loss_generator", "loss_discriminator", "told_apart", "learning_rate"}
    assert found["loss_discriminator"][-1] < found["loss_discriminator"][0]
