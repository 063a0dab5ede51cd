"""MetricMerger: one curve per metric from several sources, no duplicate values, ascending steps."""

import math
import os
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

from core.metrics.files.record_logs import CsvFile
from core.metrics.files.tensorboard import EventFile
from core.metrics.merge import RELIABILITY, MergedReading, MetricMerger
from core.metrics.reading import Reading
from tests.support.recorded_events import KERAS, scalar_record

EVENTS, OTHER_EVENTS = "tensorboard:/runs/a/events.1", "tensorboard:/runs/b/events.1"
Curves = dict[str, list[tuple[int, float]]]


def loss(*steps: int, value: float = 1.0) -> list[Reading]:
    """One loss reading for each of these steps."""
    return [Reading(values={"loss": value}, step=step) for step in steps]


def of_epochs(*epochs: float, name: str = "loss") -> list[Reading]:
    """One reading for each of these epochs, without a step; its value is the epoch."""
    return [Reading(values={name: float(epoch)}, epoch=epoch) for epoch in epochs]


def unplaced(*values: float, name: str = "loss") -> list[Reading]:
    """Readings with neither step nor epoch."""
    return [Reading(values={name: value}) for value in values]


def recorded(merged: Iterable[MergedReading], curves: Curves | None = None) -> Curves:
    """The curves as a reader builds them: a value at or before the last step replaces the rest of the curve."""
    curves = {} if curves is None else curves
    for each in merged:
        for name, value in each.values.items():
            curve = curves.setdefault(name, [])
            assert each.step is not None
            kept = [] if name in each.restarts else [point for point in curve if point[0] < each.step]
            curve[:] = kept
            curve.append((each.step, value))
    return curves


def steps(merged: Iterable[MergedReading], name: str = "loss") -> list[int]:
    """The recorded steps of one metric."""
    return [step for step, _ in recorded(merged).get(name, [])]


def test_single_source_is_passed_through() -> None:
    readings = [Reading(values={"loss": 1.0, "accuracy": 0.5}, step=3, epoch=1, time=7.0, done=3, total=9)]
    merged = MetricMerger().take("text", readings)
    assert merged == [MergedReading(values={"loss": 1.0, "accuracy": 0.5}, step=3, epoch=1, time=7.0)]


def test_sparse_source_does_not_replace_a_dense_curve_in_either_order() -> None:
    dense, points = loss(*range(0, 501, 10), value=9.0), loss(0, 500)
    for order in ((("text", dense), (EVENTS, points)), ((EVENTS, points), ("text", dense))):
        merge, curves = MetricMerger(), {}
        for source, readings in order:
            recorded(merge.take(source, readings), curves)
        assert curves == {"loss": [(step, 9.0) for step in range(0, 501, 10)]}
        recorded(merge.take("text", loss(510, value=9.0)), curves)
        assert merge.take(EVENTS, loss(1000)) == []
        assert curves["loss"][-1] == (510, 9.0)


def test_file_that_counts_epochs_is_placed_by_its_time_and_replaces_no_text_by_steps() -> None:
    merge, curves = MetricMerger(), {}
    for epoch in (1, 2, 3):
        text = loss(*range(100 * epoch - 90, 100 * epoch + 1, 10), value=9.0)
        recorded(merge.take("text", text, now=epoch * 10.0), curves)
        written = [Reading(values={name: 0.5}, step=epoch, time=epoch * 10.0 + 1) for name in ("loss", "val_loss")]
        recorded(merge.take(EVENTS, written), curves)
    assert curves["loss"] == [(step, 9.0) for step in range(10, 301, 10)]
    assert curves["val_loss"] == [(100, 0.5), (200, 0.5), (300, 0.5)]


