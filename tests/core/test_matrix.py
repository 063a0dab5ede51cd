"""Every available cell on two CPU devices walks its framework's curve of one device, and leaves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core import catalog
from core.devices.cpu import cpu_devices
from core.state import RunState
from tests.running import CAME_UP, Followed, make_spec, train

if TYPE_CHECKING:
    from pathlib import Path

    from core.catalog import Cell

EPOCHS = 3
STEPS = 69
"""1437 digits in batches of 64: the last batch of each epoch has 29, which two devices cannot share evenly."""
TOLERANCE = {"pytorch": 1e-5, "tensorflow": 1e-4, "keras": 1e-4}
ASYNCHRONOUS = {"parameter_server"}
TWO = cpu_devices()[:2]


def devices_of(cell: Cell) -> str:
    return ",".join(device.id for device in TWO[: cell.most_devices])


def is_available(cell: Cell) -> bool:
    return not catalog.obstacle(cell, TWO[: cell.most_devices])


AVAILABLE = [cell for cell in catalog.CELLS if is_available(cell)]
SYNCHRONOUS = [cell for cell in AVAILABLE if cell.strategy not in ASYNCHRONOUS]


def name(cell: Cell) -> str:
    return f"{cell.framework}-{cell.strategy}"


def run(cell: Cell, runs_root: Path, **training: object) -> Followed:
    spec = make_spec(
        "digits_cnn", framework=cell.framework, strategy=cell.strategy, devices=devices_of(cell),
        **{"epochs": EPOCHS, "batch_size": 64, "seed": 3, **training},
    )  # fmt: skip
    return train(spec, runs_root)


@pytest.fixture(scope="session")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Followed]:
    """`single` of each framework, trained when it is first asked for."""
    return _Baselines(tmp_path_factory.mktemp("baselines"))


class _Baselines(dict[str, Followed]):
    def __init__(self, root: Path) -> None:
        self._root = root

    def __missing__(self, framework: str) -> Followed:
        self[framework] = run(catalog.cell(framework, "single"), self._root)
        return self[framework]


def check_whole(followed: Followed, epochs: int = EPOCHS) -> None:
    """It ran to its end, and every step is there."""
    steps = epochs * STEPS // EPOCHS
    assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
    assert followed.states == [*CAME_UP, RunState.RELEASING, RunState.FINISHED]
    assert followed.book.metrics["loss"].steps.tolist() == list(range(1, steps + 1))
    assert followed.book.metrics["val_accuracy"].count == epochs


def check_curve(followed: Followed, baseline: Followed, relative: float) -> None:
    losses, wanted = followed.losses(), baseline.losses()
    differences = [abs(one - other) / other for one, other in zip(losses, wanted, strict=True)]
    assert max(differences) < relative, f"step {differences.index(max(differences)) + 1}: {max(differences):.2g}"
    for metric in ("val_loss", "val_accuracy"):
        values, others = (each.book.metrics[metric].values.tolist() for each in (followed, baseline))
        assert values == pytest.approx(others, rel=relative), metric


def test_the_table_is_the_one_that_is_promised() -> None:
    assert [name(cell) for cell in AVAILABLE] == [
        "pytorch-single", "pytorch-ddp", "pytorch-fsdp", "pytorch-pipeline", "pytorch-placement",
        "tensorflow-single", "tensorflow-mirrored", "tensorflow-central_storage", "tensorflow-multi_worker_mirrored",
        "tensorflow-parameter_server", "tensorflow-towers", "tensorflow-placement",
        "keras-single", "keras-mirrored", "keras-placement",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "accumulation"),
    # `single` itself is the curve of one device.
    [(cell, many) for cell in SYNCHRONOUS for many in (1, 2) if many > 1 or cell.strategy != "single"],
    ids=lambda value: value if isinstance(value, int) else name(value),
)
def test_every_synchronous_cell_walks_the_curve_of_one_device(
    cell: Cell, accumulation: int, runs_root: Path, baselines: dict[str, Followed]
) -> None:
    followed = run(cell, runs_root, accumulation=accumulation)
    check_whole(followed)
    check_curve(followed, baselines[cell.framework], TOLERANCE[cell.framework])


@pytest.mark.slow
def test_the_asynchronous_cell_learns_as_much(runs_root: Path) -> None:
    """At the end of a training that is long enough: on the way there no two asynchronous runs are alike."""
    cell, single = (catalog.cell("tensorflow", strategy) for strategy in ("parameter_server", "single"))
    followed, baseline = (run(each, runs_root, epochs=10) for each in (cell, single))
    check_whole(followed, epochs=10)
    assert any("asynchronous" in text for text in followed.run.facts.notices)
    accuracy, wanted = (each.book.metrics["val_accuracy"].values[-3:].mean() for each in (followed, baseline))
    assert accuracy > wanted - 0.02
