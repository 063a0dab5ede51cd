"""Pause, resume and save in the window, with real runs."""

import threading
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel, QPushButton

from core.errors import RunError
from core.history.index import directories
from core.runs.facts import RunState
from core.runs.run import Run
from gui.runs import words as run_header
from gui.runs.actions import obstacles
from tests.support.acting import played
from tests.support.running import FOREVER, LONG, start, write_recipe
from tests.support.waiting import PATIENCE_S

STEPS, FREE_STEPS = 250, 100
SLOW = (
    LONG
    + """
import os, time

print("recipe is loaded", flush=True)

def loss():
    done = []
    def measure(weight, items):
        time.sleep(0.01)
        done.append(weight)
        while len(done) > {free} and not os.path.exists({go!r}):
            time.sleep(0.01)
        return weight
    return measure
"""
)
"""One step per epoch, 0.01 s or more per step. After some steps it waits for a file."""


@pytest.fixture
def panel(assemble):
    return assemble("run", "start", "log", "devices")


def start_slow(panel, tmp_path, epochs, free=FOREVER):
    """Start a run that waits for the file `go` after so many steps."""
    panel.tick("cpu:0")
    panel.open_recipe(write_recipe(tmp_path, SLOW.format(free=free, go=str(tmp_path / "go")), "slow"))
    panel.set_number("epochsBox", epochs)
    panel.start()
    panel.until_state("Running")
    panel.until(lambda: panel.run.facts.step > 5, "some steps")


def press(panel, name):
    button = panel.window.findChild(QPushButton, name)
    panel.until(button.isEnabled, f"{name} to be enabled")
    button.click()
    return button


def detail(panel):
    return panel.window.findChild(QLabel, "detailLabel").text()


@pytest.mark.slow
def test_paused_run_resumes_and_finishes(panel, runs_root, tmp_path):
    start_slow(panel, tmp_path, STEPS, FREE_STEPS)
    run, button = panel.run, press(panel, "pauseButton")
    assert (button.text(), button.isEnabled()) == ("Pausing…", False)
    assert "saves a checkpoint" in button.toolTip()
    (tmp_path / "go").touch()  # the request is looked for once a second, which is 100 steps at most
    panel.until_state("Paused")
    step = run.facts.step
    assert 0 < step < STEPS
    assert detail(panel).startswith(f"saved at step {step}, ")
    assert button.text() == "Resume"
    assert f"step {step} (" in button.toolTip()
    panel.until(lambda: panel.runs.item(0).text().endswith(f"paused · epoch {step} of {STEPS}"), "the list")
    panel.until(panel.start_button.isEnabled, "its device to be free")
    press(panel, "pauseButton")
    panel.until_state("Running")
    assert not panel.message()
    panel.until_state("Finished")
    assert panel.run is run
    assert len(directories(runs_root)) == 1
    assert [state for _, state in run.facts.history] == [
        RunState.STARTING, RunState.RUNNING, RunState.RELEASING, RunState.PAUSED,
        RunState.STARTING, RunState.RUNNING, RunState.RELEASING, RunState.FINISHED,
    ]
    assert panel.window.services.session.run_series.metrics["loss"].steps.tolist() == list(range(1, STEPS + 1))
    panel.until(lambda: panel.log.toPlainText().count("recipe is loaded") == 2, "the log of both parts")
    panel.until(lambda: "finished" in panel.runs.item(0).text(), "the list")
    assert (button.text(), button.isEnabled()) == ("Pause", False)


