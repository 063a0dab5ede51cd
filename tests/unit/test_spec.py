"""Specs: written to JSON and read back, with each field checked and a newer version refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.cli.__main__ import main
from core.schema.settings import ReleaseWatch
from core.schema.spec import RunSpec, read_spec
from tests.support.recorded import recorded
from tests.support.running import make_spec, script_spec


@pytest.fixture
def data() -> dict[str, Any]:
    return json.loads(json.dumps(make_spec("digits_cnn", settings={"width": 8}, epochs=3).to_json()))


def test_spec_of_a_script_has_no_recipe_settings(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    spec = script_spec("train.py", "--lr", "3", cwd=tmp_path)
    document = json.loads(json.dumps(spec.to_json()))
    assert not {"recipe", "training", "checkpoints"} & document.keys()
    assert document["script"]["arguments"] == ["--lr", "3"]
    assert RunSpec.from_json(document) == spec


def test_unknown_spec_fields_are_ignored_and_missing_ones_have_their_defaults(data: dict[str, Any]) -> None:
    data["mood"] = "good"
    data["training"]["warm_up"] = 5
    del data["release"]
    spec = RunSpec.from_json(data)
    assert (spec.training.epochs, spec.release) == (3, ReleaseWatch(tolerance_mb=64, wait_s=60))
    assert RunSpec.from_json({**data, "release": {"wait_s": 5}}).release == ReleaseWatch(wait_s=5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "written by a newer Trainyard (version 2; this one reads up to 1). Update Trainyard"),
        ({"name": ""}, "The name is ''. Give a text that is not empty."),
        ({"devices": [""]}, "The device id is ''. Give a text that is not empty."),
        ({"recipe": {"name": "x", "path": "y", "settings": {"a": [1]}}}, "Setting 'a' is [1]."),
    ],
)
def test_invalid_spec_error_names_the_field(data: dict[str, Any], change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        RunSpec.from_json({**data, **change})
    assert words in str(caught.value)


@pytest.mark.parametrize("command", ["show", "command"])
def test_command_on_an_invalid_spec_names_file_and_field(command, tmp_path, capsys) -> None:
    run_dir = recorded(tmp_path)
    path = run_dir / "spec.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "devices": 5}))
    assert main([command, str(run_dir), "--runs", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err == f"trainyard: {path} is not a valid spec. Its field devices is 5 where a list of texts is expected.\n"


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100_000])
def test_file_that_is_not_a_spec_is_named_in_the_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(ValueError, match=r"spec\.json is not a valid spec"):
        read_spec(tmp_path)
