"""Several sources on together: one curve for each metric, no value twice, steps that rise."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import pytest

from core.metrics.common.merge import RELIABILITY, MergedReading, MetricMerger
from core.metrics.common.reading import Reading
from core.metrics.files.record_logs import CsvFile
from core.metrics.files.tensorboard import EventFile
from tests.support.recorded_events import KERAS, scalar_record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EVENTS, OTHER_EVENTS = "tensorboard:/runs/a/events.1", "tensorboard:/runs/b/events.1"
Curves = dict[str, list[tuple[int, float]]]


def loss(*steps: int, value: float = 1.0) -> list[Reading]:
    """A reading of the loss for each of these steps."""
    return [Reading(values={"loss": value}, step=step) for step in steps]


def of_epochs(*epochs: float, name: str = "loss") -> list[Reading]:
    """A reading for each of these epochs, without a step; its value is the epoch."""
    return [Reading(values={name: float(epoch)}, epoch=epoch) for epoch in epochs]


def unplaced(*values: float, name: str = "loss") -> list[Reading]:
    """Readings that say neither step nor epoch."""
    return [Reading(values={name: value}) for value in values]


def recorded(told: Iterable[MergedReading], curves: Curves | None = None) -> Curves:
    """The curves as a reader of the run has them: what comes at or before the last step replaces from there on."""
    curves = {} if curves is None else curves
    for each in told:
        for name, value in each.values.items():
            curve = curves.setdefault(name, [])
            assert each.step is not None
            kept = [] if name in each.restarts else [point for point in curve if point[0] < each.step]
            curve[:] = kept
            curve.append((each.step, value))
    return curves


def steps(told: Iterable[MergedReading], name: str = "loss") -> list[int]:
    """The steps that are recorded of one metric."""
    return [step for step, _ in recorded(told).get(name, [])]


def test_one_source_is_told_as_it_is() -> None:
    readings = [Reading(values={"loss": 1.0, "accuracy": 0.5}, step=3, epoch=1, time=7.0, done=3, total=9)]
    told = MetricMerger().take("text", readings)
    assert told == [MergedReading(values={"loss": 1.0, "accuracy": 0.5}, step=3, epoch=1, time=7.0)]


def test_what_was_told_for_a_step_is_not_told_again() -> None:
    merge = MetricMerger()
    assert steps(merge.take("text", loss(1, 1, 2, 2, 2) + loss(3, value=5.0) + loss(3, value=6.0))) == [1, 2, 3]
    assert merge.take("text", loss(3)) == []
    assert merge.take("csv:/a/log.csv", unplaced(1, 2, name="other"))[0].values == {"other": 1}


def test_a_surer_source_takes_over_in_mid_run_and_nothing_of_the_old_curve_is_left() -> None:
    merge = MetricMerger()
    curves = recorded(merge.take("text", loss(*range(1, 41), value=9.0)))
    assert recorded(merge.take(EVENTS, loss(*range(40))), curves) == {"loss": [(step, 1.0) for step in range(40)]}
    assert merge.take("text", loss(41, 42, value=9.0)) == []
    assert recorded(merge.take(EVENTS, loss(40, 41)), curves)["loss"][-1] == (41, 1.0)
    assert len(curves["loss"]) == 42


def test_a_surer_source_that_begins_later_leaves_nothing_of_the_old_curve_either() -> None:
    merge = MetricMerger()
    curves = recorded(merge.take("text", unplaced(*[9.0] * 40)))
    (first, second) = merge.take(EVENTS, loss(10, 20))
    assert (first.restarts, second.restarts) == ({"loss"}, frozenset())
    assert recorded([first, second], curves) == {"loss": [(10, 1.0), (20, 1.0)]}


def test_only_what_the_surer_source_tells_is_taken_over() -> None:
    merge = MetricMerger()
    told = merge.take("text", [Reading(values={"loss": 9.0, "accuracy": 0.5}, step=1)])
    told += merge.take(EVENTS, loss(1))
    told += merge.take("text", [Reading(values={"loss": 9.0, "accuracy": 0.75}, step=2)])
    assert recorded(told) == {"loss": [(1, 1.0)], "accuracy": [(1, 0.5), (2, 0.75)]}


@pytest.mark.parametrize(
    ("less", "more"),
    [(one, other) for one, other in product(RELIABILITY, repeat=2) if RELIABILITY[one] < RELIABILITY[other]],
)
def test_the_order_of_the_sources(less: str, more: str) -> None:
    for order in ((less, more), (more, less)):
        merge, told = MetricMerger(), []
        for kind in order * 2:
            first = 1 if kind == order[0] and not told else 3
            told += merge.take(kind, loss(first, first + 1, value=float(RELIABILITY[kind])))
        assert {value for _, value in recorded(told)["loss"]} == {float(RELIABILITY[more])}


def test_a_curve_by_step_is_not_given_up_for_one_by_epoch() -> None:
    merge = MetricMerger()
    told = merge.take("text", loss(1, 2, 3)) + merge.take("csv:/log.csv", of_epochs(0)) + merge.take("text", loss(4))
    assert recorded(told) == {"loss": [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]}


def test_and_takes_the_place_of_one_by_epoch() -> None:
    merge = MetricMerger()
    told = (
        merge.take("csv:/log.csv", of_epochs(0, 1)) + merge.take("text", loss(5, 6)) + merge.take("csv", of_epochs(2))
    )
    assert steps(told) == [5, 6]


def test_the_programs_own_file_has_the_last_word() -> None:
    merge = MetricMerger()
    told = merge.take(EVENTS, loss(1, 2, 3)) + merge.take("own", unplaced(7, 8)) + merge.take(EVENTS, loss(4))
    assert recorded(told) == {"loss": [(1, 7), (2, 8)]}


def test_where_nothing_is_known_values_are_numbered_by_metric() -> None:
    merge = MetricMerger()
    told = merge.take("text", [*unplaced(5, 5), *unplaced(9, name="val_loss"), *unplaced(4)])
    assert recorded(told) == {"loss": [(1, 5), (2, 5), (3, 4)], "val_loss": [(1, 9)]}
    assert steps(merge.take("text", unplaced(3))) == [4]


def test_a_value_without_a_step_belongs_to_the_step_of_its_source() -> None:
    merge = MetricMerger()
    told = merge.take("text", [*loss(10), *unplaced(0.5, name="val_loss"), *loss(20), *unplaced(0.25, name="val_loss")])
    assert recorded(told)["val_loss"] == [(10, 0.5), (20, 0.25)]
    assert merge.take("text", unplaced(0.25, name="val_loss")) == []  # the summary line at the end
    assert steps(merge.take("text", unplaced(0.125, math.nan, math.nan, name="val_loss")), "val_loss") == [21, 22, 23]


def test_lines_that_were_numbered_give_way_to_steps_that_begin_before_them() -> None:
    merge = MetricMerger()
    curves = recorded(merge.take("text", unplaced(9, 9, 9)))
    assert recorded(merge.take("text", loss(2, 4)), curves) == {"loss": [(2, 1.0), (4, 1.0)]}
    curves = recorded(merge.take("text", unplaced(9, 8, name="reward")), curves)
    recorded(merge.take("text", [Reading(values={"reward": 7.0}, step=100)]), curves)
    assert curves["reward"] == [(4, 9), (5, 8), (100, 7.0)]


def test_of_a_metric_by_step_the_mean_of_an_epoch_is_passed_over() -> None:
    merge = MetricMerger()
    readings = [Reading(values={"loss": 2.0, "val_loss": 3.0}, epoch=0)]
    assert recorded(merge.take(EVENTS, loss(1, 2, 3) + readings)) == {
        "loss": [(1, 1.0), (2, 1.0), (3, 1.0)],
        "val_loss": [(3, 3.0)],
    }


def test_an_epoch_is_placed_at_its_last_step_whoever_told_it() -> None:
    merge = MetricMerger()
    merge.take("text", [Reading(values={}, step=step, epoch=1 + step // 11) for step in range(1, 31)])
    told = merge.take("csv:/log.csv", of_epochs(0, 1, 2, name="val_loss"))  # Keras' table counts from 0, its bar from 1
    assert steps(told, "val_loss") == [10, 21, 30]


def test_epochs_that_come_at_once_are_spread_up_to_the_last_step() -> None:
    merge = MetricMerger()
    merge.take("text", loss(*range(1, 301)))
    assert steps(merge.take("csv:/log.csv", of_epochs(0, 1, 2, name="val_loss")), "val_loss") == [100, 200, 300]
    merge.take("text", loss(*range(301, 401)))
    assert steps(merge.take("csv:/log.csv", of_epochs(3, name="val_loss")), "val_loss") == [400]
    assert steps(merge.take("csv:/log.csv", of_epochs(4, name="val_loss")), "val_loss") == [
        401
    ]  # no step since: not lost


def test_without_any_steps_epochs_are_numbered_as_the_program_does() -> None:
    merge = MetricMerger()
    assert steps(merge.take("csv:/log.csv", of_epochs(5, 10, 15))) == [5, 10, 15]
    assert steps(merge.take("csv:/log.csv", of_epochs(0, 5))) == [16, 17]  # a second training in the same table
    assert steps(MetricMerger().take("csv:/log.csv", of_epochs(0.25, 0.5, 1.0))) == [0, 1, 2]


def test_epochs_that_were_numbered_are_told_anew_when_their_steps_are_known(tmp_path: Path) -> None:
    """Keras' `train/` may come first; what it wrote into `validation/` has the steps."""
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
    told = merge.take(f"tensorboard:{validation}", EventFile(validation).poll())
    recorded(told, curves)
    assert [step for step, _ in curves["val_loss"]] == [4, 8, 12]
    assert curves["loss"] == [(4, 1.0), (8, 2.0), (12, 3.0)]
    merge.take("text", [Reading(values={}, step=16, epoch=4)])
    assert steps(merge.take(f"tensorboard:{train}", readings[3:])) == [16]


