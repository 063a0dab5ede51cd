"""TrainingController: synchronisations between ranks at the end of an epoch, and the times of reported steps."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from core.runs.directory import new_directory
from core.schema.checkpoint import StateSaver
from core.schema.events import Tail
from core.schema.paths import EVENTS
from core.schema.spec import write_spec
from core.worker.context import Context
from core.worker.training.controller import TrainingController
from core.worker.training.metrics_reporter import MetricsReporter
from tests.support.one_rank import ALONE, Ranks
from tests.support.running import make_spec

STEPS = 3


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock of the training, which stands still but for what a test adds to `now`."""
    found = SimpleNamespace(now=1000.0)
    found.monotonic = found.time = lambda: found.now
    for module in ("context", "training.controller", "training.metrics_reporter"):
        monkeypatch.setattr(f"core.worker.{module}.time", found)
    return found


def controller_of(
    runs_root: Path, ranks: Ranks | None = None, **settings: object
) -> tuple[TrainingController, MetricsReporter, Path]:
    run_dir = new_directory(runs_root, "course")
    write_spec(run_dir, make_spec("digits_mlp", checkpoints={"unit": "never"}, **settings))
    context = Context(str(run_dir), ALONE)
    metrics_reporter = MetricsReporter(context, ranks=ranks)
    nothing_to_save = cast("StateSaver", None)
    return (
        TrainingController(
            context, metrics_reporter, nothing_to_save, steps_per_epoch=STEPS, samples_per_epoch=9, validates=True
        ),
        metrics_reporter,
        run_dir,
    )


def mean(sums: Sequence[float]) -> dict[str, list[float]]:
    return {"val_loss": [sums[0] / sums[1]]}


def logged_metrics(log: Path) -> list[tuple[int, str, int]]:
    """(first step, name, number of values) of the logged metrics, in order, without the learning rate."""
    lines = [each for each in Tail(log).read() if each["kind"] == "metrics"]
    every = [(each["first"], name, len(values)) for each in lines for name, values in each["values"].items()]
    return [each for each in every if each[1] != "learning_rate"]


@pytest.mark.parametrize(("settings", "expected"), [({}, [1, 0, 1]), ({"patience": 5}, [2, 2, 2])])
def test_ranks_synchronise_at_most_once_at_the_end_of_an_epoch(runs_root, settings, expected) -> None:
    """One reduction carries losses, validation sums and requests. Early stopping needs it in every epoch."""
    ranks = Ranks()
    controller, reporter, _ = controller_of(runs_root, ranks, epochs=3, **settings)
    for epoch, reductions in enumerate(expected):
        controller.after_step(1.0)
        reporter.report()  # so that no report is due
        reporter._interval = reporter._countdown = 1000
        before = ranks.reductions
        for _ in range(STEPS - 1):
            controller.after_step(2.0)
        controller.after_epoch_steps(0.1)
        values = controller.finish_validation([3.0, 1.5], mean)
        assert values == ({"val_loss": [2.0]} if reductions else None)
        assert not controller.after_epoch(values)
        assert ranks.reductions - before == reductions, f"epoch {epoch}"


def test_single_device_skips_reports_of_short_epochs_but_loses_no_values(runs_root: Path) -> None:
    """The first epoch is reported, since its validation time is unknown, and the last, since training ends."""
    controller, reporter, run_dir = controller_of(runs_root, epochs=3)
    log, reported = run_dir / EVENTS / "worker-0.jsonl", []
    for _ in range(3):
        controller.after_step(1.0)
        reporter.report()
        before = len(logged_metrics(log))
        reporter._interval, reporter._due = 1000, float("inf")  # no report is due, and epochs count as short
        for _ in range(STEPS - 1):
            controller.after_step(2.0)
        controller.after_epoch_steps(0.1)
        assert not controller.after_epoch(controller.finish_validation([3.0, 1.5], mean))
        reported.append([(first, name) for first, name, _ in logged_metrics(log)[before:]])
    assert reported == [[(2, "loss"), (3, "val_loss")], [], [(8, "loss"), (9, "val_loss")]]
    kept = logged_metrics(log)
    losses = [(first, count) for first, name, count in kept if name == "loss"]
    assert [first + at for first, count in losses for at in range(count)] == list(range(1, 10))
    assert [first for first, name, _ in kept if name == "val_loss"] == [3, 6, 9]
    assert kept.index((5, "loss", 2)) < kept.index((6, "val_loss", 1)) < kept.index((7, "loss", 1))


@pytest.mark.parametrize(("report_s", "expected_s"), [(0.0, 0.25), (0.0025, 0.5), (0.05, 1.0)])
def test_report_interval_adapts_to_the_duration_of_a_report(runs_root, clock, report_s, expected_s) -> None:
    """Steps take 1 ms. A slow report is made less often, but at least once a second, so that requests are answered."""
    reported: list[int] = []

    class Slow(Ranks):
        def reduce(self, losses: list[float], shares: list[float], numbers: list[float]) -> list[float]:
            clock.now += report_s
            reported.append(reporter.steps)
            return super().reduce(losses, shares, numbers)

    _, reporter, _ = controller_of(runs_root, Slow())
    for _ in range(60_000):
        clock.now += 0.001
        reporter.step(1.0)
    assert (reported[-1] - reported[-2]) * 0.001 == pytest.approx(expected_s, rel=0.06)
    assert reported[:4] == [1, 3, 7, 15]


@pytest.mark.parametrize("ranks", [None, Ranks()])
def test_validation_time_is_not_counted_as_step_time(runs_root, clock, ranks) -> None:
    """Reports after the validation keep the times of the steps before it; later steps start after the validation."""
    controller, metrics_reporter, run_dir = controller_of(runs_root, ranks, epochs=2)
    controller.after_step(1.0)
    metrics_reporter.report()
    begun: list[float] = []
    ended: list[float] = []
    for _ in range(2):
        metrics_reporter._interval, metrics_reporter._due = 1000, float("inf")  # no report is due
        metrics_reporter._countdown = 1000
        clock.now += 1.0
        begun.append(clock.now)
        controller.after_step(2.0)
        clock.now += 1.0
        controller.after_step(3.0)
        controller.after_epoch_steps(0.1)
        ended.append(clock.now)
        clock.now += 0.01  # the validation
        controller.after_epoch(controller.finish_validation([1.0, 1.0], mean))
    lines = [each for each in Tail(run_dir / EVENTS / "worker-0.jsonl").read() if "loss" in each.get("values", {})]
    assert [each["first"] for each in lines] == [1, 2, 4]
    assert [(each["since"], each["t"]) for each in lines[1:]] == list(zip(begun, ended, strict=True))
