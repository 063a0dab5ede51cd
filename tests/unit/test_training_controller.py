"""The controller of a training: what its end of an epoch costs, and when its steps are said to have been."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from core.runs.directory import new_directory
from core.schema.events import Tail
from core.schema.paths import EVENTS
from core.schema.rank import RankAssignment
from core.schema.spec import write_spec
from core.worker.context import Context
from core.worker.controller import TrainingController
from core.worker.metrics_reporter import MetricsReporter, RankedMetricsReporter
from tests.support.running import make_spec
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from core.schema.checkpoint import StateSaver

STEPS = 3


class Alone(RankedMetricsReporter):
    """The reporter of several ranks, where this one is all there are; counts how often ranks would have met."""

    meetings = 0

    def _reduce(self, losses: list[float], shares: list[float], numbers: list[float]) -> list[float]:
        self.meetings += 1
        return [*(loss * share for loss, share in zip(losses, shares, strict=True)), *numbers]


def controller_of(
    runs_root: Path, reporter: type[MetricsReporter], **settings: object
) -> tuple[TrainingController, MetricsReporter, Path]:
    run_dir = new_directory(runs_root, "course")
    write_spec(run_dir, make_spec("digits_mlp", checkpoints={"unit": "never"}, **settings))
    assignment = RankAssignment(
        rank=0, world_size=1, devices=("cpu:0",), own=("cpu:0",), kind="cpu", cores=(), target="pytorch.single"
    )
    context = Context(str(run_dir), assignment)
    made = reporter(context)
    nothing_to_save = cast("StateSaver", None)
    return (
        TrainingController(context, made, nothing_to_save, steps_per_epoch=STEPS, samples_per_epoch=9, validates=True),
        made,
        run_dir,
    )


def mean(sums: Sequence[float]) -> dict[str, list[float]]:
    return {"val_loss": [sums[0] / sums[1]]}


def measured(log: Path) -> list[tuple[int, str, int]]:
    """First step, name and how many values, in their order; without the learning rate, which is told once."""
    lines = [each for each in Tail(log).read() if each["kind"] == "metrics"]
    every = [(each["first"], name, len(values)) for each in lines for name, values in each["values"].items()]
    return [each for each in every if each[1] != "learning_rate"]


@pytest.mark.parametrize(("settings", "expected"), [({}, [1, 0, 1]), ({"patience": 5}, [2, 2, 2])])
def test_ranks_meet_once_at_the_end_of_an_epoch_or_not_at_all(
    runs_root: Path, settings: dict[str, int], expected: list[int]
) -> None:
    """With the losses, the sums of the validation and what is asked for; early stopping knows the means only then.

    The first is met since it is not known yet how long a validation takes, the last since training ends there.
    """
    controller, reporter, _ = controller_of(runs_root, Alone, epochs=3, **settings)
    assert isinstance(reporter, Alone)
    for epoch, meetings in enumerate(expected):
        controller.after_step(1.0)
        reporter.report()  # so that no report is due by itself
        reporter._interval = reporter._countdown = 1000
        before = reporter.meetings
        for _ in range(STEPS - 1):
            controller.after_step(2.0)
        controller.after_epoch_steps(0.1)
        values = controller.finish_validation([3.0, 1.5], mean)
        assert values == ({"val_loss": [2.0]} if meetings else None)
        assert not controller.after_epoch(values)
        assert reporter.meetings - before == meetings, f"epoch {epoch}"


def test_one_device_writes_nothing_at_the_end_of_a_short_epoch_and_loses_nothing(runs_root: Path) -> None:
    """At the first it is not known yet how long a validation takes, and training ends at the last."""
    controller, reporter, run_dir = controller_of(runs_root, MetricsReporter, epochs=3)
    log, told = run_dir / EVENTS / "worker-0.jsonl", []
    for _ in range(3):
        controller.after_step(1.0)
        reporter.report()
        before = len(measured(log))
        reporter._interval, reporter._due = 1000, float("inf")  # no report is due by itself, and an epoch is a moment
        for _ in range(STEPS - 1):
            controller.after_step(2.0)
        controller.after_epoch_steps(0.1)
        assert not controller.after_epoch(controller.finish_validation([3.0, 1.5], mean))
        told.append([(first, name) for first, name, _ in measured(log)[before:]])
    assert told == [[(2, "loss"), (3, "val_loss")], [], [(8, "loss"), (9, "val_loss")]]
    kept = measured(log)
    losses = [(first, count) for first, name, count in kept if name == "loss"]
    assert [first + at for first, count in losses for at in range(count)] == list(range(1, 10))
    assert [first for first, name, _ in kept if name == "val_loss"] == [3, 6, 9]
    assert kept.index((5, "loss", 2)) < kept.index((6, "val_loss", 1)) < kept.index((7, "loss", 1))


@pytest.mark.parametrize(("takes_s", "expected_s"), [(0.0, 0.25), (0.0025, 0.5), (0.05, 1.0)])
def test_reports_for_which_ranks_meet_take_little_of_the_time(
    runs_root: Path, monkeypatch: pytest.MonkeyPatch, takes_s: float, expected_s: float
) -> None:
    """Steps of 1 ms. A report that takes long is made less often, but a request waits for no more than a second."""
    now, reported = 1000.0, []

    class Slow(Alone):
        def _reduce(self, losses: list[float], shares: list[float], numbers: list[float]) -> list[float]:
            nonlocal now
            now += takes_s
            reported.append(self.steps)
            return super()._reduce(losses, shares, numbers)

    monkeypatch.setattr("core.worker.metrics_reporter.time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    _, reporter, _ = controller_of(runs_root, Slow)
    for _ in range(60_000):
        now += 0.001
        reporter.step(1.0)
    assert (reported[-1] - reported[-2]) * 0.001 == pytest.approx(expected_s, rel=0.06)
    assert reported[:4] == [1, 3, 7, 15]


@pytest.mark.parametrize("reporter", [MetricsReporter, Alone])
def test_the_time_of_a_validation_is_none_of_the_steps(runs_root: Path, reporter: type[MetricsReporter]) -> None:
    """What is reported after it says when its steps were; and the next steps are not said to have been before it."""
    controller, made, run_dir = controller_of(runs_root, reporter, epochs=2)
    controller.after_step(1.0)
    made.report()
    trained = []
    for _ in range(2):
        made._due = float("inf")  # no report is due by itself
        if isinstance(made, Alone):
            made._interval = made._countdown = 1000
        controller.after_step(2.0)
        controller.after_step(3.0)
        controller.after_epoch_steps(0.1)
        trained.append(time.time())
        wait_until(lambda: time.time() > trained[-1] + 0.01, what="the validation")
        controller.after_epoch(controller.finish_validation([1.0, 1.0], mean))
    lines = [each for each in Tail(run_dir / EVENTS / "worker-0.jsonl").read() if "loss" in each.get("values", {})]
    assert [each["first"] for each in lines] == [1, 2, 4]
    assert lines[1]["t"] <= trained[0] < lines[2]["since"] <= lines[2]["t"] <= trained[1]
