"""Training data that can only be read in order, divided over ranks and data-loader workers."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset, get_worker_info

from core.worker.pytorch.task.data import Shares
from core.worker.pytorch.task.stream import StreamBatches
from tests.support.packages import needs_shared_memory
from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import curves, train, write_recipe
from tests.support.small_runs import assert_same_curves, recipe_fixture, small_spec

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker")  # on one core
ITEMS, BATCH = 1003, 64
STEPS = 16
"""1003 items in batches of 64: the last has 43, which two ranks cannot share evenly."""
RECIPE = """
    import random
    import torch
    from torch import nn
    from torch.utils.data import IterableDataset

    class Numbers(IterableDataset):
        def __iter__(self):
            order = list(range(203))
            random.shuffle(order)  # by the global random numbers, which the run must fix
            for number in order:
                yield torch.full((4,), number / 203), torch.tensor([number / 100])

    def model(dropout=0.0):
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))

    def train_data():
        return Numbers()

    def val_data():
        return (item for item in Numbers())

    def loss():
        return nn.functional.mse_loss

    def optimizer(params, learning_rate=0.05):
        return torch.optim.SGD(params, lr=learning_rate, momentum=0.9)
"""
"""203 items in batches of 16: 13 steps, the last with 11 items."""


class Shuffled(IterableDataset[int]):
    """Numbers in an order drawn from the global random numbers; divides itself among loader workers, as many do."""

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(ITEMS).tolist()
        info = get_worker_info()
        return iter(order if info is None else order[info.id :: info.num_workers])


def batches(
    rank: int = 0, ranks: int = 1, *, workers: int = 0, accumulation: int = 1, steps: int | None = STEPS
) -> StreamBatches:
    return StreamBatches(
        Shuffled, "train_data", shares=Shares(BATCH, rank, ranks, accumulation), device=torch.device("cpu"),
        steps=steps, loader_workers=workers, seed=5, any_shape=True, collate=list,
    )


def read(stream: StreamBatches, epoch: int = 0, skip: int = 0) -> list[list[Any]]:
    """Return the items of each step, without those of share 0."""
    return [[item for batch in step if batch.share for item in batch.data] for step in stream.shuffled(epoch, skip)]


@needs_shared_memory
def test_each_item_is_read_once_by_two_ranks_with_two_loader_workers_each() -> None:
    alone = read(batches())
    ranks = [read(batches(rank, 2, workers=2)) for rank in range(2)]
    assert sorted(item for step in alone for item in step) == list(range(ITEMS))
    assert [[*one, *other] for one, other in zip(*ranks, strict=True)] == alone, "the steps of one device"


def test_order_is_fixed_by_seed_and_epoch_and_leaves_other_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    first, second, again = read(batches(), 0), read(batches(), 1), read(batches(), 0)
    assert first == again
    assert first != second
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=needs_shared_memory)])
def test_skipped_steps_are_neither_lost_nor_read_again(workers: int) -> None:
    whole = read(batches(workers=workers), 3)
    assert read(batches(workers=workers), 3, skip=7) == whole[7:]


def test_shares_of_micro_batches_add_up_to_one_also_in_an_uneven_step() -> None:
    shares = [0.0] * STEPS
    for rank in range(2):
        for number, step in enumerate(batches(rank, 2, accumulation=3).shuffled(0)):
            shares[number] += sum(batch.share for batch in step)
    assert shares == pytest.approx([1.0] * STEPS, rel=1e-12)


def test_rank_without_an_item_takes_part_with_share_zero() -> None:
    stream = StreamBatches(
        lambda: iter(range(5)), "train_data", shares=Shares(4, 1, 2, 1), device=torch.device("cpu"), steps=2,
        any_shape=True, collate=list,
    )
    assert [[tuple(batch) for batch in step] for step in stream.shuffled(0)] == [[([2, 3], 0.5)], [([4], 0.0)]]


spec = partial(small_spec, steps_per_epoch=13)
recipe = recipe_fixture("stream", RECIPE)


@pytest.fixture(scope="module")
def alone(recipe: str, pools: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    return curves(train(spec(recipe), tmp_path_factory.mktemp("alone") / "runs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        ("ddp", {}),
        pytest.param("ddp", {"accumulation": 2, "loader_workers": 2}, marks=needs_shared_memory),
        ("fsdp", {}),
        ("placement", {}),
    ],
)
def test_stream_has_one_curve_on_one_and_on_two_devices(strategy, more, recipe, alone, runs_root) -> None:
    if "loader_workers" in more:  # which cannot read a generator
        recipe = write_recipe(runs_root.parent, RECIPE.replace("(item for item in Numbers())", "Numbers()"), "workers")
    found = curves(train(spec(recipe, strategy, **more), runs_root))
    assert len(found["loss"]) == 26
    assert_same_curves(found, alone, 1e-5)


@pytest.mark.slow
def test_resumed_run_reads_no_item_twice(recipe: str, runs_root: Path) -> None:
    whole = train(spec(recipe, checkpoints=EVERY_STEP, settings={"dropout": 0.3}), runs_root)
    again = resumed(broken_off(whole, 17, runs_root))  # in the middle of the second epoch
    wanted, found = curves(whole), curves(again)
    assert (found["loss"], found["val_loss"]) == (wanted["loss"], wanted["val_loss"])


KEEPING = f"""
    import torch
    from torch import nn
    from torch.utils.data import IterableDataset

    class Numbers(IterableDataset):
        def __init__(self, path):
            self.path = path

        def set_epoch(self, epoch):
            self.order, self.at = None, 0

        def state_dict(self):
            return {{"order": self.order, "at": self.at}}

        def load_state_dict(self, state):
            self.order, self.at = state["order"], state["at"]

        def __iter__(self):
            if self.order is None:
                self.order = torch.randperm(203).tolist()
            while self.at < len(self.order):
                number = self.order[self.at]
                self.at += 1
                with open(self.path, "a") as file:
                    file.write(f"{{number}} ")
                yield torch.full((4,), number / 203) + 0.1 * torch.randn(4), torch.tensor([number / 100])

    def train_data(path=""):
        return Numbers(path)

    def val_data(path=""):
        return Numbers(path)

    def model(dropout=0.0):{RECIPE.partition("def model(dropout=0.0):")[2].partition("    def train_data")[0]}
    def loss(){RECIPE.partition("def loss()")[2]}
