"""Checking a script in the background, and whether it can be started."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from core.config.choices import ScriptChoices
from core.config.examination import examine_script
from core.config.script_check import ScriptCheckRequest, ScriptCheckResult, check_script
from core.devices.cpu import cpu_devices
from core.devices.device import Survey
from gui.features.setup.start import StartChecker
from gui.machine.machine import Machine
from gui.machine.script import TypedScript
from gui.machine.start_check import StartConditions, checking, judge

SURVEY = Survey(devices=tuple(cpu_devices()), samples=())


@pytest.fixture
def script_choices(tmp_path):
    """Return a function that writes a script with this source and returns choices for it."""

    def make(source: str, **options) -> ScriptChoices:
        path = tmp_path / "train.py"
        path.write_text(source)
        defaults = {"devices": ("cpu:0", "cpu:1"), "working_dir": str(tmp_path), "python": sys.executable}
        return ScriptChoices(script=str(path), **{**defaults, **options})

    return make


def check_start(choices: ScriptChoices, answer: ScriptCheckResult):
    return judge(examine_script(choices, answer, SURVEY.devices), StartConditions(survey=SURVEY))


def test_unchecked_script_is_reported_as_being_checked(tmp_path):
    result = checking(typed(tmp_path, "print(1)\n"))
    assert (result.spec, result.problems, result.pending) == (None, ("Checking train.py …",), True)


def test_valid_script_can_be_started(script_choices):
    choices = script_choices(
        "print(1)\n", arguments=("--lr", "0.1"), release={"tolerance_mb": 5}, expression="(?P<loss>x)"
    )
    result = check_start(choices, check_script(ScriptCheckRequest.of(choices)))
    assert result.problems == ()
    assert result.ready.startswith("Ready: CPU 0 and CPU 1")
    spec = result.spec
    assert (spec.devices, spec.strategy, spec.release.tolerance_mb) == (("cpu:0", "cpu:1"), "one", 5)
    assert (spec.script.arguments, spec.script.expression) == (("--lr", "0.1"), "(?P<loss>x)")
    assert result.arithmetic.startswith("One process. ")


DISTRIBUTED = "import os\nrank = int(os.environ['LOCAL_RANK'])\nworld = int(os.environ['WORLD_SIZE'])\n"


def test_launch_is_guessed_from_source_and_different_choice_is_noted(script_choices):
    choices = script_choices(DISTRIBUTED)
    result = check_start(choices, check_script(ScriptCheckRequest.of(choices)))
    assert (result.spec.strategy, result.proposed) == ("per-device", "per-device")
    assert result.arithmetic == f"2 processes, one per device. {result.why}"
    chosen = replace(choices, launch="one")
    overridden = check_start(chosen, check_script(ScriptCheckRequest.of(chosen)))
    assert overridden.spec.strategy == "one"
    assert overridden.arithmetic.startswith(
        "One process, as you chose. The source of the script suggests one process per device. "
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [("def x(:\n", "syntax error"), ("import no_such_package_anywhere\n", "no_such_package_anywhere")],
)
def test_script_that_would_fail_at_once_cannot_start(script_choices, source, words):
    choices = script_choices(source)
    result = check_start(choices, check_script(ScriptCheckRequest.of(choices)))
    assert any(words in text for text in result.problems)
    assert result.ready == ""


def test_missing_script_or_folder_is_reported(script_choices, tmp_path):
    choices = replace(script_choices(""), script=str(tmp_path / "gone.py"))
    assert "gone.py" in check_start(choices, check_script(ScriptCheckRequest.of(choices))).problems[0]
    choices = replace(script_choices(""), working_dir=str(tmp_path / "away"))
    assert "There is no folder" in check_start(choices, check_script(ScriptCheckRequest.of(choices))).problems[0]


@pytest.mark.parametrize("expression", ["(?P<loss>", "loss"])
def test_invalid_expression_prevents_start(script_choices, expression):
    choices = script_choices("print(1)\n", expression=expression)
    result = check_start(choices, check_script(ScriptCheckRequest.of(choices)))
    assert result.spec is None
    assert result.problems[0].startswith("The expression ")


def typed(folder, source: str) -> TypedScript:
    """Return the form's contents for a script with this source."""
    (folder / "train.py").write_text(source)
    return TypedScript(
        script=str(folder / "train.py"), working_dir=str(folder), python=sys.executable, devices=("cpu:0",)
    )


@pytest.fixture
def check(qtbot, tmp_path):
    """Return a function that checks choices in the background."""
    checker = StartChecker(Machine(tmp_path / "runs"))

    def run(choices: TypedScript):
        with qtbot.waitSignal(checker.checked) as checked:
            checker.check(choices, StartConditions(survey=SURVEY))
        assert checked.args[0] == choices
        return checked.args[1]

    return run


def test_script_is_checked_in_background_and_python_probed_once(check, tmp_path, monkeypatch):
    choices = typed(tmp_path, "import json\n")
    first = check(choices)
    assert first.problems == ()
    monkeypatch.setattr("core.scripts.problems.PythonProbe", None)  # a second probe would fail
    assert check(choices) == first
    monkeypatch.undo()
    assert "nothing_of_this_name" in check(typed(tmp_path, "import nothing_of_this_name\n")).problems[0]


def test_check_notices_deleted_module_beside_script(check, tmp_path):
    choices = typed(tmp_path, "import beside\n")
    (tmp_path / "beside.py").touch()
    assert check(choices).problems == ()
    (tmp_path / "beside.py").unlink()
    assert "beside" in check(choices).problems[0]
