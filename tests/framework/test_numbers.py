"""Losses on one and two devices equal those of a hand-written PyTorch loop."""

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core.cli.__main__ import main
from resources import ROOT
from tests.support.by_hand import losses_by_hand
from tests.support.running import make_spec, train, train_both, write_recipe
from tests.support.small_runs import recipe_fixture

AWKWARD = """
    import torch
    from torch import nn

    def model(dropout=0.0):
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 3))

    def train_data(items=65):
        generator = torch.Generator().manual_seed(7)
        return torch.randn(items, 6, generator=generator), torch.randint(0, 3, (items,), generator=generator)

    def val_data():
        return train_data(items=21)

    def optimizer(params, learning_rate=0.1):
        return torch.optim.SGD(params, lr=learning_rate, momentum=0.9)

    def metrics():
        return {"accuracy": lambda output, target: (output.argmax(1) == target).float().mean()}
"""
"""65 items in batches of 16: the last batch has one item, so one of two ranks has none."""


awkward = recipe_fixture("awkward", AWKWARD)


def exported(run: str, runs_root: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the rows of `export --csv` by metric."""
    file = runs_root / f"{run}.csv"
    assert main(["export", run, "--csv", str(file), "--runs", str(runs_root)]) == 0
    rows: dict[str, list[tuple[int, float]]] = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            assert float(row["time"]) > 1.7e9
            rows.setdefault(row["metric"], []).append((int(row["step"]), float(row["value"])))
    return rows


def assert_close(losses: list[float], others: list[float], relative: float = 1e-5) -> None:
    assert len(losses) == len(others)
    for step, (one, other) in enumerate(zip(losses, others, strict=True), start=1):
        assert one == pytest.approx(other, rel=relative), f"step {step}"


@pytest.mark.e2e(pooled=True)
def test_one_and_two_devices_have_the_same_losses_from_the_command_line(runs_root: Path, capsys) -> None:
    curves = []
    for strategy, devices in (("ddp", "cpu:0,cpu:1"), ("single", "cpu:0")):
        code = main([
            "run", "digits_cnn", "--framework", "pytorch", "--strategy", strategy, "--devices", devices,
            "--epochs", "5", "--batch-size", "64", "--seed", "0", "--json", "--runs", str(runs_root),
        ])
        printed, errors = capsys.readouterr()
        assert code == 0, errors
        shown = json.loads(printed)
        assert shown["state"] == "finished"
        assert shown["steps"] == shown["metrics"]["loss"]["count"] == 115
        assert shown["metrics"]["val_accuracy"]["last"] >= 0.95
        curves.append(exported(shown["run"], runs_root)["loss"])
    assert [step for step, _ in curves[0]] == list(range(1, 116))
    assert_close(*[[loss for _, loss in curve] for curve in curves])


def test_single_device_losses_equal_hand_written_loop(runs_root: Path, tmp_path: Path) -> None:
    """With batch normalisation and dropout, which behave differently in training and in validation."""
    source = AWKWARD.replace("nn.Tanh(), nn.Dropout(dropout)", "nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.5)")
    recipe = write_recipe(tmp_path, source.replace("items=65", "items=64"), "normalised")
    followed = train(make_spec(recipe, epochs=3, batch_size=16, seed=5), runs_root)
    losses, val_losses = losses_by_hand(recipe, 3, seed=5)
    assert_close(followed.losses(), losses, relative=1e-8)  # events keep nine digits
    assert_close(followed.run_series.metrics["val_loss"].values.tolist(), val_losses, relative=1e-6)


@pytest.mark.parametrize(("batch_size", "steps"), [(16, 15), (512, 3)])
def test_two_ranks_have_the_losses_of_a_hand_written_loop(runs_root, awkward, batch_size, steps) -> None:
    """The last batch of 16 has one item. A batch of 512 has all 65 items, and a notice says so."""
    spec = make_spec(awkward, epochs=3, batch_size=batch_size)
    one, two = train(spec, runs_root), train(replace(spec, devices=("cpu:0", "cpu:1"), strategy="ddp"), runs_root)
    losses, _ = losses_by_hand(awkward, 3, batch_size=batch_size)
    assert len(losses) == steps
    assert_close(one.losses(), losses, relative=1e-8)
    assert_close(two.losses(), losses)
    for metric in ("val_loss", "val_accuracy"):
        assert_close(two.run_series.metrics[metric].values.tolist(), one.run_series.metrics[metric].values.tolist())
    told = "The batch size is 512, but there are only 65 items: each step uses all of them."
    for followed in (one, two):
        assert followed.run.facts.notices == ((told,) if batch_size == 512 else ())


@pytest.mark.slow
def test_gradient_accumulation_does_not_change_losses(runs_root: Path, awkward: str) -> None:
    plain, accumulated = train_both(
        make_spec(awkward, epochs=3, batch_size=16),
        make_spec(awkward, epochs=3, batch_size=16, accumulation=4, devices="cpu:1"),
        runs_root,
    )
    both = train(make_spec(awkward, epochs=3, batch_size=16, accumulation=2, devices="cpu:0,cpu:1"), runs_root)
    assert_close(accumulated.losses(), plain.losses())
    assert_close(both.losses(), plain.losses())


def test_loader_workers_do_not_change_losses(runs_root: Path, awkward: str) -> None:
    settings = {"dropout": 0.5}
    without, with_workers = train_both(
        make_spec(awkward, epochs=2, batch_size=16, settings=settings),
        make_spec(awkward, epochs=2, batch_size=16, settings=settings, loader_workers=2, devices="cpu:1"),
        runs_root,
    )
    assert with_workers.losses() == without.losses()


def test_bfloat16_precision_computes_in_bfloat16(runs_root: Path, tmp_path: Path) -> None:
    source = f"""{AWKWARD}
    def loss():
        def measure(output, target):
            assert output.dtype is torch.bfloat16, output.dtype
            return nn.functional.cross_entropy(output, target)
        return measure
    """
    recipe = write_recipe(tmp_path, source, "half")
    followed = train(make_spec(recipe, epochs=3, batch_size=16, precision="bfloat16"), runs_root)
    assert followed.run.facts.error is None
    losses, _ = losses_by_hand(recipe, 3)
    assert followed.losses() == pytest.approx(losses, rel=0.05)
    assert followed.losses() != pytest.approx(losses, rel=1e-5)


def test_ranks_use_different_dropout_masks(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path,
        """
        import os
        import torch
        from pathlib import Path
        from torch import nn
        import torch.distributed as dist

        class Kept(nn.Module):
            def __init__(self):
                super().__init__()
                self.drop, self.linear = nn.Dropout(0.5), nn.Linear(64, 2)
            def forward(self, inputs):
                kept = self.drop(inputs)
                (Path(__file__).parent / f"kept{dist.get_rank()}").write_text(str(kept[0].tolist()))
                return self.linear(kept)

        def model():
            return Kept()

        def train_data():
            return torch.ones(2, 64), torch.zeros(2).long()
        """,
        "drops",
    )
    train(make_spec(recipe, epochs=1, batch_size=2, devices="cpu:0,cpu:1"), runs_root)
    masks = [(tmp_path / f"kept{rank}").read_text() for rank in (0, 1)]
    assert masks[0] != masks[1]


def test_learning_rate_setting_overrides_the_recipe_optimizer(runs_root: Path, tmp_path: Path) -> None:
    """The optimizer of this recipe takes no learning rate."""
    source = AWKWARD.replace("(params, learning_rate=0.1)", "(params)")
    recipe = write_recipe(tmp_path, source.replace("lr=learning_rate, momentum=0.9", "lr=0.5"), "own_rate")
    own, asked = train_both(
        make_spec(recipe, epochs=1, batch_size=16),
        make_spec(recipe, epochs=1, batch_size=16, learning_rate=0.01, devices="cpu:1"),
        runs_root,
    )
    assert own.run_series.metrics["learning_rate"].values.tolist() == [0.5]
    assert asked.run_series.metrics["learning_rate"].values.tolist() == [0.01]


def test_digits_split_is_stratified_and_seeded() -> None:
    sys.path.insert(0, str(ROOT / "recipes" / "pytorch"))
    try:
        from digits_mlp import digits as split
    finally:
        sys.path.pop(0)
    (images, labels), (val_images, val_labels) = split(0, "train"), split(0, "val")
    assert len(labels) + len(val_labels) == 1797
    assert images.shape[1:] == val_images.shape[1:] == (1, 8, 8)
    shares = val_labels.bincount() / (val_labels.bincount() + labels.bincount())
    assert ((shares > 0.19) & (shares < 0.21)).all()
    assert not torch.equal(split(1, "val")[0][:10], val_images[:10])
    assert whole_digits(split, 0) == whole_digits(split, 1)  # every image is in one part, for any seed


def whole_digits(split: Callable[[int, str], tuple[torch.Tensor, torch.Tensor]], seed: int) -> list[list[float]]:
    """Return all images of both parts, sorted."""
    return sorted(torch.cat([split(seed, part)[0] for part in ("train", "val")]).flatten(1).tolist())
