"""The recipe's metrics on training batches: their values, how often they are measured, and that they change nothing."""

from pathlib import Path

import pytest
import torch

from core.runs.facts import RunState
from core.worker.pytorch.task.steps import TrainingMetrics
from core.worker.training.metrics import GROWTH, Cost
from tests.support.running import Followed, train, write_recipe
from tests.support.small_runs import recipe_fixture, small_spec

SLOW = """
    import time

    import torch
    from torch import nn

    class Slow(nn.Module):
        def forward(self, inputs):
            if self.training:
                time.sleep(0.006)
            return inputs

    def model():
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), Slow(), nn.Linear(16, 3))

    def train_data():
        generator = torch.Generator().manual_seed(7)
        return torch.randn(65, 6, generator=generator), torch.randint(0, 3, (65,), generator=generator)

    def val_data():
        return train_data()

    def optimizer(params):
        return torch.optim.SGD(params, lr=0.1, momentum=0.9)

    def accuracy(output, target):
        assert not output.requires_grad and not torch.is_grad_enabled()
        return (output.argmax(1) == target).float().mean()

    def metrics():
        return {"accuracy": accuracy, "margin": lambda output, target: output.max(1).values.mean()}
"""
"""65 items in batches of 16: the last batch has one item, so one of two ranks has none."""
OWN_STEP = (
    SLOW.replace("def metrics", "def _metrics").replace("assert", "0 #")
    + """
    def training_step(model, batch):
        output = model(batch[0])
        values = {name: metric(output, batch[1]) for name, metric in _metrics().items()}
        return {"loss": nn.functional.cross_entropy(output, batch[1]), **values}

    def loss():
        return nn.CrossEntropyLoss()
"""
)
EPOCHS = 8


def run(recipe: str, runs_root: Path, strategy: str = "single", **training: object) -> Followed:
    followed = train(small_spec(recipe, strategy, epochs=EPOCHS, **training), runs_root)
    assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
    return followed


slow = recipe_fixture("slow", SLOW)


@pytest.fixture(scope="module")
def of_every_step(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The loss and the metrics of every step, as a step of the recipe's own reports them."""
    folder = tmp_path_factory.mktemp("own")
    series = run(write_recipe(folder, OWN_STEP, "own_step"), folder / "runs").run_series.metrics
    return {name: series[name].values.tolist() for name in ("loss", "accuracy", "margin")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "accumulation"),
    [("single", 1), ("single", 4), ("ddp", 2), ("fsdp", 2), ("placement", 1), ("pipeline", 1)],
)
def test_training_metrics_are_the_means_over_the_global_batch(
    strategy: str, accumulation: int, slow: str, of_every_step: dict, runs_root: Path
) -> None:
    followed = run(slow, runs_root, strategy, accumulation=accumulation)
    series = followed.run_series.metrics
    for name in ("accuracy", "margin"):
        steps = series[name].steps.astype(int).tolist()
        assert steps[0] == 1
        # Growth is limited, so that at least every eighth step is measured at first; then it depends on the load.
        assert len(steps) > 1
        assert series[name].values.tolist() == pytest.approx(
            [of_every_step[name][step - 1] for step in steps], abs=1e-5
        )
    assert series["loss"].values.tolist() == pytest.approx(of_every_step["loss"], rel=1e-5)
    assert len(series["val_accuracy"]) == EPOCHS


def test_training_metrics_change_no_loss_and_can_be_switched_off(slow: str, runs_root: Path) -> None:
    on, off = (run(slow, runs_root, training_metrics=each).run_series.metrics for each in (True, False))
    assert on["loss"].values.tolist() == off["loss"].values.tolist()
    assert on["val_accuracy"].values.tolist() == off["val_accuracy"].values.tolist()
    assert on.keys() - off.keys() == {"accuracy", "margin"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"accuracy": accuracy', '"learning_rate": accuracy'), "a metric called learning_rate, a name that the run"),
        (
            (".float().mean()", ".float()"),
            "The metric 'accuracy' of metrics() returned a tensor of shape (16,). Return",
        ),
        (
            ("return (output.argmax(1) == target).float().mean()", "return None"),
            "'accuracy' of metrics() returned None",
        ),
    ],
)
def test_metric_that_cannot_be_used_is_named(change, words, runs_root, tmp_path) -> None:
    recipe = write_recipe(tmp_path, SLOW.replace(*change), "wrong")
    assert words in train(small_spec(recipe, epochs=1), runs_root).failure


def measured(metrics: TrainingMetrics, steps: range) -> list[int]:
    """Return which of these steps are measured."""
    found = []
    for step in steps:
        metrics.begin_step(step)
        found += [step] if metrics.is_due else []
    return found


def test_costly_metrics_are_measured_less_often_and_as_often_again_when_steps_are_long() -> None:
    metrics = TrainingMetrics(["accuracy"], torch.device("cpu"))
    assert measured(metrics, range(1, 5)) == [1, 2, 3, 4]
    metrics.plan(Cost(spent_us=800.0, measured=4.0, elapsed_us=100_000.0), steps=20)  # 200 of 5000 us: 4 %
    assert measured(metrics, range(1, 20)) == [8, 16]
    metrics.plan(Cost(spent_us=0.0, measured=0.0, elapsed_us=100_000.0), steps=1)
    assert measured(metrics, range(1, 13)) == [4, 8, 12], "a long step may have been a pause"
    metrics.plan(Cost(spent_us=200.0, measured=1.0, elapsed_us=100_000.0), steps=2)
    metrics.plan(Cost(spent_us=200.0, measured=1.0, elapsed_us=100_000.0), steps=2)
    assert measured(metrics, range(1, 4)) == [1, 2, 3]
    metrics.plan(Cost(spent_us=90_000.0, measured=1.0, elapsed_us=100_000.0), steps=2)
    assert measured(metrics, range(1, 2 * GROWTH + 1)) == [GROWTH, 2 * GROWTH], "the first takes longer"
    metrics.plan(Cost(spent_us=0.0, measured=0.0, elapsed_us=100_000.0), steps=2)
    assert measured(metrics, range(1, 2 * GROWTH + 1)) == [GROWTH, 2 * GROWTH], "nothing new is known"
    metrics.count_from(5)
    assert metrics.is_due, "the first step of an epoch, so that it has a mean"
    assert measured(metrics, range(5, 2 * GROWTH + 6)) == [5, 5 + GROWTH, 5 + 2 * GROWTH]
