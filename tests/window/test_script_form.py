"""User scripts in the window: choosing, checking, starting, stopping, running again, and presets."""

import os
import shlex
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtWidgets import QLabel, QLineEdit, QPlainTextEdit, QPushButton, QWidget

from core.config import presets
from core.config.choices import ScriptChoices
from core.config.examination import examine_script
from core.config.finding import Mark
from core.config.script_check import ScriptCheckRequest, ScriptCheckResult, check_script
from core.devices.cpu import cpu_devices
from core.devices.device import Survey
from core.runs.facts import RunState
from gui.features.setup import start as start_controller
from gui.features.setup.script_form import ScriptForm
from gui.features.setup.start import StartChecker
from gui.machine.machine import Machine
from gui.machine.script import TypedScript
from gui.machine.start_check import StartConditions, checking, judge
from gui.widgets.dialogs import NameDialog
from tests.support.running import LONG, LONG_PYTORCH, make_spec, script_spec, start, train, write_recipe
from tests.support.waiting import PATIENCE_S
from tests.support.written_runs import write_run
from tests.window.driving import menu_action


def drop(panel, path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    event = QDropEvent(
        QPointF(700, 300), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    panel.window.dropEvent(event)


def test_what_decides_how_a_script_trains_stands_above_the_rest(hold):
    form = hold(ScriptForm(), 340, 400)
    names = ("scriptPath", "pythonBox", "argumentsEdit", "launchBox", "workingDirEdit", "environmentEdit")
    below = [form.findChild(QWidget, name).mapTo(form, QPoint(0, 0)).y() for name in names]
    assert below == sorted(below)


@pytest.mark.slow
def test_script_runs_to_its_end_and_can_be_stopped_but_not_paused_or_saved(assemble, script, monkeypatch):
    monkeypatch.setattr(start_controller, "DOUBLE_CLICK_S", 0.0)  # however fast the first run is
    panel = assemble("run", "start", "log", "devices")
    panel.tick("cpu:0")
    panel.set_text("scriptPath", str(script))
    assert panel.window.findChild(QLineEdit, "workingDirEdit").text() == str(script.parent)
    panel.set_text("argumentsEdit", "20")
    panel.window.findChild(QPlainTextEdit, "environmentEdit").setPlainText("MINE=yes, it is")
    panel.until_ready()
    assert panel.window.findChild(QLabel, "batchLabel").text().startswith("One process. ")
    panel.start()
    panel.until_state("Finished")
    assert panel.run.spec().script.arguments == ("20",)
    panel.until(lambda: f"mine is yes, it is in {script.parent}" in panel.log.toPlainText(), "the log")
    panel.until(lambda: panel.points("lossPlot") == 20, "the loss of each step")
    panel.until(lambda: panel.runs.count() == 1 and "finished · loss" in panel.runs.item(0).text(), "its row")
    panel.set_text("argumentsEdit", "1000000")
    panel.start()
    panel.until_state("Running")
    panel.until(lambda: panel.points("lossPlot") > 5, "points of the loss")
    assert not panel.pause_button.isEnabled()
    assert panel.pause_button.toolTip() == "Trainyard cannot pause a script. Stopping it sends SIGINT first."
    save = panel.window.findChild(QPushButton, "saveButton")
    assert not save.isEnabled()
    assert "Trainyard cannot save a script." in save.toolTip()
    panel.stop()
    panel.until_state("Stopped")
    assert [step.name for step in panel.run.facts.stop_steps][-1:] == ["SIGINT"]
    panel.until(lambda: not panel.stop_button.isEnabled(), "Stop to be disabled")
    assert not panel.pause_button.isEnabled()
    assert "cannot pause" in panel.pause_button.toolTip()
    assert "resumed" not in panel.state.toolTip()


@pytest.mark.slow
def test_start_pressed_during_check_takes_effect_unless_choices_change(assemble, script):
    panel = assemble("run", "start", "devices")
    panel.tick("cpu:0")
    panel.set_text("scriptPath", str(script))
    panel.set_text("argumentsEdit", "1")
    panel.window.controllers.start.start()
    assert panel.run is None
    panel.set_text("argumentsEdit", "2")  # cancels the pending start
    panel.until_ready()
    assert panel.run is None
    script.write_text(f"{script.read_text()}\n")
    panel.window.controllers.start.start()
    assert panel.run is None
    panel.until_state("Finished")
    assert panel.run.spec().script.arguments == ("2",)


@pytest.mark.slow
def test_script_problems_are_reported_before_start(form, script, tmp_path):
    form.tick("cpu:0")
    form.qtbot.mouseClick(form.window.findChild(QPushButton, "scriptModeButton"), Qt.MouseButton.LeftButton)
    form.until_status("No script is chosen")
    form.set_text("scriptPath", str(tmp_path / "gone.py"))
    form.until(lambda: "gone.py" in form.start_status.text() and "There is no script" in form.start_status.text())
    form.set_text("scriptPath", str(script))
    form.set_text("argumentsEdit", "'20")
    form.until_status("quotation mark that is not closed")
    form.set_text("argumentsEdit", "20")
    environment = form.window.findChild(QPlainTextEdit, "environmentEdit")
    environment.setPlainText("=MINE")
    form.until_status("'=MINE' is not an environment variable")
    environment.clear()
    form.until_ready()
    script.write_text("import no_such_package_anywhere\n")
    form.window.controllers.start.reread()  # as when the window becomes active again
    form.until_status("no_such_package_anywhere")
    script.write_text("def (:\n")
    form.window.controllers.start.reread()
    form.until_status("syntax error")
    form.set_text("workingDirEdit", str(tmp_path / "away"))
    form.until_status("There is no folder")
    assert not form.start_button.isEnabled()


def test_script_form_hides_fields_of_recipes_and_is_remembered(form, script):
    setup = form.window.panels.setup
    setup.sheet.toggle()
    of_recipes = ("frameworkBox", "strategyBox", "recipeBox", "precisionBox", "checkpointUnitBox")
    of_scripts = ("scriptPath", "argumentsEdit", "workingDirEdit", "environmentEdit", "launchBox", "pythonBox",
                  "expressionEdit")

    def shown(names) -> set[bool]:
        return {form.window.findChild(QWidget, name).isVisible() for name in names}

    assert (shown(of_recipes), shown(of_scripts)) == ({True}, {False})
    form.tick("cpu:0", "cpu:1")
    setup.open_script(script)
    form.until(lambda: shown(of_scripts) == {True}, "the fields of a script")
    assert (shown(of_recipes), setup.release.isVisible()) == ({False}, True)
    form.set_text("argumentsEdit", "3 --name 'a b'")
    form.window.findChild(QPlainTextEdit, "environmentEdit").setPlainText("A=1\nB=2")
    form.choose(form.box("launchBox"), "per-device")
    setup.script.choose_python(sys.executable)
    form.until_ready()
    assert form.spec().python == sys.executable
    assert form.spec().script.arguments == ("3", "--name", "a b")
    assert replace(form.next_form().choices(), devices=form.chosen.ticked) == setup.choices()


def test_dropped_file_is_opened_as_script_or_recipe(drive, script, tmp_path):
    panel = drive()
    drop(panel, script)
    assert panel.window.panels.setup.is_script
    assert panel.window.findChild(QLineEdit, "scriptPath").text() == str(script)
    recipe = write_recipe(tmp_path, LONG_PYTORCH, "dropped")
    drop(panel, recipe)
    assert not panel.window.panels.setup.is_script
    assert (panel.recipe.currentData(), panel.recipe.currentText()) == (recipe, "dropped.py")
    program = tmp_path / "program"
    program.mkdir()
    (program / "__main__.py").write_text(script.read_text())
    drop(panel, program)
    assert panel.window.panels.setup.is_script
    assert panel.window.findChild(QLineEdit, "workingDirEdit").text() == str(program)
    drop(panel, tmp_path / "data.csv")
    assert panel.window.findChild(QLineEdit, "scriptPath").text() == str(program)


@pytest.mark.slow
def test_pythons_are_listed_with_their_packages(assemble, script):
    panel = assemble("start", "script_search", "devices")
    panel.window.panels.setup.open_script(script)
    box = panel.box("pythonBox")

    def own() -> str:
        row = box.findData(sys.executable)
        return str(box.itemData(row, Qt.ItemDataRole.ToolTipRole)) if row >= 0 else ""

    panel.until(lambda: "torch" in own(), "the packages of this Python")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in box.itemText(box.findData(sys.executable))
    panel.choose(box, sys.executable)
    panel.tick("cpu:0")
    panel.until_ready()
    assert panel.spec().python == sys.executable


@pytest.mark.slow
def test_searching_default_python_on_dead_disk_does_not_block_window(assemble, script, monkeypatch):
    default_python = script.parent / ".venv" / "bin" / "python"
    default_python.parent.mkdir(parents=True)
    default_python.symlink_to(sys.executable)
    answers, threads = threading.Event(), []
    can_access = os.access

    def access(path, *mode, **more):
        """Block on the default Python until `answers` is set, like a dead file server."""
        if str(path) == str(default_python):
            threads.append(threading.current_thread())
            answers.wait(PATIENCE_S)
        return can_access(path, *mode, **more)

    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "access", access)
    panel = assemble("start", "script_search", "devices")
    box = panel.box("pythonBox")
    try:
        panel.window.panels.setup.open_script(script)
        panel.tick("cpu:0")
        panel.until(lambda: threads, "the access")
        panel.set_text("argumentsEdit", "--lr 0.1")
        panel.until(lambda: panel.start_status.text() == "Checking train.py …", "the check to be shown")
        read = panel.window.services.device_monitor.survey.samples
        panel.until(lambda: panel.window.services.device_monitor.survey.samples != read, "newer readings")
        assert box.itemText(0) == "Automatic"
    finally:
        answers.set()
    panel.until(lambda: box.itemText(0) == "Automatic: .venv", "the default Python")
    assert threading.main_thread() not in threads
    panel.until_ready()
    assert panel.spec().python == str(default_python)


@pytest.mark.slow
def test_expression_is_tried_on_shown_log_while_typing(assemble, script, runs_root):
    train(script_spec(script, "4", cwd=script.parent), runs_root)
    panel = assemble("run", "start", "script_search", "devices")
    panel.set_text("scriptPath", str(script))
    found = panel.window.findChild(QLabel, "expressionTrial")
    panel.set_text("expressionEdit", r"step=(?P<step>\d+) loss=(?P<loss>\S+)")
    panel.until(lambda: found.text() == "Select a run to test the expression on its log.")
    panel.open_run()
    panel.until(lambda: found.text().endswith("The last match reads loss 0.25 at step 4."))
    panel.set_text("expressionEdit", "(?P<loss>")
    panel.until(lambda: found.text().startswith("The expression is not a valid regular expression"))
    panel.set_text("expressionEdit", "")
    panel.until(lambda: not found.isVisibleTo(found.parentWidget()))


# -- again, and presets ----------------------------------------------------------------------------


FEATURES = ("run", "start", "devices")


def show(panel, spec, name: str = "20260101-000000-run") -> None:
    """Write a run with this spec, and show it."""
    run_dir = write_run(panel.window.services.machine.root, name, spec=spec)
    panel.window.services.run_list.poll(now=True)
    panel.window.controllers.run.attach_to(str(run_dir))


@pytest.mark.slow
def test_run_again_starts_same_spec_and_asks_if_device_is_in_use(assemble, script, runs_root, monkeypatch):
    monkeypatch.setattr(start_controller, "DOUBLE_CLICK_S", 0.0)  # however fast the first run is
    first = train(script_spec(script, "5", cwd=script.parent), runs_root)
    panel = assemble(*FEATURES)
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.runs.run_menu.show_run(first.run.dir)
    menu_action(panel.runs.run_menu, "Run again").trigger()
    panel.until(lambda: panel.runs.count() == 2, "another run")
    panel.until_state("Finished")
    assert panel.run.dir != first.run.dir
    assert panel.run.spec() == first.run.spec()
    other = start(make_spec(write_recipe(runs_root.parent, LONG), epochs=1_000_000), runs_root).until(RunState.RUNNING)
    panel.until(lambda: panel.runs.count() == 3, "the other run")
    menu = panel.window.panels.header.again.run_menu
    menu_action(menu, "Run again").trigger()
    assert panel.asked().text.startswith("Start train and share ")
    panel.answer("noButton")
    assert panel.runs.count() == 3
    menu_action(menu, "Run again").trigger()
    panel.answer("yesButton")
    panel.until(lambda: panel.runs.count() == 4, "a second run")
    panel.until_state("Finished")
    other.stop()
    script.unlink()
    menu_action(menu, "Run again").trigger()
    panel.until(lambda: "There is no script" in panel.message("messageStrip"), "the reason")
    assert panel.runs.count() == 4


@pytest.mark.slow
def test_duplicate_and_edit_fills_form_from_run(assemble, script, runs_root, tmp_path):
    given = {"environment": {"A": "b c"}, "expression": "(?P<loss>x)"}
    of_script = script_spec(script, "5", "a b", cwd=tmp_path, devices="cpu:1", launch="per-device", **given)
    recipe = write_recipe(tmp_path, LONG.replace("items=64", "items=64, noise=0.5"))
    of_recipe = make_spec(
        recipe, devices="cpu:0,cpu:1", strategy="ddp", epochs=3, batch_size=32, learning_rate=0.25, seed=7,
        gradient_clip=1.5, settings={"noise": 0.25}, checkpoints={"unit": "steps", "every": 9},
    )
    of_recipe = replace(of_recipe, name="nightly", working_dir=str(script.parent))
    panel = assemble(*FEATURES)
    menu = panel.window.panels.header.again.run_menu
    for number, spec in enumerate((of_script, of_recipe)):
        show(panel, spec, f"20260101-00000{number}-run")
        menu_action(menu, "Duplicate and edit").trigger()
        assert panel.window.panels.setup.is_script is (spec.script is not None)
        panel.until_ready()
        new_spec = panel.spec()
        assert (new_spec.script, new_spec.recipe, new_spec.training, new_spec.checkpoints) == (
            spec.script, spec.recipe, spec.training, spec.checkpoints,
        )
        assert (new_spec.devices, new_spec.strategy, new_spec.python) == (spec.devices, spec.strategy, spec.python)
        assert (new_spec.name, new_spec.working_dir) == (spec.name, spec.working_dir)
    menu_action(menu, "Copy as command").trigger()
    line = QGuiApplication.clipboard().text()
    assert shlex.split(line)[:5] == ["cd", of_recipe.working_dir, "&&", "trainyard", "run"]
    assert panel.message("messageStrip") == "Copied the shell command that starts nightly with the same settings."
    panel.choose(panel.recipe, "digits_mlp")  # name and folder of the duplicated run are dropped
    new_spec = panel.spec()
    assert (new_spec.name, new_spec.working_dir) == ("digits_mlp", str(Path.cwd()))


@pytest.mark.slow
def test_presets_are_saved_applied_and_deleted_and_one_with_a_secret_by_its_name(assemble, script):
    spec = script_spec(script, "5", cwd=script.parent)
    panel = assemble(*FEATURES)
    show(panel, spec)
    menu_action(panel.window.panels.header.again.run_menu, "Save as preset…").trigger()
    dialog = panel.window.findChild(NameDialog)
    dialog.edit.setText("../nightly")
    assert not dialog.yes.isEnabled()
    assert "not a valid preset name" in dialog.notice.text()
    panel.enter_name("nightly")
    path = presets.path_of("nightly", presets.default_root())
    assert presets.read(path) == spec
    button = panel.window.panels.setup.presets
    assert not panel.window.panels.setup.is_script
    button.list_presets()
    menu_action(button.menu(), "nightly").trigger()
    assert panel.window.panels.setup.is_script
    panel.until_ready()
    assert panel.spec().script == spec.script
    menu_action(button._removing, "nightly…").trigger()
    panel.answer("noButton")
    assert path.exists()
    menu_action(button._removing, "nightly…").trigger()
    panel.answer("yesButton")
    assert not path.exists()
    button.list_presets()
    assert [each.text() for each in button.menu().actions()] == ["No presets yet", "", "Save current settings…"]
    menu_action(button.menu(), "Save current settings…").trigger()
    dialog = next(each for each in panel.window.findChildren(NameDialog) if each.isVisible())
    panel.qtbot.mouseClick(dialog.yes, Qt.MouseButton.LeftButton)
    assert [each.name for each in presets.read_all(presets.default_root())] == ["train"]
    presets.save(replace(spec, devices=("GPU-gone", "cpu:1")), presets.path_of("elsewhere", presets.default_root()))
    button.list_presets()
    menu_action(button.menu(), "elsewhere").trigger()
    assert panel.message("messageStrip") == "GPU-gone was not ticked, since it is not on this machine."
    assert panel.chosen.ticked == ("cpu:1",)
    secret = script_spec(script, cwd=script.parent, environment={"HF_TOKEN": "hf_123", "MINE": "yes"})
    show(panel, secret, "20260101-000001-run")
    path = presets.path_of("nightly", presets.default_root())
    for answer in ("noButton", "yesButton"):
        assert not path.exists()
        menu_action(panel.window.panels.header.again.run_menu, "Save as preset…").trigger()
        panel.enter_name("nightly")
        assert panel.asked().question.text() == "Save the preset without the value of HF_TOKEN?"
        panel.answer(answer)
    saved = presets.read(path).script
    assert (saved.environment, saved.inherited) == ({"MINE": "yes"}, ("HF_TOKEN",))


# -- the check in the background -------------------------------------------------------------------


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


def test_valid_script_can_be_started_and_its_launch_is_guessed(script_choices):
    choices = script_choices(
        "print(1)\n", arguments=("--lr", "0.1"), release={"tolerance_mb": 5}, expression="(?P<loss>x)"
    )
    result = check_start(choices, check_script(ScriptCheckRequest.of(choices)))
    assert result.problems == ()
    assert result.findings[0].sentence.startswith("Ready: CPU 0 and CPU 1")
    spec = result.spec
    assert (spec.devices, spec.strategy, spec.release.tolerance_mb) == (("cpu:0", "cpu:1"), "one", 5)
    assert (spec.script.arguments, spec.script.expression) == (("--lr", "0.1"), "(?P<loss>x)")
    assert result.arithmetic.startswith("One process. ")
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


DISTRIBUTED = "import os\nrank = int(os.environ['LOCAL_RANK'])\nworld = int(os.environ['WORLD_SIZE'])\n"


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("def x(:\n", {}, "syntax error"),
        ("import no_such_package_anywhere\n", {}, "no_such_package_anywhere"),
        ("print(1)\n", {"expression": "(?P<loss>"}, "The expression "),
        ("print(1)\n", {"expression": "loss"}, "The expression "),
        ("", {"script": "gone.py"}, "gone.py"),
        ("", {"working_dir": "/nowhere/away"}, "There is no folder"),
    ],
)
def test_script_that_would_fail_at_once_cannot_start(script_choices, source, options, words):
    choices = replace(script_choices(source), **options)
    result = check_start(choices, check_script(ScriptCheckRequest.of(choices)))
    assert words in result.problems[0]
    assert all(each.mark is Mark.PROBLEM for each in result.findings)
    assert result.spec is None or "expression" not in options


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


def test_script_is_checked_in_background_with_what_is_beside_it(check, tmp_path, monkeypatch):
    choices = typed(tmp_path, "import json\n")
    first = check(choices)
    assert first.problems == ()
    monkeypatch.setattr("core.scripts.problems.PythonProbe", None)  # a second probe would fail
    assert check(choices) == first
    monkeypatch.undo()
    assert "nothing_of_this_name" in check(typed(tmp_path, "import nothing_of_this_name\n")).problems[0]
    choices = typed(tmp_path, "import beside\n")
    (tmp_path / "beside.py").touch()
    assert check(choices).problems == ()
    (tmp_path / "beside.py").unlink()
    assert "beside" in check(choices).problems[0]
