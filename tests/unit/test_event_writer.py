"""Write a script's metrics as events and read them back into curves."""

from dataclasses import replace
from pathlib import Path

import pytest

from core.metrics.merge import MergedReading
from core.metrics.rank_metrics import MetricEventWriter
from core.schema.event_log import Log
from core.schema.events import Writer
from core.schema.paths import EVENTS
from core.series.run_series import RunSeries

Look = tuple[list[MergedReading], float, float]
"""What was read, since when and until when."""


def recorded(run_dir: Path, *looks: Look, rank: int = 0) -> tuple[RunSeries, int]:
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


def at(step: int, time: float | None = None, *, restarts: str = "", **values: float) -> MergedReading:
    return MergedReading(values=values, step=step, time=time, restarts=frozenset(restarts.split()))


CURVES: dict[str, tuple[list[Look], dict[str, dict[str, list[float]]]]] = {
    "consecutive steps have evenly spaced times": (
        [([at(step, loss=1.0 / step, lr=0.1) for step in range(1, 5)], 100.0, 102.0)],
        {"loss": {"steps": [1, 2, 3, 4], "values": [1, 0.5, 0.333333333, 0.25], "times": [100.5, 101, 101.5, 102]},
         "lr": {"steps": [1, 2, 3, 4]}}),
    "sparse steps are kept per metric": (
        [([at(10, loss=3.0), at(20, loss=2.0), at(20, val_loss=2.5), at(30, loss=1.0)], 0.0, 1.0)],
        {"loss": {"steps": [10, 20, 30]}, "val_loss": {"steps": [20]}}),
    "times of the source are kept": (
        [([*(at(step, 1000.0 + step, loss=1.0) for step in (1, 2, 3)), at(2, 1002.5, val_loss=1.0)], 2000.0, 2001.0)],
        {"loss": {"times": [1001.0, 1002.0, 1003.0]}, "val_loss": {"times": [1002.5]}}),
    "a more reliable source restarts a curve": (
        [([at(step, loss=9.0, accuracy=0.5) for step in (1, 2, 3)], 0.0, 1.0),
         ([at(0, 0.5, restarts="loss", loss=1.0), at(1, 0.6, loss=0.5)], 1.0, 2.0)],
        {"loss": {"steps": [0, 1], "values": [1.0, 0.5]}, "accuracy": {"steps": [1, 2, 3]}}),
    "a more reliable source restarts a curve within one write": (
        [([at(1, 5.0, loss=9.0), at(0, 6.0, restarts="loss", loss=1.0)], 0.0, 10.0)], {"loss": {"steps": [0]}}),
    "a restarted curve may have earlier times": (
        [([*(at(step, loss=9.0) for step in range(1, 5)), at(0, 6.0, restarts="loss", loss=1.0),
           *(at(step, 6.0 + step, loss=1.0) for step in range(1, 4))], 99.0, 100.0)],
        {"loss": {"values": [1.0] * 4}}),
    "a clock that is set back does not change the order": (
        [([at(1, 50.0, loss=1.0), at(2, 40.0, loss=2.0), at(3, 60.0, loss=3.0)], 99.0, 100.0)],
        {"loss": {"values": [1.0, 2.0, 3.0], "times": [50.0, 50.0, 60.0]}}),
}


@pytest.mark.parametrize("name", CURVES)
def test_curves_are_read_back(tmp_path: Path, name: str) -> None:
    looks, curves = CURVES[name]
    found = recorded(tmp_path, *looks)[0].metrics
    assert found.keys() == curves.keys()
    for metric, columns in curves.items():
        assert {column: getattr(found[metric], column).tolist() for column in columns} == columns


def test_metrics_of_ranks_have_separate_curves(tmp_path: Path) -> None:
    readings = [at(0, restarts="loss", loss=1.0), at(1, loss=0.5)]
    run_series, lines = recorded(tmp_path, (readings, 0.0, 1.0), rank=2)
    assert (list(run_series.metrics), lines) == (["loss@2"], 2)
    assert run_series.metrics["loss@2"].count == 2


def test_numbers_of_epochs_are_told_from_steps(tmp_path: Path) -> None:
    steps = [at(step, accuracy=0.5) for step in range(1, 5)]
    epochs = [replace(each, values={"loss": 1.0, "val_loss": 2.0}, counts_epochs=True) for each in steps]
    run_series, lines = recorded(tmp_path, ([*epochs, *steps], 0.0, 100.0))
    assert lines == 2, "consecutive steps are one line"
    assert run_series.by_epoch == {"loss", "val_loss"}
    run_series.fold([{"t": 200.0, "kind": "metrics", "first": 5, "values": {"loss": [1.0]}}])
    assert run_series.by_epoch == {"val_loss"}, "its steps have become known"