"""
"""A stream that can keep its place. It draws an order and noise from the global random numbers."""


@pytest.mark.slow
def test_stream_with_a_state_goes_on_where_it_was_left(runs_root: Path, tmp_path: Path) -> None:
    recipe, items = write_recipe(tmp_path, KEEPING, "keeping"), tmp_path / "items.txt"
    settings = {"dropout": 0.3, "path": str(items)}
    whole = train(spec(recipe, checkpoints=EVERY_STEP, settings=settings), runs_root)
    before = len(items.read_text().split())
    again = resumed(broken_off(whole, 17, runs_root))  # in the middle of the second epoch
    wanted, found = curves(whole), curves(again)
    assert (found["loss"], found["val_loss"]) == (wanted["loss"], wanted["val_loss"])
    assert len(items.read_text().split()) - before == 203 - 4 * 16 + 203, "the rest of the epoch, and a validation"


class Placed(IterableDataset[int]):
    """A stream whose state holds more than plain values."""

    at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "when": runtime_value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError(state)

    def __iter__(self) -> Iterator[int]:
        return iter(range(ITEMS))


runtime_value = object()


def test_state_that_is_not_of_plain_values_is_not_kept() -> None:
    stream = StreamBatches(
        Placed, "train_data", shares=Shares(BATCH, 0, 1, 1), device=torch.device("cpu"), steps=STEPS, any_shape=True,
        collate=list,
    )
    steps = stream.shuffled(0)
    next(steps)
    assert stream.state_dict() == {}


@pytest.mark.parametrize(
    ("change", "training", "words"),
    [
        (("", ""), {"steps_per_epoch": None}, "a stream of unknown length. Give the number of steps per epoch"),
        (
            ("", ""),
            {"steps_per_epoch": 14},
            "The stream of train_data() ended after 13 steps of 16 items, but an epoch",
        ),
        (("range(203)", "range(0)"), {}, "train_data() returned an empty stream. There is nothing to train on."),
        (("return Numbers()", "return iter(Numbers())"), {"loader_workers": 1}, "which no other process can read"),
        (("return Numbers()", "return torch.zeros(8, 4), torch.zeros(8, 1)"), {}, "but 8 items are only 1 steps of 16"),
    ],
)
def test_stream_that_cannot_be_read_is_explained(change, training, words, runs_root, tmp_path) -> None:
    followed = train(spec(write_recipe(tmp_path, RECIPE.replace(*change, 1), "wrong"), **training), runs_root)
    assert words in followed.failure
    assert "train_data()" not in words or "train_data() begins in line 1" in followed.failure


def test_steps_per_epoch_shorten_the_epochs_of_other_data(runs_root: Path, tmp_path: Path) -> None:
    source = RECIPE.replace("return Numbers()", "return list(Numbers())").replace(
        "(item for item in Numbers())", "list(Numbers())"
    )
    found = train(spec(write_recipe(tmp_path, source, "short"), steps_per_epoch=4, epochs=3), runs_root)
    assert len(curves(found)["loss"]) == 12
    assert found.run.facts.plan is not None
    assert found.run.facts.plan.steps_per_epoch == 4