def test_test_set_is_the_validation_unless_there_is_another() -> None:
    def measured(step: int, *, of_test: bool) -> list[Reading]:
        return [Reading(values={"val_loss": float(of_test)}, step=step, of_test=of_test)]

    assert recorded(MetricMerger().take("text", measured(1, of_test=True))) == {"val_loss": [(1, 1.0)]}
    merge, both = MetricMerger(), {"val_loss": [(3, 0.0), (4, 0.0)], "test_loss": [(5, 1.0)]}
    readings = [measured(1, of_test=True), measured(3, of_test=False), measured(4, of_test=False)]
    merged = merge.take(EVENTS, [each for given in (*readings, measured(5, of_test=True)) for each in given])
    assert recorded(merged) == both  # what the test set gave before cannot stay under the name of the validation


SCENES: dict[str, tuple[list[tuple[str, list[Reading]]], Curves]] = {
    "values of a known step are not repeated": (
        [("text", [*loss(1, 1, 2, 2, 2), *loss(3, value=5.0), *loss(3, value=6.0)]), ("text", loss(3))],
        {"loss": [(1, 1.0), (2, 1.0), (3, 5.0)]}),
    "a more reliable source replaces the curve in mid run": (
        [("text", loss(*range(1, 41), value=9.0)), (EVENTS, loss(*range(40))), ("text", loss(41, 42, value=9.0)),
         (EVENTS, loss(40, 41)), ("text", loss(43, value=9.0))],
        {"loss": [(step, 1.0) for step in range(42)]}),
    "a more reliable source with a later first step replaces the whole curve": (
        [("text", unplaced(*[9.0] * 40)), (EVENTS, loss(*range(10, 160, 10)))],
        {"loss": [(step, 1.0) for step in range(10, 160, 10)]}),
    "a validation that is numbered on its own gets the step of its time, and a late one keeps its steps": (
        [(EVENTS, [*(Reading(values={"loss": 1.0}, step=step, time=100.0 + step) for step in range(10, 310, 10)),
                   *(Reading(values={"val_loss": 0.5}, step=n, time=100.0 + n * 100) for n in (1, 2, 3))]),
         (EVENTS, [Reading(values={"val_accuracy": 0.5}, step=step, time=400.0) for step in (100, 200)])],
        {"loss": [(step, 1.0) for step in range(10, 310, 10)], "val_loss": [(100, 0.5), (200, 0.5), (300, 0.5)],
         "val_accuracy": [(100, 0.5), (200, 0.5)]}),
    "a value without a step gets the last step of its source, but for a repeated summary at the end": (
        [("text", [*loss(10), *unplaced(0.5, name="val_loss"), *loss(20), *unplaced(0.25, name="val_loss")]),
         ("text", unplaced(0.25, name="val_loss")), ("text", unplaced(0.125, math.nan, math.nan, name="val_loss"))],
        {"loss": [(10, 1.0), (20, 1.0)],
         "val_loss": [(10, 0.5), (20, 0.25), (21, 0.125), (22, math.nan), (23, math.nan)]}),
    "an epoch is at its last step, whether epochs are counted from 0 or 1": (
        [("text", [Reading(values={}, step=step, epoch=1 + step // 11) for step in range(1, 31)]),
         ("csv:/log.csv", of_epochs(0, 1, 2, name="val_loss"))],
        {"val_loss": [(10, 0.0), (21, 1.0), (30, 2.0)]}),
    "epochs that are read at once are spread up to the last step; without a new step the value is kept": (
        [("text", loss(*range(1, 301))), ("csv:/log.csv", of_epochs(0, 1, 2, name="val_loss")),
         ("text", loss(*range(301, 401))), ("csv:/log.csv", of_epochs(3, name="val_loss")),
         ("csv:/log.csv", of_epochs(4, name="val_loss"))],
        {"loss": [(step, 1.0) for step in range(1, 401)],
         "val_loss": [(100, 0.0), (200, 1.0), (300, 2.0), (400, 3.0), (401, 4.0)]}),
    "a source that turns out sparse gives the metric back": (
        [each for step in range(0, 301, 10)
         for each in (("text", loss(step, value=9.0)), (EVENTS, loss(step) if step % 100 == 0 else []))],
        {"loss": [(step, 9.0) for step in range(0, 301, 10)]}),
    "a file that lags behind the text is not sparse": (
        [("text", loss(*range(10, 1001, 10), value=9.0)), (EVENTS, loss(*range(20, 101, 20)))],
        {"loss": [(step, 1.0) for step in range(20, 101, 20)]}),
    "only metrics of the more reliable source are replaced": (
        [("text", [Reading(values={"loss": 9.0, "accuracy": 0.5}, step=1)]), (EVENTS, loss(1)),
         ("text", [Reading(values={"loss": 9.0, "accuracy": 0.75}, step=2)])],
        {"loss": [(1, 1.0)], "accuracy": [(1, 0.5), (2, 0.75)]}),
    "a curve by step is not replaced by one by epoch": (
        [("text", loss(1, 2, 3)), ("csv:/log.csv", of_epochs(0)), ("text", loss(4))],
        {"loss": [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]}),
    "a curve by step replaces one by epoch": (
        [("csv:/log.csv", of_epochs(0, 1)), ("text", loss(5, 6)), ("csv", of_epochs(2))],
        {"loss": [(5, 1.0), (6, 1.0)]}),
    "the metrics file of the script itself has priority": (
        [(EVENTS, loss(1, 2, 3)), ("own", unplaced(7, 8)), (EVENTS, loss(4))], {"loss": [(1, 7), (2, 8)]}),
    "values without steps are numbered, and other metrics get the number reached": (
        [("text", [*unplaced(5, 5), *unplaced(9, name="val_loss"), *unplaced(4)]), ("text", unplaced(3))],
        {"loss": [(1, 5), (2, 5), (3, 4), (4, 3)], "val_loss": [(2, 9)]}),
    "numbered values are replaced by earlier steps": (
        [("text", unplaced(9, 9, 9)), ("text", loss(2, 4))], {"loss": [(2, 1.0), (4, 1.0)]}),
    "numbered values are continued by later steps": (
        [("text", loss(2, 4)), ("text", unplaced(9, 8, name="reward")),
         ("text", [Reading(values={"reward": 7}, step=100)])],
        {"loss": [(2, 1.0), (4, 1.0)], "reward": [(4, 9), (5, 8), (100, 7)]}),
    "the mean of an epoch of a metric with steps is ignored": (
        [(EVENTS, [*loss(1, 2, 3), Reading(values={"loss": 2.0, "val_loss": 3.0}, epoch=0)])],
        {"loss": [(1, 1.0), (2, 1.0), (3, 1.0)], "val_loss": [(3, 3.0)]}),
    "a single value is not enough to detect a restart": (
        [(EVENTS, loss(10, 20, 30, 40, 50)), (EVENTS, loss(30, value=2.0))],
        {"loss": [(step, 1.0) for step in (10, 20, 30, 40, 50)]}),
    "repeated steps replace the earlier values": (
        [(EVENTS, loss(10, 20, 30, 40, 50)), (EVENTS, loss(30, value=2.0)), (EVENTS, loss(40, value=2.0))],
        {"loss": [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)]}),
    "single older values are ignored": (
        [("text", loss(10, 20, 30) + loss(10, value=0.0) + loss(40, 50) + loss(20, value=0.0))],
        {"loss": [(step, 1.0) for step in (10, 20, 30, 40, 50)]}),
    "a second file of the same folder continues the curve": (
        [(EVENTS, loss(1, 2)), ("tensorboard:/runs/a/events.2", loss(2, 3, 4))],
        {"loss": [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]}),
}


@pytest.mark.parametrize("name", SCENES)
def test_readings_of_several_sources_are_one_curve(name: str) -> None:
    given, curves = SCENES[name]
    merge = MetricMerger()
    assert recorded(each for source, readings in given for each in merge.take(source, readings)) == curves
    assert not merge.notices


@pytest.mark.parametrize(
    ("lower", "higher"),
    [(one, other) for one, other in product(RELIABILITY, repeat=2) if RELIABILITY[one] < RELIABILITY[other]],
)
def test_more_reliable_source_wins_in_any_order(lower: str, higher: str) -> None:
    for order in ((lower, higher), (higher, lower)):
        merge, merged = MetricMerger(), []
        for kind in order * 2:
            first = 1 if kind == order[0] and not merged else 3
            merged += merge.take(kind, loss(first, first + 1, value=float(RELIABILITY[kind])))
        assert {value for _, value in recorded(merged)["loss"]} == {float(RELIABILITY[higher])}


def test_epochs_without_any_steps_keep_their_numbers() -> None:
    merge = MetricMerger()
    merged = merge.take("csv:/log.csv", of_epochs(5, 10, 15))
    assert steps(merged) == [5, 10, 15]
    assert all(each.counts_epochs for each in merged)
    assert steps(merge.take("csv:/log.csv", of_epochs(0, 5))) == [16, 17]  # a second training in the same table
    parts = MetricMerger().take("csv:/log.csv", of_epochs(0.25, 0.5, 0.75))
    assert steps(parts) == [0, 1, 2]
    assert not any(each.counts_epochs for each in parts), "numbers of parts are no epochs"


def test_numbered_epochs_are_repeated_when_their_steps_become_known(tmp_path: Path) -> None:
    """Keras' `train/` may be read first, while only `validation/` contains the steps."""
    for folder, data in (
        ("train", b"".join(scalar_record("epoch_loss", 1.0 + epoch, epoch) for epoch in range(4))),
        ("validation", KERAS),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "events.out.tfevents.1").write_bytes(data)
    merge, curves = MetricMerger(), {}
    train, validation = (tmp_path / folder / "events.out.tfevents.1" for folder in ("train", "validation"))
    readings = EventFile(train).poll()
    recorded(merge.take(f"tensorboard:{train}", readings[:3]), curves)
    assert curves == {"loss": [(0, 1.0), (1, 2.0), (2, 3.0)]}
    merged = merge.take(f"tensorboard:{validation}", EventFile(validation).poll())
    recorded(merged, curves)
    assert not any(each.counts_epochs for each in merged)
    assert [step for step, _ in curves["val_loss"]] == [4, 8, 12]
    assert curves["loss"] == [(4, 1.0), (8, 2.0), (12, 3.0)]
    merge.take("text", [Reading(values={}, step=16, epoch=4)])
    assert steps(merge.take(f"tensorboard:{train}", readings[3:])) == [16]


def test_second_folder_with_the_same_metric_is_ignored_with_one_notice() -> None:
    merge = MetricMerger()
    merged = (
        merge.take(EVENTS, loss(1, 2))
        + merge.take(OTHER_EVENTS, loss(1, 2, 3, value=7.0))
        + merge.take(EVENTS, loss(3))
    )
    assert recorded(merged) == {"loss": [(1, 1.0), (2, 1.0), (3, 1.0)]}
    assert merge.notices == ["/runs/b has a curve of loss, too. Only the curve in /runs/a is shown."]


def test_second_training_in_a_folder_of_its_own_continues_the_curves() -> None:
    def written(begin: float, *steps: int) -> list[Reading]:
        return [Reading(values={"loss": begin}, step=step, time=begin + step) for step in steps]

    merge = MetricMerger()
    merged = merge.take(EVENTS, written(100.0, 10, 20, 30)) + merge.take(OTHER_EVENTS, written(200.0, 10, 20, 30))
    assert recorded(merged) == {"loss": [(10 * n, 100.0 if n < 4 else 200.0) for n in range(1, 7)]}
    assert not merge.notices
    merge = MetricMerger()  # two that train at the same time
    merged = merge.take(EVENTS, written(100.0, 10, 20, 30)) + merge.take(OTHER_EVENTS, written(105.0, 10, 20, 30))
    assert recorded(merged) == {"loss": [(10, 100.0), (20, 100.0), (30, 100.0)]}
    assert len(merge.notices) == 1


@pytest.mark.parametrize("place", ["step", "epoch"])
@pytest.mark.parametrize("name", ["version_{}/metrics.csv", "trial_{}.csv"])
def test_tables_of_trials_that_follow_one_another_are_one_curve(tmp_path: Path, name: str, place: str) -> None:
    merge, merged = MetricMerger(), []
    for trial in range(3):
        path = tmp_path / name.format(trial)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{place},train_loss\n" + "".join(f"{row},{10 * trial + row}\n" for row in range(4)))
        os.utime(path, (1000 + 10 * trial + 5,) * 2)
        os.utime(path.parent, (1000 + 10 * trial,) * 2)
        merged += merge.take(f"csv:{path}", CsvFile(path).poll())
    assert [value for _, value in recorded(merged)["loss"]] == [*range(4), *range(10, 14), *range(20, 24)]
    assert not merge.notices


def test_tables_that_are_written_at_the_same_time_are_not_one_curve(tmp_path: Path) -> None:
    merge, merged = MetricMerger(), []
    for trial in range(2):
        path = tmp_path / f"version_{trial}" / "metrics.csv"
        path.parent.mkdir()
        path.write_text("step,loss\n" + "".join(f"{row},{10 * trial + row}\n" for row in range(4)))
        os.utime(path, (1100, 1100))
        os.utime(path.parent, (1000, 1000))
        merged += merge.take(f"csv:{path}", CsvFile(path).poll())
    assert recorded(merged) == {"loss": [(row, row) for row in range(4)]}
    assert len(merge.notices) == 1


def test_test_metric_of_another_name_than_the_validations_is_of_the_test_set() -> None:
    merge = MetricMerger()
    merged = merge.take("text", [Reading(values={"val_auc": 0.5}, epoch=1)])
    merged += merge.take("text", [Reading(values={"val_logloss": 0.6}, of_test=True)])
    assert recorded(merged) == {"val_auc": [(1, 0.5)], "test_logloss": [(1, 0.6)]}


@pytest.mark.parametrize("count", [math.nan, math.inf, 2**53, -(2**60)])
def test_invalid_counts_are_ignored(count: float) -> None:
    merge = MetricMerger()
    invalid = [Reading(values={"loss": 1.0}, epoch=count), Reading(values={"loss": 1.0}, step=count, epoch=1)]  # type: ignore[arg-type]
    assert merge.take("csv", invalid) == []
    assert steps(merge.take("csv", loss(1))) == [1]


def test_keras_training_with_four_sources_has_each_value_once(tmp_path: Path) -> None:
    """A progress bar in the log, a CSV table and event files, in every order."""
    (tmp_path / "log.csv").write_text("epoch,loss,val_loss\n0,3,1.395713\n1,2,1.388745\n2,1,1.381804\n")
    (tmp_path / "validation").mkdir()
    (tmp_path / "validation" / "events.out.tfevents.1").write_bytes(KERAS)
    bar = [Reading(values={"loss": 4.0 - step / 4}, step=step, epoch=1 + (step - 1) // 4) for step in range(1, 13)]
    sources = [
        ("text", bar),
        ("csv:/log.csv", CsvFile(tmp_path / "log.csv").poll()),
        ("tensorboard:/v/1", EventFile(tmp_path / "validation" / "events.out.tfevents.1").poll()),
    ]
    for order in (sources, sources[::-1], sources[1:] + sources[:1]):
        merge = MetricMerger()
        curves = recorded([merged for source, readings in order for merged in merge.take(source, readings)])
        assert curves["loss"] == [(step, 4.0 - step / 4) for step in range(1, 13)]
        assert [step for step, _ in curves["val_loss"]] == [4, 8, 12]
        assert [value for _, value in curves["val_loss"]] == pytest.approx([1.395713, 1.388745, 1.381804])
