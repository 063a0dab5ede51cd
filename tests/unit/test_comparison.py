"""The comparison of runs: its numbers against numpy, its groups, its differences, and why runs differ."""

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import RunError
from core.results import measured_run
from core.results.comparison import Comparison, compare, to_json
from core.results.measured_run import columns, lower_is_better, read_run, read_runs, reasons
from core.runs.directory import keep_workload, workload_text
from core.schema.paths import WORKLOAD_FILE
from core.schema.settings import Script
from core.schema.spec import RunSpec
from gui.features.compare.rows import comparison_rows
from tests.support.running import make_spec, script_spec
from tests.support.written_runs import BEGAN, values, write_run

RECORDED = Path(__file__).resolve().parents[1] / "recorded_runs"
MEASURED = ("failed", "finished", "finished_ddp", "finished_script", "lost", "paused", "resumed", "stopped")


def curves(run_dir: Path) -> dict[str, dict[int, float]]:
    """Read all metrics by step from the event files, without any code of the product."""
    found: dict[str, dict[int, float]] = {}
    for name in ("worker-0", "collector"):
        path = run_dir / "events" / f"{name}.jsonl"
        for line in path.read_text().splitlines() if path.exists() else []:
            event = json.loads(line)
            if event["kind"] == "rewind":
                for steps in found.values():
                    for step in [step for step in steps if step > event["step"]]:
                        del steps[step]
            for metric, batch in event.get("values", {}).items() if event["kind"] == "metrics" else ():
                for step, value in enumerate(batch, event["first"]):
                    found.setdefault(metric, {})[step] = math.nan if value is None else float(value)
    return found


def rows_of(comparison: Comparison) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = to_json(comparison)["rows"]
    return rows


def compared(*run_dirs: Path, **options: Any) -> list[dict[str, Any]]:
    return rows_of(compare(read_runs(run_dirs), **options))


