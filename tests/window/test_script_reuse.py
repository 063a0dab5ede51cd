"""Scripts again: the same run, its settings in the form, presets."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from core.config import presets
from core.runs.facts import RunState
from gui.features.setup import start as start_controller
from gui.widgets.dialogs import NameDialog
from tests.support.running import LONG, make_spec, script_spec, start, train, write_recipe
from tests.support.written_runs import write_run
from tests.window.driving import menu_action

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
def test_presets_are_saved_applied_and_deleted(assemble, script):
    spec = script_spec(script, "5", cwd=script.parent)
    panel = assemble(*FEATURES)
    show(panel, spec)
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


@pytest.mark.slow
def test_preset_with_a_secret_is_saved_by_name_after_a_question(assemble, script):
    panel = assemble(*FEATURES)
    show(panel, script_spec(script, cwd=script.parent, environment={"HF_TOKEN": "hf_123", "MINE": "yes"}))
    path = presets.path_of("nightly", presets.default_root())
    for answer in ("noButton", "yesButton"):
        assert not path.exists()
        menu_action(panel.window.panels.header.again.run_menu, "Save as preset…").trigger()
        dialog = next(each for each in panel.window.findChildren(NameDialog) if each.isVisible())
        dialog.edit.setText("nightly")
        panel.qtbot.mouseClick(dialog.yes, Qt.MouseButton.LeftButton)
        assert panel.asked().question.text() == "Save the preset without the value of HF_TOKEN?"
        panel.answer(answer)
    saved = presets.read(path).script
    assert (saved.environment, saved.inherited) == ({"MINE": "yes"}, ("HF_TOKEN",))
