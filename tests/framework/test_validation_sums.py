"""The sums of a PyTorch validation, and the weight of each rank's part of a batch."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from core.worker.pytorch.loop import Tally, Validation
from core.worker.pytorch.task.build import Task
from core.worker.pytorch.task.data import Batches

CPU = torch.device("cpu")


def batches(items: int, **more: Any) -> Batches:
    values = torch.arange(items, dtype=torch.float32)
    return Batches(TensorDataset(values, values), device=CPU, **more)


@pytest.mark.parametrize("many", [1, Tally.AT_ONCE, 2 * Tally.AT_ONCE + 3])
def test_sums_are_weighted_by_size_for_any_number_of_batches(many: int) -> None:
    generator = torch.Generator().manual_seed(0)
    means = torch.rand(many, 2, generator=generator)
    items = [64.0] * (many - 1) + [29.0]
    tally = Tally()

    for size, (loss, accuracy) in zip(items, means, strict=True):
        tally.add(size, [loss, accuracy])
    loss, accuracy, counted, cut = tally.sums(2, CPU, 0.0).tolist()

    expected = [math.fsum(map(float.__mul__, items, each)) for each in means.T.tolist()]
    assert [loss, accuracy] == pytest.approx(expected, rel=1e-14)
    assert (counted, cut) == (sum(items), 0.0)


def test_empty_tally_counts_no_items() -> None:
    assert Tally().sums(2, CPU, 1.0).tolist() == [0.0, 0.0, 0.0, 1.0]


def test_nan_metric_does_not_change_the_loss() -> None:
    tally = Tally()
    for _ in range(3):
        tally.add(2.0, [torch.tensor(0.5), torch.tensor(math.nan)])

    loss, metric, items, _ = tally.sums(2, CPU, 0.0).tolist()

    assert (loss, items) == (3.0, 6.0)
    assert math.isnan(metric)


def test_metrics_may_be_tensors_of_any_dtype_or_plain_numbers() -> None:
    model = torch.nn.Identity()
    task = Task(
        model=model,
        module=model,
        loss=lambda output, target: (output - target).abs().mean() + 2.0,
        optimizer=torch.optim.SGD([torch.zeros(1, requires_grad=True)]),
        train=batches(5, batch_size=2),
        val=batches(5, batch_size=2),
        metrics={
            "count": lambda output, _: len(output),
            "largest": lambda output, _: output.max().to(torch.bfloat16),
            "whole": lambda output, _: output.long().sum(),
        },
        autocast=None,
    )
    controller = SimpleNamespace(cuts_validation=lambda: False, probes=False)

    sums = Validation(task, task.model, controller).sums().tolist()  # type: ignore[arg-type]

    # Batches of 2, 2 and 1 of the numbers 0 to 4.
    assert sums == [10.0, 2 * 2 + 2 * 2 + 1, 2 * 1 + 2 * 3 + 4, 2 * 1 + 2 * 5 + 4, 5.0, 0.0]


@pytest.mark.parametrize(("items", "world_size"), [(9, 2), (10, 4), (17, 4), (16, 2), (3, 4)])
def test_batch_shares_of_all_ranks_sum_to_one(items: int, world_size: int) -> None:
    ranks = [batches(items, batch_size=8, rank=rank, world_size=world_size) for rank in range(world_size)]

    for step, parts in enumerate(zip(*(each.in_order() for each in ranks), strict=True)):
        of_step = [part for (part,) in parts]
        size = ranks[0].size(step)
        assert sum(part.share for part in of_step) == pytest.approx(1.0)
        for part in of_step:
            # A rank without an item trains on one with weight zero.
            assert part.share == (len(part.target) / size if part.share else 0.0)
            assert len(part.target) == (round(part.share * size) or 1)