@pytest.mark.slow
def test_run_is_saved_stopped_and_resumed_while_the_window_polls_and_asks_to_share(
    panel, tmp_path, monkeypatch, runs_root
):
    monkeypatch.setattr(run_header, "FRESH_S", PATIENCE_S)  # how long it is shown beside the state
    panel.choose(panel.box("checkpointUnitBox"), "never")  # none of the run's own takes its place
    assert not panel.window.findChild(QPushButton, "saveButton").isEnabled()
    start_slow(panel, tmp_path, epochs=FOREVER)
    button = press(panel, "saveButton")
    assert not button.isEnabled()  # disabled until the checkpoint is written
    assert detail(panel) == "saving …"
    panel.until(lambda: detail(panel).startswith("saved at step "), "the checkpoint")
    written = panel.run.facts.checkpoint
    assert written.reason == "asked"
    assert (panel.run.dir / "checkpoints" / written.name / "checkpoint.json").is_file()
    assert f"saved at step {written.step}, " in button.toolTip()
    panel.until(lambda: panel.run.facts.step > written.step + 5, "training to continue")
    panel.until(button.isEnabled, "Save to be enabled again")
    assert panel.state.text() == "Running"
    assert button.shortcut().toString() == "Ctrl+S"
    panel.stop()
    panel.until_state("Stopped")
    press(panel, "pauseButton")
    panel.until_state("Running")
    assert panel.stop_button.text() == "Stop"  # not "Force", as before the run was resumed
    press(panel, "pauseButton")
    panel.until_state("Paused")
    gate = threading.Event()

    def resume(run_dir, **_):
        gate.wait(PATIENCE_S)
        raise RunError("The supervisor could not be started.")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "resume", resume)
        button = press(panel, "pauseButton")
        assert (button.text(), button.isEnabled(), detail(panel)) == ("Resume", False, "resuming …")
        panel.until_polled()
        assert detail(panel) == "resuming …"
        gate.set()
        panel.until(lambda: panel.message("messageStrip") == "The supervisor could not be started.", "the reason")
    assert button.isEnabled()
    assert panel.state.text() == "Paused"
    start(played(tmp_path / "actor", name="other"), runs_root).until(RunState.RUNNING)
    press(panel, "pauseButton")
    asked = panel.asked()
    assert asked.text.startswith("Resume slow and share CPU 0 with ")
    assert "other?" in asked.text
    assert "Sharing a device slows down both runs" in asked.text
    assert asked.yes.text() == "Resume anyway"
    panel.answer("noButton")
    panel.until(lambda: panel.question() is None, "the question to go")
    assert panel.state.text() == "Paused"
    press(panel, "pauseButton")
    panel.answer("yesButton")
    panel.until_state("Running")


@pytest.mark.slow
def test_paused_run_goes_on_on_the_ticked_devices_after_a_question(panel, tmp_path):
    start_slow(panel, tmp_path, epochs=FOREVER)
    actions, folders = panel.window.panels.actions, [str(panel.run.dir)]
    press(panel, "pauseButton")
    panel.until_state("Paused")
    panel.tick()
    actions.do("resumeOn", folders)
    panel.until(lambda: panel.message("messageStrip").startswith("No device is ticked."), "the reason")
    panel.tick("cpu:0", "cpu:1")
    actions.do("resumeOn", folders)
    assert panel.asked().text.startswith("Resume slow on CPU 0 and CPU 1 (ddp)?")
    assert "such as dropout" in panel.asked().text
    panel.answer("noButton")
    panel.until(lambda: panel.question() is None, "the question to go")
    assert panel.state.text() == "Paused"
    spec = panel.window.services.session.spec
    panel.window.panels.failure.change_asked.emit(replace(spec, devices=("cpu:1",)))  # as the card about a lost device
    assert panel.asked().text.startswith("Resume slow on CPU 1 (single)?")
    assert panel.chosen.ticked == ("cpu:1",)
    assert "such as dropout" not in panel.asked().text
    panel.answer("yesButton")
    panel.until_state("Running")
    panel.until(lambda: list(panel.run.facts.devices) == ["cpu:1"], "the devices")
    assert panel.window.services.session.spec.devices == ("cpu:1",)
    assert any("The run was resumed on CPU 1 (single)" in each for each in panel.run.facts.notices)


@pytest.mark.slow
def test_run_that_trains_is_said_to_train_where_it_is_asked_why_it_hangs(panel, tmp_path):
    start_slow(panel, tmp_path, FOREVER)
    panel.window.panels.actions.do("doctor", [str(panel.run.dir)])
    panel.until(lambda: "The run trains: it went from step" in panel.message("messageStrip"), "what the workers do")
    press(panel, "stopButton")
    panel.until_state("Stopped")
    summary = panel.window.services.run_list.summary
    panel.until(lambda: "Only a run that trains" in obstacles(summary(str(panel.run.dir)))["doctor"], "why it cannot")