def test_steps_that_are_walked_anew_replace_those_that_were_told() -> None:
    merge = MetricMerger()
    curves = recorded(merge.take(EVENTS, loss(10, 20, 30, 40, 50)))
    assert merge.take(EVENTS, loss(30, value=2.0)) == []  # one value alone is none to go by
    recorded(merge.take(EVENTS, loss(40, value=2.0)), curves)
    assert curves == {"loss": [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)]}
    recorded(merge.take(EVENTS, loss(50, 60, value=2.0)), curves)
    assert [step for step, _ in curves["loss"]] == [10, 20, 30, 40, 50, 60]


def test_a_single_older_value_changes_nothing() -> None:
    merge = MetricMerger()
    told = merge.take("text", loss(10, 20, 30) + loss(10, value=0.0) + loss(40, 50) + loss(20, value=0.0))
    assert recorded(told) == {"loss": [(10, 1.0), (20, 1.0), (30, 1.0), (40, 1.0), (50, 1.0)]}


def test_of_two_folders_the_first_is_shown_and_the_other_named_once() -> None:
    merge = MetricMerger()
    told = (
        merge.take(EVENTS, loss(1, 2))
        + merge.take(OTHER_EVENTS, loss(1, 2, 3, value=7.0))
        + merge.take(EVENTS, loss(3))
    )
    assert recorded(told) == {"loss": [(1, 1.0), (2, 1.0), (3, 1.0)]}
    assert merge.notices == ["/runs/b has a curve of loss, too. The window shows the curve in /runs/a."]


