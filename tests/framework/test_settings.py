"""Common training settings: schedule, weight decay, clipping, early stopping and NaN losses."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from core.runs.facts import RunState
from tests.framework.test_checkpoints import DROPS
from tests.support.by_hand import functions_of, losses_by_hand
from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import make_spec, train, train_both, write_recipe
from tests.support.small_runs import recipe_fixture

PLAIN = DROPS.replace("nn.BatchNorm1d(width), nn.Tanh(), nn.Dropout(0.5)", "nn.Tanh()").replace(
    "torch.optim.Adam(params, lr=learning_rate)", "torch.optim.SGD(params, lr=learning_rate, momentum=0.9)"
)


plain = recipe_fixture("plain", PLAIN)


@pytest.mark.slow
def test_weight_decay_equals_adamw(runs_root: Path, tmp_path: Path) -> None:
    """Weight decay is decoupled: with Adam, each step equals torch.optim.AdamW."""
    adam = write_recipe(tmp_path, DROPS.replace(", nn.Dropout(0.5)", ""), "adam")
    decoupled = ("Adam(params, lr=learning_rate)", "AdamW(params, learning_rate, weight_decay=0.3)")
    adamw = write_recipe(tmp_path, Path(adam).read_text().replace(*decoupled), "adamw")
    common = {"epochs": 3, "batch_size": 16}
    for ours, theirs in [
        (make_spec(adam, **common, weight_decay=0.3), make_spec(adamw, **common, devices="cpu:1")),
        (make_spec(adamw, **common, weight_decay=0.0), make_spec(adam, **common, devices="cpu:1")),
    ]:
        one, other = train_both(ours, theirs, runs_root)
        assert len(one.losses()) == 15
        assert one.losses() == pytest.approx(other.losses(), rel=1e-6)


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,cpu:1"])
def test_gradient_clipping_uses_the_global_batch(runs_root: Path, plain: str, devices: str) -> None:
    followed = train(make_spec(plain, epochs=3, batch_size=16, gradient_clip=0.05, devices=devices), runs_root)

    def clip(model: nn.Module, _: object, __: int) -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)

    assert followed.losses() == pytest.approx(losses_by_hand(plain, 3, change=clip)[0], rel=1e-5)


def test_warmup_and_cosine_rates_are_recorded_for_every_step(runs_root: Path, plain: str) -> None:
    followed = train(make_spec(plain, epochs=3, batch_size=16, warmup_steps=5, schedule="cosine"), runs_root)
    rates = followed.run_series.metrics["learning_rate"]
    warm = [0.01 * step / 5 for step in range(1, 6)]
    down = [0.01 * 0.5 * (1 + math.cos(math.pi * step / 10)) for step in range(10)]
    assert rates.steps.tolist() == list(range(1, 16))
    assert rates.values.tolist() == pytest.approx([*warm, *down], rel=1e-7)

    def schedule(_: object, optimizer: torch.optim.Optimizer, step: int) -> None:
        optimizer.param_groups[0]["lr"] = [*warm, *down][step - 1]

    assert followed.losses() == pytest.approx(losses_by_hand(plain, 3, change=schedule)[0], rel=1e-6)


def test_early_stopping_finishes_the_run(runs_root: Path, plain: str) -> None:
    """With a rate that is too high, training ends two epochs after the best one."""
    followed = train(make_spec(plain, epochs=40, batch_size=16, learning_rate=3.0, patience=2), runs_root)
    assert followed.state is RunState.FINISHED
    losses = followed.run_series.metrics["val_loss"].values.tolist()
    best = losses.index(min(losses))
    assert len(losses) == best + 3 < 40
    assert any(
        text.startswith(f"Early stopping after epoch {len(losses)}: the loss has not been better than ")
        for text in followed.run.facts.notices
    )


EXPLODES = f"""{PLAIN.replace("def model(", "def inner(")}
    class Explodes(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = inner(), 0
        def forward(self, inputs):
            self.calls += 1
            return self.inner(inputs) * (float("nan") if self.calls >= 4 and self.training else 1.0)

    def model():
        return Explodes()
"""


def test_nan_loss_is_reported_with_its_step(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, EXPLODES, "explodes")
    common = {"epochs": 2, "batch_size": 16}
    warned, stopped = train_both(
        make_spec(recipe, **common), make_spec(recipe, **common, stop_on_nan=True, devices="cpu:1"), runs_root
    )
    assert warned.state is RunState.FINISHED
    assert warned.run.facts.notices[0].startswith("The loss became NaN at step 4 (learning rate ")
    assert "The run ended there, as its setting “Stop on NaN” says." in stopped.failure
    assert math.isnan(stopped.losses()[3])


PLAIN_INSTRUCTIONS = """
    from torch._inductor import config
    config.cpp.vec_isa_ok = False
    config.cpp_cache_precompile_headers = False
"""
"""Else torch's compiler builds four programs that try instructions of the processor, and the headers of many kernels
beforehand. Two kernels are compiled here, and most of the time was for these."""


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [14, pytest.param(16, marks=pytest.mark.soak)])
def test_compiled_training_has_the_same_losses(runs_root: Path, tmp_path: Path, batch_size: int) -> None:
    """Batches of 14 are all whole. With 16, the last batch is smaller, and torch compiles again: twice the time.

    Only with 16 does torch compile as it does by itself.
    """
    source = PLAIN.replace("items=21", "items=28") + {14: PLAIN_INSTRUCTIONS, 16: ""}[batch_size]
    recipe = write_recipe(tmp_path, source, "plain")
    compiled = train(make_spec(recipe, epochs=2, batch_size=batch_size, compile=True), runs_root)
    assert compiled.run.facts.error is None
    assert compiled.losses() == pytest.approx(losses_by_hand(recipe, 2, batch_size=batch_size)[0], rel=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            (", 3, (items,)", ", 5, (items,)"),
            "but the model has no such output: outputs are counted from 0. Check the labels",
        ),
        (("nn.Linear(6, width)", "nn.Linear(6, 10**15)"), "Device cpu:0 ran out of memory"),
        (("import torch", "import torch, tensorflow_is_not_here"), "ModuleNotFoundError"),
    ],
)
def test_training_errors_describe_the_cause(runs_root, tmp_path, change, words) -> None:
    recipe = write_recipe(tmp_path, PLAIN.replace(*change), "wrong")
    assert words in train(make_spec(recipe, epochs=2, batch_size=16), runs_root).failure


def test_dataset_of_one_item_trains_on_two_ranks(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, PLAIN.replace("items=70", "items=1"), "one")
    one = train(make_spec(recipe, epochs=3, batch_size=16), runs_root)
    two = train(make_spec(recipe, epochs=3, batch_size=16, devices="cpu:0,cpu:1"), runs_root)
    assert one.losses() == pytest.approx(two.losses(), rel=1e-5)
    assert len(one.losses()) == 3


OWN_SCHEDULE = f"""{PLAIN}
    def schedule(optimizer, steps):
        return torch.optim.lr_scheduler.SequentialLR(optimizer, milestones=[4], schedulers=[
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4),
            torch.optim.lr_scheduler.ExponentialLR(optimizer, 1 - 1 / steps),
        ])