def seeded(seed: int, **settings: Any) -> RunSpec:
    return make_spec("digits_mlp", seed=seed, **settings)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The recorded runs; their supervisors have long ended."""
    for name in MEASURED:
        shutil.copytree(RECORDED / name, tmp_path / name)
        os.utime(tmp_path / name / "spec.json", (BEGAN, BEGAN))
    return tmp_path


@pytest.mark.parametrize("metric", ["loss", "val_loss", "accuracy", "learning_rate"])
def test_recorded_runs_against_numpy(recorded: Path, metric: str) -> None:
    lower = metric != "accuracy"
    comparison = compare(read_runs(recorded / name for name in MEASURED), metric=metric, lower=lower)
    for row in comparison.rows:
        for run, result in zip(row.runs, row.results, strict=True):
            curve = curves(run.dir).get(metric, {})
            steps, measured = np.array(sorted(curve)), np.array([curve[step] for step in sorted(curve)])
            if not curve:
                assert not {"last", "best", "best_step"} & set(result.numbers)
                continue
            at = np.nanargmin(measured) if lower else np.nanargmax(measured)
            found = [result.numbers[name] for name in ("last", "best", "best_step")]
            assert found == [measured[-1], measured[at], steps[at]]
    assert sum(len(row.runs) for row in comparison.rows) == len(MEASURED)


def test_recorded_runs_that_differ_in_nothing_but_their_end_form_a_group(recorded: Path) -> None:
    first, group = compared(*(recorded / name for name in ("finished", "paused", "resumed", "stopped")))
    assert first["n"] == 1
    assert (group["runs"], group["n"]) == (["paused", "resumed", "stopped"], 3)
    best = [min(curves(recorded / name)["val_loss"].values()) for name in group["runs"]]
    assert group["best"] == pytest.approx(np.mean(best), rel=1e-12)
    assert group["spread"]["best"] == pytest.approx(np.std(best, ddof=1), rel=1e-12)
    assert group["difference"]["best"]["percent"] == pytest.approx(
        100 * (np.mean(best) - first["best"]) / first["best"], rel=1e-12
    )
    assert first["differs"] == {"checkpoints.every": 5}
    assert group["differs"] == {"checkpoints.every": 8}


def test_groups_of_seeds_with_gaps_and_unequal_lengths_against_numpy(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    lengths = {0.1: (50, 50, 30), 0.2: (40, 41)}
    losses: dict[float, list[np.ndarray]] = {}
    folders = []
    for rate, sizes in lengths.items():
        for seed, size in enumerate(sizes):
            measured = (random.random(size) + 1 / np.arange(1, size + 1)).round(6)  # nine digits are stored
            measured[random.integers(0, size - 1, 3)] = np.nan
            losses.setdefault(rate, []).append(measured)
            batch = values(1, 1.0, 2.0, loss=measured.tolist())
            folders.append(write_run(tmp_path, f"{rate}-{seed}", [batch], spec=seeded(seed, learning_rate=rate)))
    comparison = compare(read_runs(folders), metric="loss")
    for row, each in zip(rows_of(comparison), losses.values(), strict=True):
        last, best = [one[-1] for one in each], [np.nanmin(one) for one in each]
        at = [np.nanargmin(one) + 1 for one in each]
        assert row["n"] == len(each)
        assert row["seeds"] == list(range(len(each)))
        for name, numbers in (("last", last), ("best", best), ("best_step", at)):
            assert row[name] == pytest.approx(np.mean(numbers), rel=1e-12)
            assert row["spread"][name] == pytest.approx(np.std(numbers, ddof=1), rel=1e-12)
    assert [row["differs"] for row in rows_of(comparison)] == [{"learning_rate": 0.1}, {"learning_rate": 0.2}]
    assert "seed" not in comparison.same
    assert len(comparison.notices) == 2, "the lengths of both groups"


def test_a_run_that_diverged_is_not_averaged_away_and_a_missing_metric_is_no_number(tmp_path: Path) -> None:
    one = write_run(tmp_path, "a", [values(1, 1, 2, loss=[2.0, 1.0], f1=[0.5, 0.6])], spec=seeded(0))
    bad = write_run(tmp_path, "b", [values(1, 1, 2, loss=[3.0, math.nan])], spec=seeded(1))
    third = write_run(tmp_path, "c", [values(1, 1, 2, loss=[4.0])], spec=seeded(0, learning_rate=0.5))
    (row,) = compared(one, bad)
    assert math.isnan(row["last"])
    assert row["best"] == 2.0
    group, alone = compared(one, bad, third, metric="f1")
    assert (group["best"], group["counts"]["best"], group["n"]) == (0.6, 1, 2)
    assert (alone["last"], alone["best"], alone["best_step"]) == (None, None, None)
    assert "best" not in alone["difference"]


def test_pauses_do_not_count_as_training(tmp_path: Path) -> None:
    states = ((0, "starting"), (1, "running"), (12, "releasing"), (12, "paused"),
              (1000, "starting"), (1001, "running"), (1013, "releasing"), (1014, "finished"))
    parts = [
        values(1, 2, 11, loss=[1.0] * 10),
        {"t": BEGAN + 1001, "kind": "rewind", "step": 8},
        values(9, 1003, 1012, loss=[0.5] * 10),
    ]
    paused = write_run(tmp_path, "paused", parts, states=states)
    straight = write_run(tmp_path, "straight", [values(1, 2, 19, loss=[1.0] * 8 + [0.5] * 10)])
    halted, whole = read_runs([paused, straight])
    (row,) = rows_of(compare([halted, whole], metric="loss", target=0.5))
    assert row["counts"]["training_s"] == 2
    results = compare([halted, whole], metric="loss", target=0.5).rows[0].results
    first, second = (result.numbers for result in results)
    assert first["training_s"] == pytest.approx(16.0), "seven seconds before the pause, nine after it"
    assert second["training_s"] == pytest.approx(17.0)
    assert first["steps_per_s"] == pytest.approx(17 / 16)
    assert first["time_to_target_s"] == pytest.approx(7.0)
    assert second["time_to_target_s"] == pytest.approx(8.0)


def test_scripts_keep_their_own_step_numbers(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('loss: 1')\n")
    spec = script_spec(script, "--lr", "0.1", "--seed=3", cwd=tmp_path)
    sparse = [values(step, at, at, loss=[loss]) for step, at, loss in ((100, 1, 3.0), (200, 3, 1.0), (300, 5, 2.0))]
    by_steps = write_run(tmp_path, "steps", sparse, spec=spec, file="collector")
    epochs = [{**values(epoch, epoch, epoch, loss=[1 / epoch]), "unit": "epoch"} for epoch in (1, 2, 3)]
    other = replace(spec, script=replace(spec.script or Script(path="x"), arguments=("--lr", "0.2", "--seed", "3")))
    by_epochs = write_run(tmp_path, "epochs", epochs, spec=other, file="collector")
    comparison = compare(read_runs([by_steps, by_epochs]))
    first, second = rows_of(comparison)
    assert (first["best"], first["best_step"], first["step_unit"]) == (1.0, 200, "step")
    assert first["steps_per_s"] == pytest.approx(50.0)
    assert first["samples_per_s"] is None
    assert (second["best_step"], second["step_unit"], second["steps_per_s"]) == (3, "epoch", None)
    assert (first["differs"], second["differs"]) == ({"--lr": "0.1"}, {"--lr": "0.2"})
    assert comparison.same["seed"] == "3"
    assert any("epochs" in notice for notice in comparison.notices)


def test_the_seed_among_the_arguments_of_a_script_groups_runs(tmp_path: Path) -> None:
    batch = [values(1, 1, 2, loss=[2.0, 1.0])]
    arguments = (("--seed", "1"), ("--seed=2",), ("seed=3",), ("--random-seed", "4"))
    folders = []
    for number, words in enumerate(arguments):
        spec = script_spec(__file__, "--lr", "0.1", *words, "data", cwd=tmp_path)
        folders.append(write_run(tmp_path, f"run-{number}", batch, spec=spec, file="collector"))
    (row,) = compared(*folders)
    assert row["seeds"] == ["1", "2", "3", "4"]


def test_the_identity_of_devices_does_not_count_but_kind_and_number_do(tmp_path: Path) -> None:
    batch = [values(1, 1, 2, loss=[2.0, 1.0])]

    def trained(name: str, ids: tuple[str, ...], card: str) -> Path:
        devices = [
            {"t": BEGAN, "kind": "device", "id": each, "device_kind": "nvidia", "label": each, "name": card}
            for each in ids
        ]
        return write_run(tmp_path, name, batch, spec=replace(seeded(0), devices=ids), more=devices)

    one, other = trained("a", ("GPU-1", "GPU-2"), "H100"), trained("b", ("GPU-3", "GPU-4"), "H100")
    fewer, older = trained("c", ("GPU-1",), "H100"), trained("d", ("GPU-1", "GPU-2"), "P40")
    rows = compared(one, other, fewer, older)
    assert [row["runs"] for row in rows] == [["a", "b"], ["c"], ["d"]]
    assert [row["differs"] for row in rows] == [
        {"devices": "2 × H100"}, {"devices": "1 × H100"}, {"devices": "2 × P40"}
    ]


def test_the_window_shortens_the_kinds_of_devices_and_has_them_whole_in_a_tip(tmp_path: Path) -> None:
    batch = [values(1, 1, 2, loss=[2.0, 1.0])]
    cards = {"GPU-1": "NVIDIA GeForce RTX 4090", "GPU-2": "NVIDIA H100 80GB HBM3", "GPU-3": "NVIDIA H100 80GB HBM3"}
    known = [{"t": BEGAN, "kind": "device", "id": each, "label": each, "name": name} for each, name in cards.items()]
    many = write_run(tmp_path, "a", batch, spec=replace(seeded(0), devices=tuple(cards)), more=known)
    without_name = write_run(tmp_path, "b", batch, spec=replace(seeded(0), devices=("cpu:0",)))
    rows = comparison_rows(compare([read_run(many), read_run(without_name)]))
    at = rows.headings.index("Devices")
    assert [(row[at].text, row[at].tip) for row in rows.rows] == [
        ("1 × RTX 4090 + 2 × H100 80GB HBM3", "1 × NVIDIA GeForce RTX 4090 + 2 × NVIDIA H100 80GB HBM3"),
        ("1 × CPU", "1 × CPU"),
    ]


def test_steps_per_second_give_way_to_samples() -> None:
    scripts, recipes = {"last", "steps_per_s"}, {"last", "samples_per_s", "steps_per_s"}
    assert [each.name for each in columns([scripts, recipes])] == ["last", "samples_per_s", "steps_per_s"]
    assert [each.name for each in columns([recipes, recipes])] == ["last", "samples_per_s"]
    assert [each.name for each in columns([scripts])] == ["last", "steps_per_s"]


def test_differences_say_which_is_better_for_each_quantity(tmp_path: Path) -> None:
    plan = {"t": BEGAN, "kind": "plan", "epochs": 1, "steps_per_epoch": 4, "samples_per_epoch": 128}
    readings = [{"t": BEGAN + 1, "kind": "sample", "device": "cpu:0", "memory_used_bytes": size} for size in (10, 30)]
    slow = write_run(tmp_path, "slow", [plan, values(1, 1, 4, accuracy=[0.1, 0.2, 0.4, 0.3])], devices=readings)
    spec = seeded(0, learning_rate=0.5)
    fast = write_run(
        tmp_path, "fast", [plan, values(1, 1, 2.5, accuracy=[0.1, 0.3, 0.5, 0.4])], spec=spec, devices=readings[:1]
    )
    comparison = compare(read_runs([slow, fast]), target=0.3)
    first, second = rows_of(comparison)
    assert (comparison.metric, comparison.lower_is_better) == ("accuracy", False)
    assert (first["samples_per_s"], second["samples_per_s"]) == pytest.approx((32.0, 64.0))
    assert first["difference"] is None
    assert second["difference"]["best"] == {"value": pytest.approx(0.1), "percent": pytest.approx(25), "better": True}
    assert second["difference"]["samples_per_s"]["percent"] == pytest.approx(100)
    assert second["difference"]["samples_per_s"]["better"]
    assert second["difference"]["time_to_target_s"]["better"], "less time"
    assert second["difference"]["peak_memory_bytes"] == {
        "value": -20.0, "percent": pytest.approx(-200 / 3), "better": True
    }
    back = rows_of(compare(read_runs([slow, fast]), baseline="fast", lower=True))
    assert back[1]["difference"] is None
    assert back[0]["difference"]["samples_per_s"]["percent"] == pytest.approx(-50)
    assert back[0]["best"] == 0.1, "lower was said to be better"


@pytest.mark.parametrize(
    ("metric", "lower"),
    [("val_loss", True), ("reward_loss", True), ("val_accuracy", False), ("mAP50-95", False), ("top1", False),
     ("rouge2", False), ("binary_accuracy", False), ("mean_squared_error", True), ("temperature", None)],
)
def test_the_name_of_a_metric_says_whether_lower_is_better(metric: str, lower: bool | None) -> None:
    assert lower_is_better(metric) is lower


def test_a_direction_that_is_not_known_is_said_and_a_validation_loss_is_preferred(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path, name, [values(1, 1, 2, spread=[2.0, 1.0])], spec=seeded(0, epochs=epochs))
        for name, epochs in (("a", 1), ("b", 2))
    ]
    (notice,) = compare(read_runs(folders)).notices
    assert "lower was assumed" in notice
    assert compare(read_runs(folders), lower=True).notices == []
    both = [values(1, 1, 2, loss=[2.0, 1.0]), values(2, 2, 2, val_loss=[1.0])]
    one, other = write_run(tmp_path, "c", both), write_run(tmp_path, "d", both)
    third = write_run(tmp_path, "e", [values(1, 1, 2, loss=[2.0, 1.0])])
    assert compare(read_runs([one, other])).metric == "val_loss"
    assert compare(read_runs([one, other, third])).metric == "loss", "which all have"


def test_what_cannot_be_compared_is_one_sentence(tmp_path: Path) -> None:
    one = write_run(tmp_path, "a", [values(1, 1, 2, loss=[2.0], learning_rate=[0.1])])
    other = write_run(tmp_path, "b", [values(1, 1, 2, reward=[2.0], learning_rate=[0.1])])
    third = write_run(tmp_path, "c", [values(1, 1, 2, loss=[math.nan])])
    with pytest.raises(
        RunError, match=r"no metric in common: a measured learning_rate and loss, b .* c measured nothing"
    ):
        compare(read_runs([one, other, third]))
    assert compare(read_runs([one, other, third]), metric="reward").rows[0].results[0].numbers.get("best") is None
    spec = json.loads((other / "spec.json").read_text())
    (other / "spec.json").write_text(json.dumps({**spec, "version": 99}))
    with pytest.raises(ValueError, match=r"b/spec\.json is not a valid spec\. It was written by a newer Trainyard"):
        read_runs([one, other])


def test_a_run_that_is_removed_while_it_is_read_is_one_sentence(tmp_path: Path, monkeypatch) -> None:
    one, other = (write_run(tmp_path, name, [values(1, 1, 2, loss=[2.0])]) for name in ("a", "b"))
    read = measured_run.read_series

    def read_and_remove(*arguments: Any) -> Any:
        series = read(*arguments)
        shutil.rmtree(other, ignore_errors=True)
        return series

    monkeypatch.setattr(measured_run, "read_series", read_and_remove)
    with pytest.raises(RunError, match=r"^Run b was removed while it was compared\. "):
        read_runs([one, other])
    with pytest.raises(RunError, match=r"^Run b was removed while it was compared\. "):
        read_run(other)


def test_why_lists_settings_packages_devices_commits_and_the_text(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.py"
    texts = ("def model():\n    return 1\n", "def model():\n    return 2\n")
    found = []
    for number, text in enumerate(texts):
        recipe.write_text(text)
        spec = replace(seeded(0, learning_rate=0.1 * (number + 1)), devices=(f"cpu:{number}",))
        spec = replace(spec, recipe=replace(spec.own_recipe, path=str(recipe)))
        more = [
            {"t": BEGAN + 1, "kind": "software", "version": "3.12.3", "trainyard": "0.1.0",
             "packages": {"torch": f"2.{number}", "numpy": "2.0"} | ({"timm": "1.0"} if number else {})},
            {"t": BEGAN + 1, "kind": "source", "folder": str(tmp_path), "commit": "abc", "branch": "main",
             "changed": bool(number)},
        ]
        run_dir = write_run(tmp_path, f"run-{number}", [values(1, 1, 2, loss=[2.0])], spec=spec, more=more)
        keep_workload(run_dir, spec)
        found.append(read_run(run_dir))
    why = reasons(*found)
    assert why.settings == {"learning_rate": (0.1, 0.2)}
    assert why.packages == {"torch": ("2.0", "2.1"), "timm": (None, "1.0")}
    assert why.devices == {"ids": ("cpu:0", "cpu:1")}
    assert why.commits == ("abc", "abc+")
    assert [line for line in why.text if line[0] in "-+"][2:] == ["-    return 1", "+    return 2"]
    assert why.text_notice == ""
    again = reasons(found[0], found[0])
    assert (again.settings, again.packages, again.devices, again.commits, again.text) == ({}, {}, {}, None, ())


def test_a_text_that_may_have_changed_is_not_known(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.py"
    recipe.write_text("x = 1\n")
    spec = replace(seeded(0), recipe=replace(seeded(0).own_recipe, path=str(recipe)))
    run_dir = write_run(tmp_path, "run", [values(1, 1, 2, loss=[2.0])], spec=spec)
    os.utime(recipe, (BEGAN - 1, BEGAN - 1))
    assert workload_text(run_dir, spec, BEGAN, foreign=False) == "x = 1\n", "not changed since the start"
    assert workload_text(run_dir, spec, BEGAN, foreign=True) is None, "another user's spec may name any file"
    os.utime(recipe, (BEGAN + 1, BEGAN + 1))
    assert workload_text(run_dir, spec, BEGAN, foreign=False) is None
    run = read_run(run_dir)
    assert "is not known" in reasons(run, run).text_notice
    keep_workload(run_dir, spec)
    assert workload_text(run_dir, spec, BEGAN, foreign=True) == "x = 1\n"
    assert (run_dir / WORKLOAD_FILE).stat().st_mode & 0o777 == 0o600


def test_secrets_of_a_script_are_not_shown_but_differ(tmp_path: Path) -> None:
    folders = []
    for number in range(2):
        script = Script(path=__file__, environment={"HF_TOKEN": f"hf_{number}", "MODE": f"{number}"})
        spec = replace(script_spec(__file__, cwd=tmp_path), script=script)
        folders.append(write_run(tmp_path, f"run-{number}", [values(1, 1, 2, loss=[2.0])], spec=spec, file="collector"))
    runs = read_runs(folders)
    assert [row["differs"] for row in rows_of(compare(runs))] == [
        {"env.HF_TOKEN": "(hidden)", "env.MODE": "0"}, {"env.HF_TOKEN": "(hidden)", "env.MODE": "1"}
    ]
    assert reasons(*runs).settings["env.HF_TOKEN"] == ("(hidden)", "(hidden)")
