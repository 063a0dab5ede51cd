"""Presets saved as files, and runs as shell commands."""

import json
import shlex
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from core.cli import __main__
from core.config import presets
from core.config.choices import RecipeChoices, ScriptChoices, compose
from core.config.presets import repeat_line, shell_line
from core.config.script_check import ScriptCheckRequest, check_script, fill_in
from core.devices.cpu import cpu_devices
from core.schema.settings import ReleaseWatch, StopTimeouts
from tests.support.commands import choices_of
from tests.support.running import make_spec, script_spec


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text("print('step 1 loss 1.0')\n")
    return path


def test_preset_survives_saving_and_reading(script: Path) -> None:
    options = {"environment": {"A": "b"}, "expression": "(?P<loss>x)"}
    for name, spec in (
        ("nightly run", script_spec(script, "--lr", "0.1", cwd=script.parent, **options)),
        ("recipe", make_spec("digits_cnn", epochs=3, checkpoints={"unit": "steps", "every": 5})),
    ):
        path = presets.path_of(name, presets.default_root())
        presets.save(spec, path)
        assert presets.read(path) == spec
        assert (name, spec) in [(each.name, each.spec) for each in presets.read_all(presets.default_root())]


def test_preset_paths_below_its_folder_are_relative_and_move_with_it(script: Path, tmp_path: Path) -> None:
    spec = script_spec(script, cwd=script.parent)
    path = script.parent / "setup.json"
    presets.save(spec, path)
    kept = json.loads(path.read_text())
    assert (kept["script"]["path"], kept["working_dir"]) == ("train.py", ".")

    shutil.move(script.parent, tmp_path / "moved")

    moved = presets.read(tmp_path / "moved" / "setup.json")
    assert moved.script is not None
    assert moved.script.path == str(tmp_path / "moved" / "train.py")
    assert moved.python == spec.python


def test_invalid_preset_is_reported_and_the_others_are_listed(script: Path, tmp_path: Path) -> None:
    for name in ("", ".hidden", "a\nb", "-x"):
        with pytest.raises(ValueError, match="not a valid preset name"):
            presets.path_of(name, tmp_path)
    presets.save(script_spec(script, cwd=tmp_path), tmp_path / "good.json")
    (tmp_path / "bad.json").write_text("[1, 2]")
    bad, good = presets.read_all(tmp_path)
    assert bad.spec is None
    assert bad.problem == f"{tmp_path / 'bad.json'} is not a valid preset. It is not a JSON object."
    assert good.spec is not None
    with pytest.raises(ValueError, match="There is no preset"):
        presets.read(tmp_path / "none.json")


def parsed(line: str) -> tuple[str, RecipeChoices | ScriptChoices]:
    """Return the folder and the choices of a command that begins with `cd`."""
    cd, line = line.split(" && ")
    words = shlex.split(line)
    assert words[:2] == ["trainyard", "run"]
    return shlex.split(cd)[1], choices_of(*words[2:])


def test_shell_command_of_a_recipe_parses_back_to_the_same_spec(tmp_path: Path) -> None:
    spec = make_spec(
        "digits_cnn", devices="cpu:0,cpu:1", strategy="ddp", epochs=3, batch_size=32, seed=4, learning_rate=0.01,
        schedule="cosine", stop_on_nan=True, weight_decay=0.5, training_metrics=False, settings={"dropout": 0.5},
        checkpoints={"unit": "steps", "every": 7, "keep": 3, "best": False},
        stop_timeouts=StopTimeouts(ask_s=2.5, interrupt_s=30, terminate_s=0.123456789),
    )
    spec = replace(spec, release=ReleaseWatch(wait_s=5.0, tolerance_mb=8), cuda_ids="integer", name="a name")
    spec = replace(spec, allow_open_ports=True)
    for line in (shell_line(spec, {}), repeat_line(spec)):
        folder, choices = parsed(line)
        assert folder == spec.working_dir
        assert isinstance(choices, RecipeChoices)
        assert compose(choices, cpu_devices()) == spec


