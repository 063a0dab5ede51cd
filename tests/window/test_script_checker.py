"""What a script is, found out aside: and what would come of starting it."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from core.config.choices import ScriptChoices
from core.config.script_check import ScriptCheckRequest, ScriptCheckResult, check_script
from core.devices.cpu import cpu_devices
from core.devices.device import Survey
from gui.services.start_checker import StartChecker
from gui.viewmodels.setup.script_text import TypedScript
from gui.viewmodels.setup.start_check import StartConditions, check_script_start, checking

SURVEY = Survey(devices=tuple(cpu_devices()), samples=())


@pytest.fixture
def choose(tmp_path):
    """Choices for a script of these lines."""

    def make(source: str, **chosen) -> ScriptChoices:
        path = tmp_path / "train.py"
        path.write_text(source)
        usual = {"devices": ("cpu:0", "cpu:1"), "working_dir": str(tmp_path), "python": sys.executable}
        return ScriptChoices(script=str(path), **{**usual, **chosen})

    return make


def look(choices: ScriptChoices, answer: ScriptCheckResult):
    return check_script_start(choices, answer, StartConditions(survey=SURVEY))


def test_until_it_is_known_it_is_being_checked(tmp_path):
    result = checking(typed(tmp_path, "print(1)\n"))
    assert (result.spec, result.problems, result.pending) == (None, ("Checking train.py …",), True)


def test_a_script_that_can_be_started(choose):
    choices = choose("print(1)\n", arguments=("--lr", "0.1"), release={"tolerance_mb": 5}, expression="(?P<loss>x)")
    result = look(choices, check_script(ScriptCheckRequest.of(choices)))
    assert result.problems == ()
    assert result.ready.startswith("Ready: CPU 0 and CPU 1")
    spec = result.spec
    assert (spec.devices, spec.strategy, spec.release.tolerance_mb) == (("cpu:0", "cpu:1"), "one", 5)
    assert (spec.script.arguments, spec.script.expression) == (("--lr", "0.1"), "(?P<loss>x)")
    assert result.arithmetic.startswith("One process. ")


DISTRIBUTED = "import os\nrank = int(os.environ['LOCAL_RANK'])\nworld = int(os.environ['WORLD_SIZE'])\n"


def test_the_launch_is_guessed_from_the_source_and_a_choice_against_it_is_told(choose):
    choices = choose(DISTRIBUTED)
    result = look(choices, check_script(ScriptCheckRequest.of(choices)))
    assert (result.spec.strategy, result.proposed) == ("per-device", "per-device")
    assert result.arithmetic == f"2 processes, one per device. {result.why}"
    against = replace(choices, launch="one")
    told = look(against, check_script(ScriptCheckRequest.of(against)))
    assert told.spec.strategy == "one"
    assert told.arithmetic.startswith("One process, as you chose; its source looks like one process per device. ")


@pytest.mark.parametrize(
    ("source", "words"),
    [("def x(:\n", "syntax error"), ("import no_such_package_anywhere\n", "no_such_package_anywhere")],
)
def test_what_would_end_it_at_once_is_in_the_way(choose, source, words):
    choices = choose(source)
    result = look(choices, check_script(ScriptCheckRequest.of(choices)))
    assert any(words in text for text in result.problems)
    assert result.ready == ""


def test_what_is_not_there_is_said(choose, tmp_path):
    choices = replace(choose(""), script=str(tmp_path / "gone.py"))
    assert "gone.py" in look(choices, check_script(ScriptCheckRequest.of(choices))).problems[0]
    choices = replace(choose(""), working_dir=str(tmp_path / "away"))
    assert "There is no folder" in look(choices, check_script(ScriptCheckRequest.of(choices))).problems[0]


@pytest.mark.parametrize("expression", ["(?P<loss>", "loss"])
def test_an_expression_that_reads_nothing_is_in_the_way(choose, expression):
    choices = choose("print(1)\n", expression=expression)
    result = look(choices, check_script(ScriptCheckRequest.of(choices)))
    assert result.spec is None
    assert result.problems[0].startswith("The expression ")


def typed(folder, source: str) -> TypedScript:
    """A script of these lines, as typed into the form."""
    (folder / "train.py").write_text(source)
    return TypedScript(
        script=str(folder / "train.py"), working_dir=str(folder), python=sys.executable, devices=("cpu:0",)
    )


@pytest.fixture
def check(qtbot, tmp_path):
    """Check choices in the background."""
    checker = StartChecker(tmp_path / "runs")

    def run(choices: TypedScript):
        with qtbot.waitSignal(checker.checked, timeout=60_000) as checked:
            checker.check(choices, StartConditions(survey=SURVEY))
            qtbot.waitUntil(lambda: not checker.poll(), timeout=60_000)
        assert checked.args[0] == choices
        return checked.args[1]

    return run


def test_a_script_is_checked_in_the_background_and_its_python_asked_once(check, tmp_path, monkeypatch):
    choices = typed(tmp_path, "import json\n")
    first = check(choices)
    assert first.problems == ()
    monkeypatch.setattr("core.scripts.problems.PythonProbe", None)  # a second question would fail
    assert check(choices) == first
    monkeypatch.undo()
    assert "nothing_of_this_name" in check(typed(tmp_path, "import nothing_of_this_name\n")).problems[0]


def test_a_check_sees_that_a_file_beside_the_script_is_gone(check, tmp_path):
    choices = typed(tmp_path, "import beside\n")
    (tmp_path / "beside.py").touch()
    assert check(choices).problems == ()
    (tmp_path / "beside.py").unlink()
    assert "beside" in check(choices).problems[0]
