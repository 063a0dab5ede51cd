"""Specs: written to JSON and read back, with each field checked and a newer version refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.cli.__main__ import main
from core.schema.rank import RankAssignment
from core.schema.setting import Number, Whole, settings_of
from core.schema.settings import ReleaseWatch, Training
from core.schema.spec import RECIPE_PARTS, RunSpec, read_spec, write_spec
from tests.support.recorded import recorded
from tests.support.running import make_spec, script_spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def data() -> dict[str, Any]:
    return json.loads(json.dumps(make_spec("digits_cnn", settings={"width": 8}, epochs=3).to_json()))


def test_spec_survives_writing_and_reading(tmp_path: Path) -> None:
    spec = make_spec("digits_cnn", devices="cpu:0,cpu:1", settings={"width": 8}, learning_rate=0.5, seed=3)
    write_spec(tmp_path, spec)
    assert read_spec(tmp_path) == spec
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["spec.json"]


def test_spec_of_a_script_has_no_recipe_settings(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    spec = script_spec("train.py", "--lr", "3", cwd=tmp_path)
    document = json.loads(json.dumps(spec.to_json()))
    assert not {"recipe", "training", "checkpoints"} & document.keys()
    assert document["script"]["arguments"] == ["--lr", "3"]
    assert RunSpec.from_json(document) == spec


def test_unknown_spec_fields_are_ignored(data: dict[str, Any]) -> None:
    data["mood"] = "good"
    data["training"]["warm_up"] = 5
    assert RunSpec.from_json(data).training.epochs == 3


def test_spec_without_memory_watch_gets_the_defaults(data: dict[str, Any]) -> None:
    del data["release"]
    assert RunSpec.from_json(data).release == ReleaseWatch(tolerance_mb=64, wait_s=60)
    assert RunSpec.from_json({**data, "release": {"wait_s": 5}}).release == ReleaseWatch(wait_s=5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "written by a newer Trainyard (version 2; this one reads up to 1). Update Trainyard"),
        ({"recipe": 5}, "Its field recipe is 5 where an object is expected."),
        ({"recipe": {"name": "x"}}, "It lacks recipe.path."),
        ({"name": ""}, "The name is ''. Give a text that is not empty."),
        ({"devices": [1]}, "Its field devices is [1] where a list of texts is expected."),
        ({"devices": [""]}, "The device id is ''. Give a text that is not empty."),
        ({"training": {"epochs": "many"}}, "Its field training.epochs is 'many' where a whole number is expected."),
        ({"training": {"epochs": 0}}, "The setting “Epochs” is 0. Give a whole number of at least 1."),
        ({"training": {"batch_size": True}}, "Its field training.batch_size is True where a whole number is expected."),
        ({"training": None}, "Its field training is None where an object is expected."),
        ({"training": {"learning_rate": -1}}, "The setting “Learning rate” is -1. Give a number greater than 0."),
        ({"release": {"wait_s": 10**400}}, "Its field release.wait_s is 1"),
        ({"stop_timeouts": {"ask_s": 0}}, "The setting “Seconds until SIGINT” is 0."),
        (
            {"release": {"wait_s": 0}},
            "The setting “Memory wait in seconds” is 0. Give a number greater than 0.",
        ),
        ({"release": {"tolerance_mb": -1}}, "The setting “Memory tolerance in MB” is -1. Give a whole number of at"),
        ({"recipe": {"name": "x", "path": "y", "settings": {"a": [1]}}}, "Setting 'a' is [1]."),
    ],
)
def test_invalid_spec_error_names_the_field(data: dict[str, Any], change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        RunSpec.from_json({**data, **change})
    assert words in str(caught.value)


TRAINING = settings_of(Training).items()
NOT_NONE = {Whole: 5, Number: 0.5}
"""Values of settings whose default is None."""
WHOLE = {
    "version": 1,
    "name": "run", "framework": "pytorch", "strategy": "single", "devices": ["cpu:0"], "cuda_ids": "uuid",
    "allow_open_ports": False,
    "python": "/usr/bin/python3", "working_dir": "/tmp",
    "recipe": {"name": "r", "path": "/r.py", "settings": {"width": 8}},
    "training": {name: row.default if row.default is not None else NOT_NONE[type(row.kind)] for name, row in TRAINING},
    "checkpoints": {"unit": "epochs", "every": 1, "keep": 2, "best": True},
    "stop_timeouts": {"ask_s": 0.5, "interrupt_s": 0.5, "terminate_s": 0.5},
    "release": {"tolerance_mb": 64, "wait_s": 0.5},
}  # fmt: skip
OPTIONAL = {"recipe", "script", *(name for name, row in TRAINING if row.none)}
SCRIPT_RUN = {
    **{name: value for name, value in WHOLE.items() if name not in RECIPE_PARTS},
    "framework": "script",
    "script": {
        "path": "/s.py",
        "module": "",
        "arguments": ["--lr"],
        "environment": {"A": "b"},
        "inherited": ["C"],
        "expression": "",
        "rules": ["a {step}"],
        "rules_file": "",
    },
}
WRONG = (5, 1.5, True, None, "x", [1], ["x"], {"a": [1]})


def damaged() -> Iterator[Any]:
    """Yield field names, each with a spec in which this field has a value of a wrong type."""
    for spec in (WHOLE, SCRIPT_RUN):
        for name, value in spec.items():
            yield from ((name, {**spec, name: wrong}) for wrong in WRONG if is_wrong(name, value, wrong))
            for inner, known in value.items() if isinstance(value, dict) else ():
                for wrong in WRONG:
                    if is_wrong(inner, known, wrong):
                        yield f"{name}.{inner}", {**spec, name: {**value, inner: wrong}}


def is_wrong(name: str, right: object, wrong: object) -> bool:
    if wrong is None:
        return name not in OPTIONAL
    if isinstance(right, float):
        return type(wrong) not in {int, float}
    of_texts = name in {"devices", "arguments", "environment", "inherited"}
    return type(wrong) is not type(right) or (of_texts and wrong in ([1], {"a": [1]}))


def test_sample_specs_have_all_fields() -> None:
    assert RunSpec.from_json(WHOLE).to_json() == {**WHOLE, "script": None}
    assert RunSpec.from_json(SCRIPT_RUN).to_json() == {
        **SCRIPT_RUN,
        "script": {**SCRIPT_RUN["script"], "arguments": ("--lr",), "inherited": ("C",), "rules": ("a {step}",)},
    }


@pytest.mark.parametrize(("field", "document"), list(damaged()))
def test_value_of_a_wrong_type_is_refused_with_its_field(field: str, document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"Its field {field} is .* is expected\.$") as caught:
        RunSpec.from_json(document)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["show", "command"])
def test_command_on_an_invalid_spec_names_file_and_field(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_default_training_settings_are_valid() -> None:
    assert Training().batch_size == 64


def test_rank_assignment_survives_a_command_line() -> None:
    assignment = RankAssignment(
        rank=1,
        world_size=2,
        devices=("a", "b"),
        own=("b",),
        kind="cpu",
        cores=(3, 4),
        target="pytorch.ddp",
        addresses=("here:1", "here:2"),
    )
    assert RankAssignment.from_text(assignment.to_text()) == assignment
