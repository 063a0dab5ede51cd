"""User scripts in the window: choosing, starting, stopping, running again, and presets."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QPlainTextEdit, QPushButton

from core.config import presets
from core.runs.states import RunState
from gui.widgets.name_dialog import NameDialog
from tests.support.running import LONG, LONG_PYTORCH, make_spec, script_spec, start, train, write_recipe

TRAINS = """\
import os
import sys
import time

for step in range(1, int(sys.argv[1]) + 1):
    print(f"step={step} loss={1 / step}", flush=True)
    time.sleep(0.01)
print("mine is", os.environ.get("MINE"), "in", os.getcwd())
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Keep presets out of the real config folder of the user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(TRAINS)
    return path


def drop(panel, path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    event = QDropEvent(
        QPointF(700, 300), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    panel.window.dropEvent(event)


def ready(panel):
    panel.until(lambda: "Ready" in panel.start_status.text(), "the choices to be ready")


def spec_of(panel):
    return panel.spec()


def is_script(panel):
    return panel.window.panels.setup.is_script


def menu_action(menu, text):
    return next(each for each in menu.actions() if each.text() == text)


def test_script_can_be_chosen_and_run_to_its_end(drive, script):
    panel = drive()
    panel.tick("cpu:0")
    panel.set_text("scriptPath", str(script))
    assert panel.window.findChild(QLineEdit, "workingDirEdit").text() == str(script.parent)
    panel.set_text("argumentsEdit", "'20")
    panel.until(lambda: "quotation mark that is not closed" in panel.start_status.text())
    assert not panel.start_button.isEnabled()
    panel.set_text("argumentsEdit", "20")
    environment = panel.window.findChild(QPlainTextEdit, "environmentEdit")
    environment.setPlainText("=MINE")
    panel.until(lambda: "'=MINE' is not an environment variable" in panel.start_status.text())
    environment.setPlainText("MINE=yes, it is")
    ready(panel)
    assert panel.window.findChild(QLabel, "batchLabel").text().startswith("One process. ")
    panel.start()
    panel.until_state("Finished")
    assert panel.run.spec().script.arguments == ("20",)
    panel.until(lambda: f"mine is yes, it is in {script.parent}" in panel.log.toPlainText(), "the log")
    panel.until(lambda: panel.points("lossPlot") == 20, "the loss of each step")
    panel.until(lambda: panel.runs.count() == 1 and "finished · loss" in panel.runs.item(0).text(), "its row")


def test_running_script_can_be_stopped_but_not_paused_or_saved(drive, script):
    panel = drive()
    panel.tick("cpu:0")
    panel.set_text("scriptPath", str(script))
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


def test_start_pressed_during_check_takes_effect_unless_choices_change(drive, script):
    panel = drive()
    panel.tick("cpu:0")
    panel.set_text("scriptPath", str(script))
    panel.set_text("argumentsEdit", "1")
    panel.window.controllers.start.start()
    assert panel.run is None
    panel.set_text("argumentsEdit", "2")  # cancels the pending start
    ready(panel)
    assert panel.run is None
    script.write_text(f"{TRAINS}\n")
    panel.window.controllers.start.start()
    assert panel.run is None
    panel.until_state("Finished")
    assert panel.run.spec().script.arguments == ("2",)


def test_script_problems_are_reported_before_start(drive, script, tmp_path):
    panel = drive()
    panel.tick("cpu:0")
    panel.qtbot.mouseClick(panel.window.findChild(QPushButton, "scriptModeButton"), Qt.MouseButton.LeftButton)
    panel.until(lambda: "No script is chosen" in panel.start_status.text())
    panel.set_text("scriptPath", str(tmp_path / "gone.py"))
    panel.until(lambda: "gone.py" in panel.start_status.text() and "There is no script" in panel.start_status.text())
    panel.set_text("scriptPath", str(script))
    ready(panel)
    script.write_text("import no_such_package_anywhere\n")
    panel.window.controllers.start.reread()  # as when the window becomes active again
    panel.until(lambda: "no_such_package_anywhere" in panel.start_status.text(), "the missing package")
    script.write_text("def (:\n")
    panel.window.controllers.start.reread()
    panel.until(lambda: "syntax error" in panel.start_status.text())
    panel.set_text("workingDirEdit", str(tmp_path / "away"))
    panel.until(lambda: "There is no folder" in panel.start_status.text())
    assert not panel.start_button.isEnabled()


def test_script_form_hides_fields_of_recipes(drive, script):
    panel = drive()
    panel.window.panels.setup.sheet.toggle()
    of_recipes = [panel.framework, panel.strategy, panel.recipe, panel.window.findChild(QComboBox, "precisionBox")]
    of_recipes.append(panel.window.findChild(QComboBox, "checkpointUnitBox"))
    of_scripts = [panel.window.findChild(QLineEdit, name) for name in ("scriptPath", "argumentsEdit", "workingDirEdit")]
    of_scripts += [panel.window.findChild(QPlainTextEdit, "environmentEdit"), panel.box("launchBox")]
    of_scripts += [panel.box("pythonBox"), panel.window.findChild(QLineEdit, "expressionEdit")]
    tolerance = panel.window.panels.setup.release
    assert all(each.isVisible() for each in of_recipes)
    assert not any(each.isVisible() for each in of_scripts)
    panel.window.panels.setup.open_script(script)
    panel.until(lambda: all(each.isVisible() for each in of_scripts), "the fields of a script")
    assert not any(each.isVisible() for each in of_recipes)
    assert tolerance.isVisible()


def test_dropped_file_is_opened_as_script_or_recipe(drive, script, tmp_path):
    panel = drive()
    drop(panel, script)
    assert is_script(panel)
    assert panel.window.findChild(QLineEdit, "scriptPath").text() == str(script)
    recipe = write_recipe(tmp_path, LONG_PYTORCH, "dropped")
    drop(panel, recipe)
    assert not is_script(panel)
    assert panel.recipe.currentData() == recipe
    program = tmp_path / "program"
    program.mkdir()
    (program / "__main__.py").write_text(TRAINS)
    drop(panel, program)
    assert is_script(panel)
    assert panel.window.findChild(QLineEdit, "workingDirEdit").text() == str(program)
    drop(panel, tmp_path / "data.csv")
    assert panel.window.findChild(QLineEdit, "scriptPath").text() == str(program)


def test_script_choices_are_remembered(drive, script, tmp_path):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.window.panels.setup.open_script(script)
    panel.set_text("argumentsEdit", "3 --name 'a b'")
    panel.window.findChild(QPlainTextEdit, "environmentEdit").setPlainText("A=1\nB=2")
    panel.choose(panel.box("launchBox"), "per-device")
    panel.window.panels.setup.script.choose_python(sys.executable)
    ready(panel)
    before = spec_of(panel)
    assert before.python == sys.executable
    panel.window.close()
    reopened = drive()
    assert is_script(reopened)
    ready(reopened)
    assert spec_of(reopened) == before


def test_pythons_are_listed_with_their_packages(drive, script):
    panel = drive()
    panel.window.panels.setup.open_script(script)
    box = panel.box("pythonBox")

    def own() -> str:
        row = box.findData(sys.executable)
        return str(box.itemData(row, Qt.ItemDataRole.ToolTipRole)) if row >= 0 else ""

    panel.until(lambda: "torch" in own(), "the packages of this Python")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in box.itemText(box.findData(sys.executable))
    panel.choose(box, sys.executable)
    panel.tick("cpu:0")
    ready(panel)
    assert spec_of(panel).python == sys.executable


def test_searching_default_python_on_dead_disk_does_not_block_window(drive, script, monkeypatch):
    default_python = script.parent / ".venv" / "bin" / "python"
    default_python.parent.mkdir(parents=True)
    default_python.symlink_to(sys.executable)
    answers, threads = threading.Event(), []
    can_access = os.access

    def access(path, *mode, **more):
        """Block on the default Python until `answers` is set, like a dead file server."""
        if str(path) == str(default_python):
            threads.append(threading.current_thread())
            answers.wait(60)
        return can_access(path, *mode, **more)

    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "access", access)
    panel = drive()
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
    ready(panel)
    assert spec_of(panel).python == str(default_python)


def test_run_again_starts_same_spec_and_asks_if_device_is_in_use(drive, script, runs_root):
    first = train(script_spec(script, "5", cwd=script.parent), runs_root)
    panel = drive()
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
    panel.until(lambda: panel.question() is not None, "a question")
    assert panel.question().text.startswith("Start train and share ")
    panel.answer("noButton")
    assert panel.runs.count() == 3
    menu_action(menu, "Run again").trigger()
    panel.answer("yesButton")
    panel.until(lambda: panel.runs.count() == 4, "a second run")
    panel.until_state("Finished")
    other.run.request("stop")
    other.until_over()


def test_run_again_reports_missing_script(drive, script, runs_root):
    first = train(script_spec(script, "1", cwd=script.parent), runs_root)
    script.unlink()
    panel = drive()
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.runs.run_menu.show_run(first.run.dir)
    menu_action(panel.runs.run_menu, "Run again").trigger()
    panel.until(lambda: "There is no script" in panel.message("messageStrip"), "the reason")
    assert panel.runs.count() == 1


def test_duplicate_and_edit_fills_form_from_run(drive, script, runs_root, tmp_path):
    given = {"environment": {"A": "b c"}, "expression": "(?P<loss>x)"}
    of_script = script_spec(script, "5", "a b", cwd=tmp_path, devices="cpu:1", launch="per-device", **given)
    recipe = write_recipe(tmp_path, LONG.replace("items=64", "items=64, noise=0.5"))
    of_recipe = make_spec(
        recipe, devices="cpu:0,cpu:1", strategy="ddp", epochs=3, batch_size=32, learning_rate=0.25, seed=7,
        gradient_clip=1.5, settings={"noise": 0.25}, checkpoints={"unit": "steps", "every": 9},
    )  # fmt: skip
    of_recipe = replace(of_recipe, name="nightly", working_dir=str(script.parent))
    runs = [train(spec, runs_root).run for spec in (of_script, of_recipe)]
    panel = drive()
    panel.until(lambda: panel.runs.count() == 2, "the runs")
    menu = panel.window.panels.header.again.run_menu
    for run, spec in zip(runs, (of_script, of_recipe), strict=True):
        panel.window.controllers.run.attach_to(str(run.dir))
        menu_action(menu, "Duplicate and edit").trigger()
        assert is_script(panel) is (spec.script is not None)
        ready(panel)
        new_spec = spec_of(panel)
        assert (new_spec.script, new_spec.recipe, new_spec.training, new_spec.checkpoints) == (
            spec.script, spec.recipe, spec.training, spec.checkpoints,
        )  # fmt: skip
        assert (new_spec.devices, new_spec.strategy, new_spec.python) == (spec.devices, spec.strategy, spec.python)
        assert (new_spec.name, new_spec.working_dir) == (spec.name, spec.working_dir)
    menu_action(menu, "Copy as command").trigger()
    line = QGuiApplication.clipboard().text()
    assert shlex.split(line)[:5] == ["cd", of_recipe.working_dir, "&&", "trainyard", "run"]
    assert panel.message("messageStrip") == "Copied the shell command that starts nightly with the same settings."
    panel.choose(panel.recipe, "digits_mlp")  # name and folder of the duplicated run are dropped
    new_spec = spec_of(panel)
    assert (new_spec.name, new_spec.working_dir) == ("digits_mlp", str(Path.cwd()))


def test_presets_are_saved_applied_and_deleted(drive, script, runs_root):
    spec = script_spec(script, "5", cwd=script.parent)
    run = train(spec, runs_root).run
    panel = drive()
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.window.controllers.run.attach_to(str(run.dir))
    menu_action(panel.window.panels.header.again.run_menu, "Save as preset…").trigger()
    dialog = panel.window.findChild(NameDialog)
    dialog.edit.setText("../nightly")
    assert not dialog.yes.isEnabled()
    assert "not a valid preset name" in dialog.notice.text()
    dialog.edit.setText("nightly")
    panel.qtbot.mouseClick(dialog.yes, Qt.MouseButton.LeftButton)
    path = presets.path_of("nightly", presets.default_root())
    assert presets.read(path) == spec
    button = panel.window.panels.setup.presets
    assert not is_script(panel)
    button.list_presets()
    menu_action(button.menu(), "nightly").trigger()
    assert is_script(panel)
    ready(panel)
    assert spec_of(panel).script == spec.script
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


def test_preset_with_missing_device_is_reported(drive, script):
    spec = replace(script_spec(script, cwd=script.parent), devices=("GPU-gone", "cpu:1"))
    presets.save(spec, presets.path_of("elsewhere", presets.default_root()))
    panel = drive()
    panel.tick("cpu:0")
    button = panel.window.panels.setup.presets
    button.list_presets()
    menu_action(button.menu(), "elsewhere").trigger()
    assert panel.message("messageStrip") == "GPU-gone was not ticked, since it is not on this machine."
    assert panel.window.panels.devices.table.ticked() == ("cpu:1",)


def test_expression_is_tried_on_shown_log_while_typing(drive, script, runs_root):
    train(script_spec(script, "4", cwd=script.parent), runs_root)
    panel = drive()
    panel.set_text("scriptPath", str(script))
    found = panel.window.findChild(QLabel, "expressionTrial")
    panel.set_text("expressionEdit", r"step=(?P<step>\d+) loss=(?P<loss>\S+)")
    panel.until(lambda: found.text() == "Select a run to test the expression on its log.")
    panel.until(lambda: panel.runs.count() == 1)
    panel.runs.itemActivated.emit(panel.runs.item(0))
    panel.until(lambda: found.text().endswith("The last match reads loss 0.25 at step 4."))
    panel.set_text("expressionEdit", "(?P<loss>")
    panel.until(lambda: found.text().startswith("The expression is not a valid regular expression"))
    panel.set_text("expressionEdit", "")
    panel.until(lambda: not found.isVisibleTo(found.parentWidget()))


def test_preset_with_a_secret_is_saved_by_name_after_a_question(drive, script, runs_root):
    spec = script_spec(script, "5", cwd=script.parent, environment={"HF_TOKEN": "hf_123", "MINE": "yes"})
    run = train(spec, runs_root).run
    panel = drive()
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.window.controllers.run.attach_to(str(run.dir))
    path = presets.path_of("nightly", presets.default_root())
    for answer in ("noButton", "yesButton"):
        assert not path.exists()
        menu_action(panel.window.panels.header.again.run_menu, "Save as preset…").trigger()
        dialog = next(each for each in panel.window.findChildren(NameDialog) if each.isVisible())
        dialog.edit.setText("nightly")
        panel.qtbot.mouseClick(dialog.yes, Qt.MouseButton.LeftButton)
        panel.until(lambda: panel.question() is not None, "the question")
        assert panel.question().question.text() == "Save the preset without the value of HF_TOKEN?"
        panel.answer(answer)
    saved = presets.read(path).script
    assert (saved.environment, saved.inherited) == ({"MINE": "yes"}, ("HF_TOKEN",))
