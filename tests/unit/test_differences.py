"""What makes a run different, in words: beside the run before of its recipe or script, and within a comparison."""

import math
from pathlib import Path

import pytest

from core.history.differences import Differences, differences_below, names_within, telling, title_and_value, words_of
from core.history.index import RunIndex
from core.history.summary import RunSummary, SummaryReader, setting_values
from core.runs.facts import RunState
from core.runs.run import folders_mark
from core.schema.spec import RunSpec
from tests.support.running import make_spec, script_spec
from tests.support.written_runs import BEGAN, values, write_run

GPU = {"cpu:0": {"name": "NVIDIA H100 80GB HBM3"}, "cpu:1": {"name": "NVIDIA H100 80GB HBM3"}}


def recipe(devices: str = "cpu:0", known: dict | None = None, **training: object) -> dict:
    values = {"learning_rate": 0.05, "batch_size": 128, "seed": 1, **training}
    return setting_values(make_spec("digits_cnn", devices=devices, **values), GPU if known is None else known)


def script(tmp_path: Path, *arguments: str) -> dict:
    file = tmp_path / "train.py"
    file.touch()
    return setting_values(script_spec(file, *arguments, cwd=tmp_path), {})


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {}, "lr 0.05 · batch 128 · seed 1"),
        ({}, {"seed": 2}, "seed 2 · lr 0.05 · batch 128"),
        ({}, {"learning_rate": 0.1, "seed": 2}, "lr 0.1 · seed 2 · batch 128"),
        ({"gradient_clip": 1.0}, {}, "gradient clipping off · lr 0.05 · batch 128"),
        ({"schedule": "cosine", "warmup_steps": 50}, {}, "schedule constant · warm-up steps 0 · lr 0.05"),
        ({}, {"compile": True}, "compile · lr 0.05 · batch 128"),
        ({"compile": True}, {}, "no compile · lr 0.05 · batch 128"),
        ({}, {"devices": "cpu:0,cpu:1"}, "ddp · 2 × H100 80GB HBM3 · lr 0.05"),
    ],
)
def test_what_differs_comes_first_and_then_what_tells_most(before, after, words):
    assert words_of(recipe(**after), recipe(**before)) == words


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (["--lr", "0.1"], ["--lr", "0.2", "--seed=3"], "lr 0.2 · seed 3"),
        (["--epochs=3"], ["--epochs=3", "--amp"], "amp · epochs 3"),
        (["--amp", "--epochs=3"], ["--epochs=3"], "amp – · epochs 3"),
        ([], ["optimizer.lr=0.1", "data=/data/cats"], "optimizer.lr 0.1 · data cats"),
        (["--api-key", "abc"], ["--api-key", "xyz", "--url=postgres://me:pass@host"], "url postgres://host"),
        (["first"], ["second"], "second"),
    ],
)
def test_arguments_of_a_script_are_named_and_secrets_are_not(tmp_path, before, after, words):
    found = words_of(script(tmp_path, *after), script(tmp_path, *before))
    assert found.partition(" · 1 × ")[0].startswith(words)
    assert not {"abc", "xyz", "pass"} & set(found.replace(":", " ").split())


def summary(name: str, state: RunState, settings: dict, **more: object) -> RunSummary:
    given = {"started": BEGAN, "ended": None, "error": None, "last_loss": 0.5, "step": 0, "plan": None, **more}
    return RunSummary(dir=Path(f"/runs/{name}"), name="mine", state=state, settings=settings, **given)


def test_a_run_is_beside_the_one_before_of_its_recipe_and_a_queued_one_has_no_devices_yet(tmp_path):
    other = script(tmp_path, "--lr=9")
    queued = {name: value for name, value in recipe(seed=3).items() if name != "devices"}
    runs = [
        summary("4", RunState.QUEUED, queued), summary("3", RunState.FINISHED, other),
        summary("2", RunState.FINISHED, recipe(seed=2)), summary("1", RunState.FINISHED, recipe()),
        summary("0", RunState.FINISHED, {}),
    ]
    found = Differences(runs)
    assert [found.words(each) for each in runs][:3] == [
        "seed 3 · lr 0.05 · batch 128", "lr 9", "seed 2 · lr 0.05 · batch 128",
    ]
    assert found.words(runs[-1]) == "", "its settings are not known"
    found.follow([runs[0], runs[3]])
    assert found.words(runs[0]) == "seed 3 · lr 0.05 · batch 128"
    found.follow([runs[0]])
    assert found.words(runs[0]) == "lr 0.05 · batch 128 · seed 3", "the others were deleted"


