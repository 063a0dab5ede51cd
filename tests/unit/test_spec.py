"""Specs: out to JSON and in again, each field checked, a newer version refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.schema.rank import RankAssignment
from core.schema.settings import ReleaseWatch, Training
from core.schema.spec import RunSpec, read_spec, write_spec
from tests.support.running import make_spec, script_spec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data() -> dict[str, Any]:
    return json.loads(json.dumps(make_spec("digits_cnn", settings={"width": 8}, epochs=3).to_json()))


def test_a_spec_survives_its_file(tmp_path: Path) -> None:
    spec = make_spec("digits_cnn", devices="cpu:0,cpu:1", settings={"width": 8}, learning_rate=0.5, seed=3)
    write_spec(tmp_path, spec)
    assert read_spec(tmp_path) == spec
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["spec.json"]


def test_a_scripts_spec_has_no_settings_of_loops_that_are_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    spec = script_spec("train.py", "--lr", "3", cwd=tmp_path)
    told = json.loads(json.dumps(spec.to_json()))
    assert not {"recipe", "training", "checkpoints"} & told.keys()
    assert told["script"]["arguments"] == ["--lr", "3"]
    assert RunSpec.from_json(told) == spec


def test_fields_of_another_day_are_passed_over(data: dict[str, Any]) -> None:
    data["mood"] = "good"
    data["training"]["warm_up"] = 5
    assert RunSpec.from_json(data).training.epochs == 3


def test_a_spec_from_before_the_memory_watch_is_read(data: dict[str, Any]) -> None:
    del data["release"]
    assert RunSpec.from_json(data).release == ReleaseWatch(tolerance_mb=64, wait_s=60)
    assert RunSpec.from_json({**data, "release": {"wait_s": 5}}).release == ReleaseWatch(wait_s=5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "written by a newer Trainyard (version 2; this one reads up to 1). Update Trainyard"),
        ({"recipe": 5}, "Its recipe is 5 where an object was expected."),
        ({"recipe": {"name": "x"}}, "It is not complete: path of its recipe is not there."),
        ({"name": ""}, "The name is ''. Give a text that is not empty."),
        ({"devices": [1]}, "The device id is 1."),
        ({"training": {"epochs": "many"}}, "The number of epochs is 'many'. Give a whole number of at least 1."),
        ({"training": {"batch_size": True}}, "The batch size is True."),
        ({"training": {"learning_rate": -1}}, "The learning rate is -1. Give a number greater than 0."),
        ({"ladder": {"ask_s": 0}}, "The stop ladder's ask_s is 0."),
        ({"release": {"wait_s": 0}}, "The time that the memory watch waits is 0. Give a number greater than 0."),
        ({"release": {"tolerance_mb": -1}}, "The tolerance of the memory watch in MB is -1. Give a whole number of at"),
        ({"recipe": {"name": "x", "path": "y", "settings": {"a": [1]}}}, "Setting 'a' is [1]."),
    ],
)
def test_a_spec_that_is_wrong_says_where(data: dict[str, Any], change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        RunSpec.from_json({**data, **change})
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_a_file_that_is_no_spec_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(ValueError, match=r"spec\.json is not a spec that can be used"):
        read_spec(tmp_path)


def test_defaults_are_valid() -> None:
    assert Training().batch_size == 64


def test_a_placement_survives_a_command_line() -> None:
    placement = RankAssignment(
        rank=1,
        world_size=2,
        devices=("a", "b"),
        own=("b",),
        kind="cpu",
        cores=(3, 4),
        target="pytorch.ddp",
        addresses=("here:1", "here:2"),
    )
    assert RankAssignment.from_text(placement.to_text()) == placement
