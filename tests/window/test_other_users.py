"""Runs and presets of other users are marked, and ask before what they name is executed."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from core.config import presets
from core.runs.facts import RunState
from core.runs.owners import MAX_CHARACTERS
from core.runs.run import Run
from gui.runs.rows import owner_question
from tests.support.recorded import recorded
from tests.support.running import make_spec, script_spec, train
from tests.support.two_users import give_away, other_name

OTHER_NAME = other_name()


def choose(menu, text: str) -> None:
    menu.aboutToShow.emit()
    next(each for each in menu.actions() if each.text() == text).trigger()


def test_question_names_everything_that_would_be_executed_and_own_runs_ask_none(tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    spec = script_spec(
        script, "--epochs", "3", cwd=tmp_path, environment={"LD_PRELOAD": "/x\x1b[2J.so", "A": "b" * 9000}
    )
    found = owner_question("Start", "the run train", "mallory", spec)
    assert found.question == "Start the run train, which belongs to mallory?"
    assert f"Program: {script} --epochs 3\n" in found.words
    assert f"Python: {spec.python}\n" in found.words
    assert f"Folder: {tmp_path}\n" in found.words
    assert "Variable: LD_PRELOAD=/x?[2J.so\n" in found.words
    assert max(len(line) for line in found.words.splitlines()) <= MAX_CHARACTERS
    assert owner_question("Start", "the run x", None, make_spec("digits_mlp", devices="cpu:0")) is None


@pytest.mark.slow
@pytest.mark.two_users
def test_run_of_another_user_is_marked_and_asks_before_it_is_used(assemble, runs_root, tmp_path):
    """Two seconds: one run of a script, and a window."""
    script = tmp_path / "train.py"
    script.write_text("print('step=1 loss=0.5')\n")
    run_dir = train(script_spec(script, cwd=tmp_path), runs_root).run.dir
    give_away(run_dir)
    panel = assemble("run", "start", "devices")
    panel.until(lambda: panel.runs.count() == 1, "the run")
    item = panel.runs.item(0)
    assert f"\n{OTHER_NAME} · finished" in item.text()
    assert f"It belongs to {OTHER_NAME}." in item.toolTip()
    panel.window.controllers.run.attach_to(str(run_dir))
    owner = panel.window.findChild(QLabel, "ownerLabel")
    assert owner.isVisible()
    assert owner.text() == f"of {OTHER_NAME}"
    menu = panel.window.panels.header.again.run_menu
    for text in ("Run again", "Duplicate and edit", "Copy as command", "Save as preset…"):
        choose(menu, text)
        asked = panel.asked()
        assert OTHER_NAME in asked.question.text()
        assert str(script) in asked.words.text()
        assert asked.no.isDefault()
        panel.qtbot.keyClick(panel.question(), Qt.Key.Key_Return)
        panel.until(lambda: panel.question() is None, "the answer no")
    assert panel.spec().script is None, "the form is as it was"
    assert panel.runs.count() == 1
    choose(menu, "Run again")
    panel.answer("yesButton")
    panel.until(lambda: panel.runs.count() == 2, "the new run")
    panel.until_state("Finished")
    assert not owner.isVisible()


@pytest.mark.two_users
def test_run_of_another_user_asks_before_it_is_resumed(assemble, runs_root):
    run_dir = recorded(runs_root, last="stopped")
    give_away(run_dir)
    panel = assemble("run", "start", "devices")
    panel.open_run()
    panel.until(panel.pause_button.isEnabled, "Resume to be enabled")
    panel.qtbot.mouseClick(panel.pause_button, Qt.MouseButton.LeftButton)
    assert panel.asked().question.text().startswith("Resume the run digits_mlp, which belongs to ")
    panel.answer("noButton")
    run = Run.attach(run_dir)
    run.catch_up()
    assert run.facts.state is RunState.STOPPED
    assert run.facts.starts == 1


@pytest.mark.two_users
def test_preset_of_another_user_asks_before_it_is_loaded(form, tmp_path, monkeypatch):
    folder = tmp_path / "setups"
    monkeypatch.setattr(presets, "default_root", lambda: folder)
    presets.save(make_spec("digits_cnn", devices="cpu:0", epochs=77), folder / "shared.json")
    give_away(folder / "shared.json")
    panel = form
    menu = panel.window.panels.setup.presets.menu()
    before = panel.recipe.currentData()
    choose(menu, "shared")
    assert panel.asked().question.text() == f"Load the preset shared, which belongs to {OTHER_NAME}?"
    panel.answer("noButton")
    assert panel.recipe.currentData() == before
    choose(menu, "shared")
    panel.answer("yesButton")
    panel.until(lambda: panel.recipe.currentData() == "digits_cnn", "the preset in the form")
