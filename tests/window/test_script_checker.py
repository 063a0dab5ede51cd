"""What a script is, found out aside: and what would come of starting it."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from core.config.choices import ScriptChoices
from core.config.script_check import ScriptCheckRequest, ScriptCheckResult, check_script
from core.devices.cpu import cpu_devices
from core.devices.device import Survey
from gui.services.script_checker import ScriptChecker
from gui.viewmodels.setup.start_check import StartConditions, check_script_start

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


def look(choices: ScriptChoices, answer: ScriptCheckResult | None):
    return check_script_start(choices, answer, StartConditions(survey=SURVEY))


def test_until_it_is_known_it_is_being_looked_at(choose):
    result = look(choose("print(1)\n"), None)
    assert (result.spec, result.problems) == (None, ("Looking at train.py …",))


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


def test_it_is_asked_aside_and_once(qtbot, choose):
    inquirer = ScriptChecker()
    question = ScriptCheckRequest.of(choose("print(1)\n"))
    assert inquirer.ask(question) is None
    with qtbot.waitSignal(inquirer.answered, timeout=60_000):
        qtbot.waitUntil(lambda: inquirer.poll() or inquirer.ask(question) is not None, timeout=60_000)
    assert inquirer.ask(question) == check_script(question)
    # A script that was edited is another question; so is every one after what was known was dropped.
    edited = ScriptCheckRequest.of(choose("print(1)\nprint(2)\n"))
    assert edited != question
    inquirer.forget()
    assert inquirer.ask(question) is None
    qtbot.waitUntil(lambda: inquirer.poll() or inquirer.ask(question) is not None, timeout=60_000)


def test_until_it_is_answered_anew_what_was_known_is_believed(qtbot, choose, tmp_path):
    inquirer = ScriptChecker()
    question = ScriptCheckRequest.of(choose("import beside\n"))
    (tmp_path / "beside.py").touch()
    assert inquirer.ask(question) is None
    qtbot.waitUntil(lambda: inquirer.poll() or inquirer.ask(question) is not None, timeout=60_000)
    (tmp_path / "beside.py").unlink()
    assert inquirer.ask(question).problems == ()
    inquirer.ask_anew()
    assert inquirer.ask(question).problems == ()
    qtbot.waitUntil(lambda: inquirer.poll() or inquirer.ask(question).problems != (), timeout=60_000)
    assert "beside" in inquirer.ask(question).problems[0]
