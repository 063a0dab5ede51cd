"""The script form: typed text becomes values or an error, and a run's script becomes text again."""

import sys
from pathlib import Path

import pytest

from gui.machine.script import TypedScript, folder_of, is_program, split, typed_of, variables
from tests.support.running import script_spec


def test_typed_script_is_parsed_like_in_a_shell():
    typed = TypedScript(
        script="~/train.py", arguments="--name 'a b' --lr 0.1 \"c\"", working_dir="~",
        environment="A=1\n\n  B = x=y \nEMPTY=", launch="per-device", devices=("cpu:0",),
    )
    choices = typed.choices()
    assert choices.script == str(Path.home() / "train.py")
    assert choices.arguments == ("--name", "a b", "--lr", "0.1", "c")
    assert choices.environment == {"A": "1", "B": " x=y ", "EMPTY": ""}
    assert choices.working_dir == str(Path.home())
    assert (choices.launch, choices.python, choices.module) == ("per-device", None, "")
    module = TypedScript(script="-m package.train", working_dir="/").choices()
    assert (module.module, module.script, folder_of("-m package.train")) == ("package.train", "", "")


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: split("--name 'a b"), "The line of arguments has a quotation mark that is not closed. Quote them as"),
        (lambda: split("--name a\\"), "The line of arguments ends with a backslash. Quote them as for a shell."),
        *((lambda line=line: variables(f"GOOD=1\n{line}"), "is not an environment variable. Give NAME=VALUE")
          for line in ("two words", "=value", "two words=x")),
        (lambda: variables("A=1\nA=2"), "The variable A is given twice."),
        (TypedScript(script="").choices, "No script is chosen"),
        (TypedScript(script="/x/train.py").choices, "No working folder is given"),
    ],
)
def test_text_that_cannot_be_is_refused(act, words):
    with pytest.raises(ValueError, match=words):
        act()


def test_script_of_a_run_survives_conversion_to_text(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('step 1 loss 1.0')\n")
    spec = script_spec(script, "--name", "a b", "--x=$y", cwd=tmp_path, environment={"A": "b c", "B": "="})
    choices = TypedScript(**typed_of(spec)).choices()
    assert spec.script is not None
    assert (choices.script, choices.arguments, choices.environment) == (
        spec.script.path,
        spec.script.arguments,
        spec.script.environment,
    )
    assert (choices.working_dir, choices.python, choices.launch) == (str(tmp_path), sys.executable, spec.strategy)


def test_python_files_and_folders_with_main_py_are_programs(tmp_path):
    (tmp_path / "train.py").touch()
    (tmp_path / "data.csv").touch()
    (tmp_path / "program").mkdir()
    assert is_program(tmp_path / "train.py")
    assert not is_program(tmp_path / "data.csv")
    assert not is_program(tmp_path / "program")
    (tmp_path / "program" / "__main__.py").touch()
    assert is_program(tmp_path / "program")
    assert folder_of(str(tmp_path / "program")) == str(tmp_path / "program")
    assert folder_of(str(tmp_path / "train.py")) == str(tmp_path)
