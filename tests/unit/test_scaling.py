"""The plan of a scaling table, its numbers, and the comparison of curves, on written runs."""

import csv
import math
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.catalog.strategies import strategies_of
from core.config.choices import RecipeChoices
from core.devices.device import Device
from core.history.index import RunIndex
from core.results import scaling_command
from core.results.scaling_record import (
    FIXED,
    PER_DEVICE,
    ScalingRecord,
    device_counts,
    free_name,
    names,
    plan_specs,
    read_record,
)
from core.results.scaling_table import TOLERANCES, ScalingTable, read_table, text_table, to_json
from core.runs.facts import RunState
from core.schema.files import write_whole
from gui.features.compare.scaling_tables import (
    ShownTable,
    fold_runs,
    outcome,
    shown_cells,
    table_sentence,
)
from gui.runs.rows import run_rows
from tests.support.running import write_recipe
from tests.support.scaling_runs import LOSSES, PER_EPOCH, STEPS, planned, recorded, trained
from tests.support.written_runs import BEGAN, write_run


@pytest.mark.parametrize(
    ("devices", "counts"),
    [(2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (9, [1, 2, 4, 8, 9])],
)
def test_the_number_of_devices_is_doubled_up_to_all(devices: int, counts: list[int]) -> None:
    assert device_counts(devices) == counts


@pytest.mark.parametrize(
    ("framework", "strategy"), [("pytorch", "ddp"), ("tensorflow", "mirrored"), ("keras", "mirrored")]
)
def test_one_device_is_trained_by_single_and_several_by_the_default(framework: str, strategy: str) -> None:
    specs = planned("cpu:3", "cpu:1", "cpu:0", framework=framework, training={"batch_size": 66})
    assert [(spec.devices, spec.strategy) for spec in specs] == [
        (("cpu:3",), "single"), (("cpu:3", "cpu:1"), strategy), (("cpu:3", "cpu:1", "cpu:0"), strategy),
    ]
    assert [spec.name for spec in specs] == ["table: 1 device", "table: 2 devices", "table: 3 devices"]
    assert {spec.training.batch_size for spec in specs} == {66}
    assert {(spec.training, spec.checkpoints, spec.release) for spec in specs[1:]} == {
        (specs[0].training, specs[0].checkpoints, specs[0].release)
    }


def test_settings_are_those_of_the_strategy_of_several_devices() -> None:
    specs = planned("cpu:0", "cpu:1", "cpu:2", batch=PER_DEVICE, training={"batch_size": 33})
    assert [spec.training.batch_size for spec in specs] == [33, 66, 99], "the batch of each device is fixed"
    specs = planned("cpu:0", "cpu:1", framework="tensorflow", strategy="multi_worker_mirrored", allow_open_ports=True)
    assert [spec.allow_open_ports for spec in specs] == [False, True]
    specs = planned("cpu:0", "cpu:1", training={"bucket_mb": 5, "activation_checkpointing": True})
    assert [spec.training.bucket_mb for spec in specs] == [None, 5]
    assert [spec.training.activation_checkpointing for spec in specs] == [True, True], "single has it, too"


def test_gpus_are_found_by_their_labels_and_named_twice_in_two_ways() -> None:
    gpus = [Device(id=f"GPU-{number}", kind="nvidia", label=f"GPU {number}", name="X") for number in range(2)]
    choices = RecipeChoices(recipe="digits_mlp", devices=("gpu:0", "gpu:1"))
    assert plan_specs(choices, gpus, name="table", batch=FIXED)[1].devices == ("GPU-0", "GPU-1")
    with pytest.raises(ValueError, match=r"^A device is named twice in gpu:0, GPU-0\. Name each once\.$"):
        plan_specs(replace(choices, devices=("gpu:0", "GPU-0")), gpus, name="table", batch=FIXED)


@pytest.mark.parametrize(
    ("devices", "batch_size", "near"), [(3, 64, "60 or 66"), (6, 64, "60 or 72"), (5, 7, "20"), (3, 5, "6")]
)
def test_the_batch_is_split_evenly_for_every_number_of_devices(devices: int, batch_size: int, near: str) -> None:
    names_ = tuple(f"cpu:{number}" for number in range(devices))
    with pytest.raises(ValueError, match=f"Choose a batch of {near}\\.$"):
        planned(*names_, training={"batch_size": batch_size})


def test_each_tolerance_is_that_of_a_framework() -> None:
    assert all(strategies_of(name) for name in TOLERANCES)


def notices(table: ScalingTable) -> str:
    return "\n".join(table.notices)


def test_the_first_epoch_does_not_count(tmp_path: Path) -> None:
    runs = [trained(tmp_path, "one", 1, 10.0), trained(tmp_path, "two", 2, 5.5, first_s=900.0)]
    one, two = to_json(read_table(recorded(tmp_path, runs)))["rows"]
    assert one["samples_per_s"] == pytest.approx(32 / 10)
    assert two["samples_per_s"] == pytest.approx(32 / 5.5)
    assert two["speed_up"] == pytest.approx(10 / 5.5)
    assert two["efficiency"] == pytest.approx(10 / 5.5 / 2)
    assert (one["spread"], two["n"]) == ({"samples_per_s": None, "speed_up": None}, 1)
    assert two["peak_memory_bytes"] == {"cpu:0": 1000.0, "cpu:1": 2000.0}
    assert [row["same_curve"] for row in (one, two)] == [True, True]


def test_people_see_numbers_without_exponents_and_in_the_window_titles(tmp_path: Path) -> None:
    runs = [trained(tmp_path, "one", 1, 0.0015), trained(tmp_path, "two", 2, 10.0)]
    table = read_table(recorded(tmp_path, runs))
    _, one, two = text_table(table).cells()
    assert one == ["1", "single", "64", "21333", "1.00", "100 %", "0.00", "same", "finished"]
    assert two == ["2", "ddp", "64", "3.20", "0.00", "0 %", "0.00", "same", "finished"]
    headings, first, second = shown_cells(table)
    assert (headings[1], headings[3], first[1], second[1]) == (
        "Strategy", "Samples/s", "One device", "Data parallel (DDP)")
    assert (first[2:], second[2:]) == (one[2:], two[2:])


def test_repeats_have_a_mean_and_a_spread(tmp_path: Path) -> None:
    times = [(10.0, 5.0), (10.4, 5.6), (9.8, 5.3)]
    runs = [
        trained(tmp_path, f"{number}-{devices}", devices, pair[devices - 1])
        for number, pair in enumerate(times)
        for devices in (1, 2)
    ]
    table = read_table(recorded(tmp_path, runs, repeats=3))
    one, two = to_json(table)["rows"]
    rates = [[32 / pair[side] for pair in times] for side in (0, 1)]
    assert two["samples_per_s"] == pytest.approx(statistics.mean(rates[1]))
    assert two["spread"]["samples_per_s"] == pytest.approx(statistics.stdev(rates[1]))
    gain = statistics.mean(rates[1]) / statistics.mean(rates[0])
    relative = math.hypot(*(statistics.stdev(each) / statistics.mean(each) for each in rates))
    assert (two["speed_up"], two["spread"]["speed_up"]) == pytest.approx((gain, gain * relative))
    assert (one["speed_up"], one["n"], two["n"]) == (1.0, 3, 3)
    rows = list(csv.DictReader(text_table(table).csv().splitlines()))
    assert [float(rows[1][name]) for name in ("speed_up", "speed_up_deviation")] == pytest.approx(
        (gain, gain * relative)
    )
    assert rows[1]["peak_memory_bytes_by_device"] == "cpu:0=1000 cpu:1=2000"
    assert f"| {gain:.2f} ± {gain * relative:.2f} | " in text_table(table).markdown().splitlines()[3]


@pytest.mark.parametrize(
    ("change", "same", "step"),
    [
        ({}, True, None),
        ({6: 0.7 * (1 + 0.9e-5)}, True, None),
        ({6: 0.7 * (1 + 1.2e-5)}, False, 7),
        ({0: 2.1, 6: 0.9}, False, 1),
        ({3: math.nan}, False, 4),
        ({7: "missing"}, False, 8),
    ],
)
def test_curves_are_the_same_within_the_documented_tolerance(tmp_path, change, same, step) -> None:
    losses = [change.get(at, loss) for at, loss in enumerate(LOSSES)]
    losses = losses[: losses.index("missing")] if "missing" in losses else losses
    first, second = trained(tmp_path, "one", 1, 10.0), trained(tmp_path, "two", 2, 5.0, losses)
    table = read_table(recorded(tmp_path, [first, second]))
    row = to_json(table)["rows"][1]
    assert (row["same_curve"], row["curve"]["first_different_step"]) == (same, step)
    words = "same" if step is None else f"same to step {step - 1}" if step > 1 else "another"
    assert text_table(table).cells()[2][-2] == words
    assert ("On 2 devices the curve leaves that of one device" in notices(table)) is not same
    if step is not None:
        assert f"at step {step} of " in notices(table)
    equal = recorded(tmp_path, [trained(tmp_path, "again", 1, 10.0, losses), second])
    assert to_json(read_table(equal))["rows"][1]["same_curve"] is True, "a gap in both curves is no difference"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch": PER_DEVICE}, "The curves differ by design and are not compared."),
        ({"training": {"gradient_compression": "powersgd"}}, "are compressed between several devices (powersgd)."),
        ({"training": {"precision": "bfloat16"}}, "Curves are compared in float32 only."),
        ({"framework": "tensorflow", "strategy": "parameter_server"}, "Strategy parameter_server is asynchronous."),
    ],
)
def test_curves_that_differ_by_design_are_not_compared(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    runs = [trained(tmp_path, "one", 1, 10.0), trained(tmp_path, "two", 2, 5.0, [9.0] * STEPS)]
    table = read_table(recorded(tmp_path, runs, **changes))
    assert [row.check for row in table.rows] == [None, None]
    assert sentence in notices(table)


def test_what_makes_the_numbers_doubtful_is_said(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "def model(): pass\ndef train_data(): pass\n")
    first = trained(tmp_path, "one", 1, 0.5, recipe=recipe)
    write_recipe(tmp_path, "def model(): return 1\ndef train_data(): pass\n")
    kinds = [{"t": BEGAN, "kind": "device", "id": f"cpu:{at}", "name": name} for at, name in enumerate("XY")]
    states = ((0.0, "starting"), (0.5, "running"), (101.0, "releasing"), (101.1, "paused"), (101.2, "starting"),
              (101.3, "running"), (9000.0, "releasing"), (9001.0, "finished"))
    starts = [{"t": BEGAN + at, "kind": "supervisor", "pid": 1, "created": at} for at in (-0.1, 101.15)]
    second = trained(tmp_path, "two", 2, 0.3, states=states, recipe=recipe, more=[*kinds, *starts])
    table = read_table(recorded(tmp_path, [first, second]))
    assert "Run two was resumed; its throughput includes another start." in notices(table)
    assert "The recipe was changed between these runs, so their numbers do not belong together." in notices(table)
    assert "which is little to measure a throughput. Give more epochs." in notices(table)
    assert "The devices differ: 1 × X + 1 × Y." in notices(table)


def test_a_run_that_is_removed_or_has_no_second_epoch_leaves_a_gap(tmp_path: Path) -> None:
    runs = [tmp_path / "removed", trained(tmp_path, "two", 2, 5.0, LOSSES[:PER_EPOCH])]
    table = read_table(recorded(tmp_path, runs))
    one, two = to_json(table)["rows"]
    assert (one["states"], two["states"]) == (["missing"], ["finished"])
    assert [(row["samples_per_s"], row["speed_up"]) for row in (one, two)] == [(None, None)] * 2
    assert to_json(table)["complete"] is False


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = recorded(tmp_path, [trained(tmp_path, "one", 1, 1.0)], repeats=2).taken()
    assert read_record(tmp_path, "table") == record
    assert record.is_measured
    assert [(len(spec.devices), repeat) for spec, repeat in record.cells] == [(1, 1), (2, 1), (1, 2), (2, 2)]
    again = record.with_run(1, 1, trained(tmp_path, "again", 1, 1.0))
    assert (again.run_of(1, 1), again.run_of(2, 1)) == (tmp_path / "again", None), "the last one counts"
    left = record.left("CPU 1 is gone.")
    assert (left.is_measured, left.measured_by) == (False, None)
    assert read_record(tmp_path, "table").note == "CPU 1 is gone."
    assert read_record(tmp_path, "table").taken().note == ""
    write_whole(record.path, record.path.read_text().replace('"note"', '"other"'))
    assert read_record(tmp_path, "table").note == "", "an old record has no note"
    write_whole(record.path, record.path.read_text().replace('"strategy": "ddp"', '"strategy": "magic"'))
    with pytest.raises(ValueError, match=r"is not a scaling table\. PyTorch has no strategy 'magic' here"):
        read_record(tmp_path, "table")


def test_names_are_free_and_make_files(tmp_path: Path) -> None:
    assert free_name(tmp_path, None, "digits") == "digits"
    for name in ("digits", "digits-2"):
        write_whole(tmp_path / f"{name}.scaling.json", "{}")
    assert free_name(tmp_path, None, "digits") == "digits-3"
    assert free_name(tmp_path, "  mine   own ", "digits") == "mine own"
    assert names(tmp_path) == ["digits", "digits-2"]
    for name in ("a/b", ".hidden", "x" * 101, "tab\x1b"):
        with pytest.raises(ValueError, match="name"):
            free_name(tmp_path, name, "digits")


def test_a_table_of_another_command_is_not_begun_and_one_of_another_machine_not_stopped(tmp_path: Path) -> None:
    record = recorded(tmp_path).saved()
    with pytest.raises(ValueError, match=r"is being measured by another command \(pid \d+\)"):
        scaling_command.launch(record.taken())
    other = replace(record, host=replace(record.host, host="elsewhere")).saved()
    assert not scaling_command.stop(other), "nothing of here measures it"


def shown(record: ScalingRecord, *, table: ScalingTable | None = None) -> ShownTable:
    states = {each.dir.name: each.state for each in RunIndex(record.root).poll()}
    last = {(each.devices, each.repeat): each.run for each in record.runs}
    found = tuple(states.get(last.get((len(spec.devices), repeat), "")) for spec, repeat in record.cells)
    return ShownTable(record=record, is_measured=record.is_measured, states=found, table=table)


def test_a_table_is_one_row_that_unfolds(tmp_path: Path) -> None:
    runs = [trained(tmp_path, name, devices, 1.0) for name, devices in (("b", 1), ("c", 2), ("e", 1))]
    record = recorded(tmp_path, runs, repeats=2).left()
    for name in ("a", "d"):
        write_run(tmp_path, name)
    found = RunIndex(tmp_path).poll()
    table = shown(record)
    assert [each.dir.name for each in fold_runs(found, [table], ())] == ["table.scaling.json", "d", "a"]
    rows = fold_runs(found, [table], {record.path})
    assert [each.dir.name for each in rows] == ["table.scaling.json", "e", "c", "b", "d", "a"]
    assert [each.name for each in rows[:3]] == ["▾ table: 1 · 2", "↳ 1 device, 2 of 2", "↳ 2 devices, 1 of 2"]
    assert rows[0].started == found[0].started, "at the place of its newest run"
    assert fold_runs(found[1:2], [table], ()) == found[1:2], "a table of which no run is listed has no row"
    assert fold_runs(found, [], ()) == found
    measured = recorded(tmp_path).taken()
    assert fold_runs([], [shown(measured)], ())[0].dir == measured.path, "nothing is trained yet"


def test_the_runs_of_a_table_stay_below_it_whatever_their_day(tmp_path: Path) -> None:
    day_s, states = 86_400.0, ((0.0, "starting"), (3.0, "finished"))
    folders = [tmp_path / f"2025061{5 + at}-150000-run" for at in range(3)]
    for at, folder in enumerate(folders):
        write_run(tmp_path, folder.name, states=[(at * day_s + after, state) for after, state in states])
    record = recorded(tmp_path, [folders[0], folders[2]]).left()
    found = fold_runs(RunIndex(tmp_path).poll(), [shown(record)], {record.path})
    rows = run_rows(found, BEGAN + 9 * day_s, by_day=True)
    assert [(row.day, row.of_day) for row in rows if row.day] == [("17 June", 1), ("16 June", 1)], "a table counts once"
    assert re.fullmatch(r"▾ \d\d:\d\d table: 1 · 2", rows[0].title)
    assert [row.title for row in rows[1:3]] == ["↳ 2 devices", "↳ 1 device"], "without a time of another day"


def test_a_row_says_what_became_of_the_table(tmp_path: Path) -> None:
    one, two = (trained(tmp_path, name, devices, 2.0 / devices) for name, devices in (("one", 1), ("two", 2)))
    record = recorded(tmp_path, [one]).taken()
    assert outcome(shown(record)) == "1 of 2 trained"
    assert table_sentence(shown(record)) == "Training 2 of 2: 2 devices with the strategy Data parallel (DDP)."
    record = record.left("CPU 1 is gone.")
    assert (shown(record).state, outcome(shown(record))) == (RunState.STOPPED, "stopped · 1 of 2 trained")
    assert table_sentence(shown(record)) == "CPU 1 is gone. 1 of 2 trainings have finished. Continue makes the others."
    record = recorded(tmp_path, [one, two])
    assert outcome(shown(record)) == "finished", "as long as the numbers are not read"
    assert outcome(shown(record, table=read_table(record))) == "speed-up 2.00 on 2 devices"
    failed = trained(tmp_path, "failed", 2, 1.0, states=((0.0, "starting"), (1.0, "failed")))
    assert shown(recorded(tmp_path, [one, failed])).state is RunState.FAILED
    (row,) = run_rows(fold_runs(RunIndex(tmp_path).poll()[:1], [shown(record)], ()), BEGAN)
    assert (row.outcome, row.words, row.result, row.below, row.tone) == ("finished", "finished", "", "", "good")
    assert row.tip == "Scaling table table\nAll 2 trainings have finished."