def test_command_that_repeats_a_run_parses_back_to_the_same_spec(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    script = script_spec(
        tmp_path / "train.py", "--data", "a b", cwd=tmp_path, environment={"LEVEL": "7 8"}, inherited=("HOME",),
        expression="(?P<loss>\\S+)", release={"wait_s": 5.0}, name="it's",
        stop={"interrupt_s": 5.0, "terminate_s": 60.0}, training={"stop_on_nan": True},
    )
    folder, choices = parsed(repeat_line(script))
    assert isinstance(choices, ScriptChoices)
    chosen = replace(choices, working_dir=folder)
    assert fill_in(check_script(ScriptCheckRequest.of(chosen)), chosen, cpu_devices()) == script


def test_command_names_an_unusual_python_and_has_a_name_that_is_accepted() -> None:
    spec = make_spec("digits_cnn")
    assert "--python" not in shell_line(spec, {})
    other = shlex.split(shell_line(replace(spec, python="/opt/other/bin/python"), {}))
    assert other[-2:] == ["--python", "/opt/other/bin/python"]
    words = shlex.split(repeat_line(replace(spec, name="a/b c")))
    assert words[words.index("--name") + 1] == "a-b c"


def test_shell_command_with_several_ranks_uses_torchrun(script: Path) -> None:
    spec = script_spec(script, "x", cwd=script.parent, devices="cpu:0,cpu:1", launch="per-device")
    words = shlex.split(shell_line(spec, {}).split(" && ")[1])
    begin = words.index(spec.python)
    assert words[begin:] == [
        spec.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script), "x",
    ]


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert __main__.main(words) == 2
    captured = capsys.readouterr()
    assert not captured.out
    return captured.err.strip().splitlines()[-1].removeprefix("trainyard: ")  # notes on a script may come before it


FOR_RECIPES, FOR_SCRIPTS = "{} is for recipes only. Leave it out.", "{} is for scripts only. Leave it out."
RECIPE, SCRIPT = "run digits_cnn --devices cpu:0", "run --script train.py --devices cpu:0"
RANKS = "run --script train.py --devices cpu:0,cpu:1 --launch per-device"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("run --devices cpu:0", "No recipe or script is given."),
        (f"{RECIPE} --script x",
         "Both a recipe and --script are given. A run trains one of them: leave the other out."),
        *((f"{SCRIPT} {words}", FOR_RECIPES.format(words.split()[0]))
          for words in ("--epochs 0", "--patience 3", "--ask-timeout 3", "--keep-best", "--set a=b")),
        (f"{RECIPE} --interrupt-timeout 0", "--interrupt-timeout is 0.0. Give a number greater than 0."),
        (f"{RECIPE} --env A=b", FOR_SCRIPTS.format("--env")),
        (f"{RECIPE} -- x", FOR_SCRIPTS.format("An argument after --")),
        (f"{SCRIPT} --env =A", "--env '=A' is not of the form NAME=VALUE."),
        (f"{SCRIPT} --cwd nowhere", "There is no folder"),
        (f"{SCRIPT} --launch two", "'two' is not a launch mode of scripts"),
        (f"{SCRIPT} --env CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES cannot be set for a script"),
        (f"{SCRIPT} --python nopy", "There is no Python called 'nopy'"),
        ("run --setup none --devices cpu:0", "There is no preset"),
        (f"{RANKS} --env MASTER_PORT=none", "MASTER_PORT none is in use or not a port"),
        (f"{RANKS} --env RANK=1",
         "RANK cannot be set for a script: Trainyard sets it from the chosen devices. Leave it out."),
    ],
)
def test_options_that_do_not_apply_are_refused(script, monkeypatch, capsys, line, sentence) -> None:
    monkeypatch.chdir(script.parent)
    assert error_of(capsys, *line.split()).startswith(sentence)


def test_port_in_use_and_preset_whose_working_folder_is_gone_are_refused(script, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(script.parent)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert error_of(capsys, *RANKS.split(), "--env", f"MASTER_PORT={port}") == (
            f"MASTER_PORT {port} is in use or not a port. Leave it out: a free one is found."
        )
    folder = tmp_path / "gone"
    folder.mkdir()
    presets.save(script_spec(script, cwd=folder), tmp_path / "kept.json")
    folder.rmdir()
    assert f"There is no folder {folder} to run in." in error_of(capsys, "run", "--setup", str(tmp_path / "kept.json"))
