"""Deleting a run from the window: confirmation, result, and refusal for a live run."""

from __future__ import annotations

from threading import Event

import pytest

from core.history import removal
from core.runs import lock
from core.runs.facts import RunState
from tests.support.running import LONG, make_spec, script_spec, start, train, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text("print('step=1 loss=0.5')\n")
    return path


@pytest.fixture
def ended(script, runs_root, monkeypatch):
    """A run that is over. Removing it waits until its supervisor has tidied up."""
    monkeypatch.setattr(lock, "PATIENCE_S", PATIENCE_S)
    run = train(script_spec(script, cwd=script.parent), runs_root).run
    wait_until(lambda: not removal.why_not(run.dir), "the run to be removable")
    return run


@pytest.mark.slow
def test_run_is_deleted_after_confirmation_while_the_window_goes_on(assemble, ended, script, runs_root, monkeypatch):
    panel = assemble("run", "removal", "devices")
    panel.open_run()
    assert panel.state.text() == "Finished"
    delete = panel.window.panels.header.again.run_menu.action("remove").trigger
    delete()
    title, words = panel.asked().question.text(), panel.asked().words.text()
    assert title.startswith("Delete the run ")
    assert title.endswith(" train?")
    assert "It is finished and takes " in words
    assert " kB of disk." in words
    assert str(ended.dir) in words
    panel.answer("noButton")
    assert ended.dir.is_dir()
    proceed, remove = Event(), removal.remove

    def slow(run_dir):
        proceed.wait(PATIENCE_S)
        return remove(run_dir)

    monkeypatch.setattr(removal, "remove", slow)
    delete()
    try:
        panel.answer("yesButton")
        panel.until(lambda: panel.window.controllers.removal._removing.busy, "the removal")
        read = panel.window.services.device_monitor.survey.samples
        panel.until(lambda: panel.window.services.device_monitor.survey.samples != read, "newer readings")
        assert ended.dir.is_dir()
    finally:
        proceed.set()
    panel.until(lambda: panel.runs.count() == 0, "an empty list")
    panel.until(lambda: "Deleted train. " in panel.message("messageStrip"), "the result")
    assert panel.message("messageStrip").endswith(" kB of disk space.")
    assert panel.run is None
    assert not panel.window.panels.header.again.isEnabled()
    assert list(runs_root.iterdir()) == []
    assert script.exists()


@pytest.mark.slow
def test_live_run_is_not_deleted(drive, tmp_path, runs_root):
    followed = start(make_spec(write_recipe(tmp_path, LONG), epochs=1_000_000), runs_root).until(RunState.RUNNING)
    panel = drive()
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.runs.run_menu.show_run(followed.run.dir)
    assert not panel.runs.run_menu.action("remove").isEnabled()
    panel.window.panels.actions.do("remove", [str(followed.run.dir)])  # it may have been resumed since the menu opened
    panel.until(lambda: "is running, so it was not removed" in panel.message("messageStrip"), "the reason")
    assert panel.question() is None
    assert followed.stop().run.dir.is_dir()
