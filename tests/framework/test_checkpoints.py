"""PyTorch checkpoints: exact resumption, complete after any kill, refused if they belong to another model."""

from __future__ import annotations

import json
import os
import textwrap
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from core.runs.directory import new_directory
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.events import Tail
from core.schema.paths import EVENTS
from core.schema.spec import read_spec, write_spec
from tests.support.resuming import EVERY_STEP, LEARNING, broken_off, checkpoint_names, resumed, whole_and_stepwise
from tests.support.running import Followed, folded, make_spec, train, write_recipe

DROPS = """
    import torch
    from torch import nn

    def model(width=16):
        return nn.Sequential(
            nn.Linear(6, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Dropout(0.5), nn.Linear(width, 3)
        )

    def train_data(items=70):
        generator = torch.Generator().manual_seed(7)
        return torch.randn(items, 6, generator=generator), torch.randint(0, 3, (items,), generator=generator)

    def val_data():
        return train_data(items=21)

    def optimizer(params, learning_rate=0.01):
        return torch.optim.Adam(params, lr=learning_rate)
"""
"""70 items in batches of 16: the last batch has 6. Dropout draws random numbers, Adam and BatchNorm keep states."""


@pytest.fixture
def drops(tmp_path: Path) -> str:
    return write_recipe(tmp_path, DROPS, "drops")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Followed, Followed]:
    return whole_and_stepwise(partial(make_spec, **LEARNING), DROPS, tmp_path_factory.mktemp("finished"))


@pytest.fixture
def stepwise(finished: tuple[Followed, Followed]) -> Followed:
    return finished[1]


@pytest.fixture
def recipe(stepwise: Followed) -> Iterator[Path]:
    """The recipe of `stepwise`. A test may change it; it is restored afterwards."""
    path = Path(read_spec(stepwise.run.dir).recipe.path)
    yield path
    path.write_text(textwrap.dedent(DROPS))


@pytest.mark.slow
def test_resumed_run_is_bitwise_equal_to_uninterrupted_run(runs_root, finished) -> None:
    """Resume from the middle of an epoch, from its end and from the next epoch."""
    whole, stepwise = finished
    assert checkpoint_names(whole.run) == []
    assert stepwise.losses() == whole.losses()  # writing checkpoints changes nothing
    for step in (3, 5, 7):
        again = resumed(broken_off(stepwise, step, runs_root))
        assert again.states[2:] == [RunState.LOST, *stepwise.states], again.run.facts.error
        for metric, series in whole.run_series.metrics.items():
            assert again.run_series.metrics[metric].values.tolist() == series.values.tolist(), (step, metric)
            assert again.run_series.metrics[metric].steps.tolist() == series.steps.tolist(), (step, metric)


@pytest.mark.slow
def test_resumed_run_on_two_ranks_is_equal_within_rounding(runs_root: Path, drops: str) -> None:
    """Each rank has its own random state. With dropout, both must be restored."""
    settings = LEARNING | {"devices": "cpu:0,cpu:1"}
    stepwise = train(make_spec(drops, checkpoints=EVERY_STEP, **settings), runs_root)
    again = resumed(broken_off(stepwise, 7, runs_root))
    assert again.losses() == pytest.approx(stepwise.losses(), rel=1e-6)


@pytest.mark.e2e
@pytest.mark.parametrize("kills", [8, pytest.param(50, marks=pytest.mark.soak)])
def test_kills_during_checkpoint_writes_lose_nothing(runs_root, tmp_path, pools, kills) -> None:
    """Save a model of some megabytes after every step. Each process resumes from the last complete checkpoint."""
    heavy = write_recipe(tmp_path, DROPS.replace("width=16", "width=30_000"), "heavy")
    settings = {"epochs": kills, "batch_size": 16, "learning_rate": 1e-4}
    whole = train(make_spec(heavy, checkpoints={"unit": "never"}, **settings), runs_root)
    spec = make_spec(heavy, checkpoints={"unit": "steps", "every": 1, "keep": 2}, **settings)
    run_dir = new_directory(runs_root, "killed")
    write_spec(run_dir, spec)
    program = "import runpy; runpy.run_module('tests.support.killing', run_name='__main__', alter_sys=True)"
    result = json.loads(pools.run("torch", program, run_dir, kills))
    assert result["exit"] == 0, (run_dir / "log.txt").read_text()
    assert len(result["lives"]) == kills
    assert sum(bool(life["half"]) for life in result["lives"]) >= kills // 5  # depends on the disk
    assert all(life["then"] >= life["from"] for life in result["lives"])
    run_series = folded(*Tail(run_dir / EVENTS / "worker-0.jsonl").read())
    assert run_series.metrics["loss"].values.tolist() == whole.losses()
    assert not [name for name in checkpoint_names(Run(run_dir)) if name.startswith(".")]


@pytest.mark.slow
def test_checkpoint_of_another_model_or_dataset_is_refused(runs_root: Path, stepwise: Followed, recipe: Path) -> None:
    run_dir = broken_off(stepwise, 7, runs_root)
    recipe.write_text(recipe.read_text().replace("nn.Linear(6, width)", "nn.Linear(6, width, bias=False)"))
    failed = resumed(run_dir)
    assert "Checkpoint step-00000007 is of another model or optimizer" in str(failed.run.facts.error)
    assert "Undo the changes to the recipe, or start a new run." in str(failed.run.facts.error)
    recipe.write_text(textwrap.dedent(DROPS).replace("    generator = ", "    items += 20\n    generator = "))
    assert "5 steps per epoch, but now there are 6: the data have changed" in str(resumed(run_dir).run.facts.error)
    recipe.write_text(textwrap.dedent(DROPS))
    assert resumed(run_dir).losses() == stepwise.losses()


def test_checkpoint_contains_no_code(runs_root: Path, stepwise: Followed) -> None:
    """The loader refuses a pickle that would run a command, even with the right CRC."""
    run_dir = broken_off(stepwise, 7, runs_root)
    folder = run_dir / "checkpoints" / "step-00000007"
    torch.save({"evil": _Evil(run_dir / "ran")}, folder / "model.pt")
    manifest = json.loads((folder / "checkpoint.json").read_text())
    content = (folder / "model.pt").read_bytes()
    manifest["files"]["model.pt"] = {"bytes": len(content), "crc32": zlib.crc32(content)}
    (folder / "checkpoint.json").write_text(json.dumps(manifest))
    assert resumed(run_dir).state is RunState.FAILED
    assert not (run_dir / "ran").exists()


class _Evil:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self._path}",)
