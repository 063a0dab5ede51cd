"""PyTorch checkpoints: exact resumption, complete after any kill, refused if they belong to another model."""

import json
import os
import textwrap
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from core.runs.facts import RunState
from core.schema.spec import read_spec
from tests.support.resuming import EVERY_STEP, LEARNING, broken_off, checkpoint_names, resumed, whole_and_stepwise
from tests.support.running import Followed, make_spec, train, write_recipe

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
