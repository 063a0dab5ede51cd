"""Write a script's metrics as events and read them back into curves."""

from __future__ import annotations

from pathlib import Path

from core.metrics.merge import MergedReading
from core.metrics.rank_metrics import MetricEventWriter
from core.schema.event_log import Log
from core.schema.events import Writer
from core.schema.paths import EVENTS
from core.series.run_series import RunSeries


def recorded(run_dir: Path, *looks: tuple[list[MergedReading], float, float], rank: int = 0) -> tuple[RunSeries, int]:
    """Return the metrics read back after these writes, and the number of event lines."""
    (run_dir / EVENTS).mkdir()
    writer = Writer(run_dir / EVENTS / "collector.jsonl")
    batches = MetricEventWriter(rank, writer)
    for measured, since, until in looks:
        batches.write(measured, since=since, until=until)
    writer.close()
    events, run_series = Log(run_dir).read(), RunSeries()
    run_series.fold(events)
    return run_series, len(events)


def test_consecutive_steps_are_one_line_with_evenly_spaced_times(tmp_path: Path) -> None:
    measured = [MergedReading(values={"loss": 1.0 / step, "lr": 0.1}, step=step) for step in range(1, 5)]

    run_series, lines = recorded(tmp_path, (measured, 100.0, 102.0))

    assert lines == 1
    assert run_series.metrics["loss"].steps.tolist() == [1, 2, 3, 4]
    assert run_series.metrics["loss"].values.tolist() == [1.0, 0.5, 0.333333333, 0.25]
    assert run_series.metrics["loss"].times.tolist() == [100.5, 101.0, 101.5, 102.0]
    assert run_series.metrics["lr"].count == 4


def test_sparse_steps_are_kept_per_metric(tmp_path: Path) -> None:
    measured = [
        MergedReading(values={"loss": 3.0}, step=10),
        MergedReading(values={"loss": 2.0}, step=20),
        MergedReading(values={"val_loss": 2.5}, step=20),
        MergedReading(values={"loss": 1.0}, step=30),
    ]

    run_series, _ = recorded(tmp_path, (measured, 0.0, 1.0))

    assert run_series.metrics["loss"].steps.tolist() == [10, 20, 30]
    assert run_series.metrics["val_loss"].steps.tolist() == [20]


def test_times_given_by_the_source_are_kept(tmp_path: Path) -> None:
    loss = [MergedReading(values={"loss": 1.0}, step=step, time=1000.0 + step) for step in (1, 2, 3)]
    validation = [MergedReading(values={"val_loss": 1.0}, step=2, time=1002.5)]

    run_series, _ = recorded(tmp_path, ([*loss, *validation], 2000.0, 2001.0))

    assert run_series.metrics["loss"].times.tolist() == [1001.0, 1002.0, 1003.0]
    assert run_series.metrics["val_loss"].times.tolist() == [1002.5]


def test_more_reliable_source_restarts_a_curve(tmp_path: Path) -> None:
    guessed = [MergedReading(values={"loss": 9.0, "accuracy": 0.5}, step=step) for step in (1, 2, 3)]
    sure = [
        MergedReading(values={"loss": 1.0}, step=0, time=0.5, restarts=frozenset({"loss"})),
        MergedReading(values={"loss": 0.5}, step=1, time=0.6),
    ]

    run_series, _ = recorded(tmp_path, (guessed, 0.0, 1.0), (sure, 1.0, 2.0))

    assert run_series.metrics["loss"].steps.tolist() == [0, 1]
    assert run_series.metrics["loss"].values.tolist() == [1.0, 0.5]
    assert run_series.metrics["accuracy"].count == 3


def test_more_reliable_source_restarts_a_curve_within_one_write(tmp_path: Path) -> None:
    readings = [
        MergedReading(values={"loss": 9.0}, step=1, time=5.0),
        MergedReading(values={"loss": 1.0}, step=0, time=6.0, restarts=frozenset({"loss"})),
    ]

    run_series, _ = recorded(tmp_path, (readings, 0.0, 10.0))

    assert run_series.metrics["loss"].steps.tolist() == [0]


def test_restarted_curve_may_have_earlier_times(tmp_path: Path) -> None:
    readings = [MergedReading(values={"loss": 9.0}, step=step) for step in range(1, 5)]
    readings += [MergedReading(values={"loss": 1.0}, step=0, time=6.0, restarts=frozenset({"loss"}))]
    readings += [MergedReading(values={"loss": 1.0}, step=step, time=6.0 + step) for step in range(1, 4)]

    run_series, _ = recorded(tmp_path, (readings, 99.0, 100.0))

    assert run_series.metrics["loss"].values.tolist() == [1.0] * 4


def test_clock_set_back_does_not_change_the_order(tmp_path: Path) -> None:
    readings = [
        MergedReading(values={"loss": float(step)}, step=step, time=time)
        for step, time in ((1, 50.0), (2, 40.0), (3, 60.0))
    ]

    run_series, _ = recorded(tmp_path, (readings, 99.0, 100.0))

    assert run_series.metrics["loss"].values.tolist() == [1.0, 2.0, 3.0]
    assert run_series.metrics["loss"].times.tolist() == sorted(run_series.metrics["loss"].times.tolist())


def test_metrics_of_ranks_have_separate_curves(tmp_path: Path) -> None:
    readings = [
        MergedReading(values={"loss": 1.0}, step=0, restarts=frozenset({"loss"})),
        MergedReading(values={"loss": 0.5}, step=1),
    ]

    run_series, _ = recorded(tmp_path, (readings, 0.0, 1.0), rank=2)

    assert list(run_series.metrics) == ["loss@2"]
    assert run_series.metrics["loss@2"].count == 2


def test_numbers_of_epochs_are_told_from_steps(tmp_path: Path) -> None:
    epochs = [MergedReading(values={"loss": 1.0, "val_loss": 2.0}, step=step, counts_epochs=True) for step in (1, 2)]
    steps = [MergedReading(values={"accuracy": 0.5}, step=step) for step in (1, 2)]
    run_series, lines = recorded(tmp_path, ([*epochs, *steps], 0.0, 1.0))
    assert lines == 2
    assert run_series.by_epoch == {"loss", "val_loss"}
    run_series.fold([{"t": 2.0, "kind": "metrics", "first": 3, "values": {"loss": [1.0]}}])
    assert run_series.by_epoch == {"val_loss"}, "its steps have become known"
