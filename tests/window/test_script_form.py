"""User scripts in the window: choosing, starting, stopping, running again, and presets."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QLabel, QLineEdit, QPlainTextEdit, QPushButton, QWidget

from gui.features.setup import start as start_controller
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