def test_a_writer_that_opens_a_second_file_goes_on_with_its_curve() -> None:
    merge = MetricMerger()
    told = merge.take(EVENTS, loss(1, 2)) + merge.take("tensorboard:/runs/a/events.2", loss(2, 3, 4))
    assert recorded(told) == {"loss": [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]}
    assert not merge.notices


@pytest.mark.parametrize("count", [math.nan, math.inf, 2**53, -(2**60)])
def test_counts_that_are_none_are_passed_over(count: float) -> None:
    merge = MetricMerger()
    strange = [Reading(values={"loss": 1.0}, epoch=count), Reading(values={"loss": 1.0}, step=count, epoch=1)]  # type: ignore[arg-type]
    assert merge.take("csv", strange) == []
    assert steps(merge.take("csv", loss(1))) == [1]


def test_a_whole_training_of_keras_under_four_sources(tmp_path: Path) -> None:
    """A bar by step in the log, Keras' table, its event files: whatever comes first, each value once."""
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
        curves = recorded([told for source, readings in order for told in merge.take(source, readings)])
        assert curves["loss"] == [(step, 4.0 - step / 4) for step in range(1, 13)]
        assert [step for step, _ in curves["val_loss"]] == [4, 8, 12]
        assert [value for _, value in curves["val_loss"]] == pytest.approx([1.395713, 1.388745, 1.381804])