"""


@pytest.mark.slow
def test_schedule_of_the_recipe_equals_a_hand_written_loop_and_goes_on_after_a_resume(
    runs_root: Path, plain: str, tmp_path: Path
) -> None:
    own = write_recipe(tmp_path, OWN_SCHEDULE, "scheduled")
    followed = train(make_spec(own, epochs=3, batch_size=16, checkpoints=EVERY_STEP), runs_root)
    schedules: list[torch.optim.lr_scheduler.LRScheduler] = []

    def change(_: object, optimizer: torch.optim.Optimizer, step: int) -> None:
        if step == 1:
            schedules.append(functions_of(own)["schedule"](optimizer, 15))
        else:
            schedules[0].step()

    wanted, _ = losses_by_hand(plain, 3, change=change)
    assert followed.losses() == pytest.approx(wanted, rel=1e-6)
    again = resumed(broken_off(followed, 7, runs_root))
    assert again.losses() == followed.losses()
    rates = again.run_series.metrics["learning_rate"].values.tolist()
    assert rates[-1] == pytest.approx(0.01 * (14 / 15) ** 11, rel=1e-6)


@pytest.mark.parametrize(
    ("framework", "training", "words"),
    [
        ("keras", {}, "which works with PyTorch only. Give the optimizer a schedule of keras.optimizers.schedules"),
        (
            "pytorch",
            {"warmup_steps": 3},
            "has a learning rate schedule of its own. Leave the schedule of the run constant",
        ),
    ],
)
def test_schedule_that_cannot_be_used_is_refused_before_the_start(framework, training, words, tmp_path) -> None:
    source = OWN_SCHEDULE.replace("import torch\n", "import torch, keras\n", 1).replace("def optimizer", "def _other")
    with pytest.raises(ValueError, match=words):
        make_spec(write_recipe(tmp_path, source, "refused"), framework=framework, **training)