@pytest.mark.parametrize(
    ("every", "names"),
    [
        ([{}, {"learning_rate": 0.1}], ["lr 0.05", "lr 0.1"]),
        ([{}, {}, {"learning_rate": 0.1}, {"batch_size": 384}], None),
        ([{"seed": 1}, {"seed": 2}], ["seed 1", "seed 2"]),
        ([{}, {}], ["", ""]),
        ([{}, {"python": "/x"}], ["", ""]),
    ],
)
def test_a_name_within_a_comparison_is_the_one_or_two_settings_that_differ(every, names):
    found = names_within([{**recipe(), **each} for each in every])
    assert found == (names or ["lr 0.05", "lr 0.05", "lr 0.1", "lr 0.05, batch 384"])


def test_columns_are_what_differs_within_a_recipe_or_script_and_these_if_there_are_several(tmp_path):
    recipes = [recipe(seed=2, compile=True), recipe("cpu:0,cpu:1"), {}, {"imported": "/a", "devices": "-"}]
    assert telling(recipes) == ["compile", "strategy", "seed"]
    scripts = [script(tmp_path, "--lr", "0.1", "--api-key", "1"), script(tmp_path, "--lr", "0.2", "--api-key", "2")]
    assert telling(scripts) == ["--lr"], "no secret"
    assert telling([*recipes[:1], *scripts]) == ["recipe", "script", "--lr"]
    assert telling([]) == []
    assert [title_and_value(*each) for each in (("learning_rate", 0.05), ("compile", False), ("--width", "9"))] == [
        ("lr", "0.05"), ("compile", "off"), ("width", "9"),
    ]


def test_names_within_a_grid_are_never_alike():
    grid = [{**recipe(), "learning_rate": rate, "batch_size": batch, "schedule": schedule}
            for rate in (0.1, 0.2) for batch in (8, 16) for schedule in ("constant", "cosine")]
    assert len({*names_within(grid)}) == 8


def with_rate(rate: float) -> RunSpec:
    return make_spec("digits_mlp", learning_rate=rate)


def test_commands_and_messages_have_the_words_of_the_newest_runs(tmp_path):
    for number in range(3):
        write_run(tmp_path, f"20260101-00000{number}-run", spec=with_rate(0.1 * (1 + number)))
    queued = write_run(tmp_path, "20260101-000009-run", states=[(0.0, "queued")], spec=with_rate(0.7))
    assert differences_below(tmp_path)["20260101-000002-run"].startswith("lr 0.3 · ")
    assert differences_below(tmp_path)[queued.name].startswith("lr 0.7 · ")
    assert differences_below(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("events", "step"),
    [
        ([values(1, 1, 2, loss=[1.0, 2.0])], None),
        ([values(1, 1, 2, loss=[1.0, math.nan, 3.0]), values(4, 2, 3, loss=[math.nan])], 2),
        ([values(1, 1, 2, loss=[1.0, math.inf]), values(3, 3, 4, loss=[math.nan, math.nan])], 2),
        ([values(1, 1, 2, loss=[1.0, 1.0], val_loss=[math.nan])], None),
        ([values(1, 1, 2, loss=[1.0, math.nan]), {"t": BEGAN + 3, "kind": "rewind", "step": 1}], None),
        ([values(1, 1, 2, loss=[1.0, math.nan]), {"t": BEGAN + 3, "kind": "rewind", "step": 2}], 2),
    ],
)
def test_summary_has_the_step_at_which_the_loss_became_nan_also_from_the_index(tmp_path, events, step):
    run_dir = write_run(tmp_path, "20260101-000000-run", events)
    assert SummaryReader(run_dir).summary(folders_mark(run_dir), None).nan_step == step
    (found,) = RunIndex(tmp_path).poll()
    assert found.nan_step == step
