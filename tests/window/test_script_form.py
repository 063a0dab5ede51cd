"""User scripts in the window: choosing, starting, stopping, running again, and presets."""

from __future__ import annotations

import os
import sys
import threading

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QPlainTextEdit, QPushButton

from tests.support.running import LONG_PYTORCH, script_spec, train, write_recipe
from tests.support.waiting import PATIENCE_S


def drop(panel, path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    event = QDropEvent(
        QPointF(700, 300), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    panel.window.dropEvent(event)


@pytest.mark.slow
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
    panel.until_ready()
    assert panel.window.findChild(QLabel, "batchLabel").text().startswith("One process. ")
    panel.start()
    panel.until_state("Finished")
    assert panel.run.spec().script.arguments == ("20",)
    panel.until(lambda: f"mine is yes, it is in {script.parent}" in panel.log.toPlainText(), "the log")
    panel.until(lambda: panel.points("lossPlot") == 20, "the loss of each step")
    panel.until(lambda: panel.runs.count() == 1 and "finished · loss" in panel.runs.item(0).text(), "its row")


@pytest.mark.slow
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


@pytest.mark.slow
def test_start_pressed_during_check_takes_effect_unless_choices_change(drive, script):
    panel = drive()
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
def test_script_problems_are_reported_before_start(drive, script, tmp_path):
    panel = drive()
    panel.tick("cpu:0")
    panel.qtbot.mouseClick(panel.window.findChild(QPushButton, "scriptModeButton"), Qt.MouseButton.LeftButton)
    panel.until(lambda: "No script is chosen" in panel.start_status.text())
    panel.set_text("scriptPath", str(tmp_path / "gone.py"))
    panel.until(lambda: "gone.py" in panel.start_status.text() and "There is no script" in panel.start_status.text())
    panel.set_text("scriptPath", str(script))
    panel.until_ready()
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
    assert panel.window.panels.setup.is_script
    assert panel.window.findChild(QLineEdit, "scriptPath").text() == str(script)
    recipe = write_recipe(tmp_path, LONG_PYTORCH, "dropped")
    drop(panel, recipe)
    assert not panel.window.panels.setup.is_script
    assert panel.recipe.currentData() == recipe
    program = tmp_path / "program"
    program.mkdir()
    (program / "__main__.py").write_text(script.read_text())
    drop(panel, program)
    assert panel.window.panels.setup.is_script
    assert panel.window.findChild(QLineEdit, "workingDirEdit").text() == str(program)
    drop(panel, tmp_path / "data.csv")
    assert panel.window.findChild(QLineEdit, "scriptPath").text() == str(program)


@pytest.mark.slow
def test_script_choices_are_remembered(drive, script, tmp_path):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.window.panels.setup.open_script(script)
    panel.set_text("argumentsEdit", "3 --name 'a b'")
    panel.window.findChild(QPlainTextEdit, "environmentEdit").setPlainText("A=1\nB=2")
    panel.choose(panel.box("launchBox"), "per-device")
    panel.window.panels.setup.script.choose_python(sys.executable)
    panel.until_ready()
    before = panel.spec()
    assert before.python == sys.executable
    panel.window.close()
    reopened = drive()
    assert reopened.window.panels.setup.is_script
    reopened.until_ready()
    assert reopened.spec() == before


@pytest.mark.slow
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
    panel.until_ready()
    assert panel.spec().python == sys.executable


@pytest.mark.slow
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
            answers.wait(PATIENCE_S)
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
    panel.until_ready()
    assert panel.spec().python == str(default_python)


@pytest.mark.slow
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
