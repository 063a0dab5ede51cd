"""Pause, resume and save in the window, with real runs."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtWidgets import QLabel, QPushButton

from core.errors import RunError
from core.runs.index import directories
from core.runs.run import Run
from core.runs.states import RunState
from tests.support.acting import played
from tests.support.running import FOREVER, LONG, start, write_recipe

STEPS = 250
SLOW = f"""{LONG}
import time

print("a leg begins", flush=True)

def loss():
    def measure(weight, items):
        time.sleep(0.01)
        return weight
    return measure
"""
"""One step an epoch, of a hundredth of a second."""


def start_slow(panel, tmp_path, epochs=STEPS):
    panel.tick("cpu:0")
    panel.open_recipe(write_recipe(tmp_path, SLOW, "slow"))
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


def test_pause_resume_and_on_to_the_end(drive, runs_root, tmp_path):
    panel = drive()
    start_slow(panel, tmp_path)
    run, button = panel.run, press(panel, "pauseButton")
    assert (button.text(), button.isEnabled()) == ("Pausing…", False)
    assert "saves a checkpoint" in button.toolTip()
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
    ]  # fmt: skip
    assert panel.window.services.session.book.metrics["loss"].steps.tolist() == list(range(1, STEPS + 1))
    panel.until(lambda: panel.log.toPlainText().count("a leg begins") == 2, "the log of both legs")
    panel.until(lambda: "finished" in panel.runs.item(0).text(), "the list")
    assert (button.text(), button.isEnabled()) == ("Pause", False)


def test_save_now_writes_a_checkpoint_and_training_goes_on(drive, tmp_path):
    panel = drive()
    assert not panel.window.findChild(QPushButton, "saveButton").isEnabled()
    start_slow(panel, tmp_path, epochs=FOREVER)
    button = press(panel, "saveButton")
    assert not button.isEnabled()  # until it is written
    assert detail(panel) == "saving …"
    panel.until(lambda: detail(panel).startswith("saved at step "), "the answer")
    written = panel.run.facts.checkpoint
    assert written.reason == "asked"
    assert (panel.run.dir / "checkpoints" / written.name / "checkpoint.json").is_file()
    assert f"saved at step {written.step}, " in button.toolTip()
    panel.until(lambda: panel.run.facts.step > written.step + 5, "training to go on")
    panel.until(button.isEnabled, "another to be possible")
    assert panel.state.text() == "Running"
    assert button.shortcut().toString() == "Ctrl+S"


def test_a_stopped_run_goes_on_and_can_be_stopped_again(drive, tmp_path):
    panel = drive()
    start_slow(panel, tmp_path, epochs=FOREVER)
    panel.stop()
    panel.until_state("Stopped")
    press(panel, "pauseButton")
    panel.until_state("Running")
    assert panel.stop_button.text() == "Stop"  # and not "Force", of the leg before
    panel.stop()
    panel.until_state("Stopped")


def test_before_a_run_goes_on_beside_another_that_is_asked(drive, runs_root, tmp_path):
    panel = drive()
    start_slow(panel, tmp_path, epochs=FOREVER)
    press(panel, "pauseButton")
    panel.until_state("Paused")
    start(played(tmp_path / "actor", name="other"), runs_root).until(RunState.RUNNING)
    press(panel, "pauseButton")
    panel.until(lambda: panel.question() is not None, "the question")
    asked = panel.question()
    assert asked.text.startswith("Resume slow beside ")
    assert "other is on CPU 0 and would share memory and time with slow" in asked.text
    assert asked.yes.text() == "Resume beside it"
    panel.answer("noButton")
    panel.until(lambda: panel.question() is None, "the question to go")
    assert panel.state.text() == "Paused"
    press(panel, "pauseButton")
    panel.answer("yesButton")
    panel.until_state("Running")


@pytest.fixture
def gate(monkeypatch):
    """Resuming waits for it, and then cannot be done."""
    gate = threading.Event()

    def resume(run_dir):
        gate.wait(30)
        raise RunError("There is no supervisor to be had.")

    monkeypatch.setattr(Run, "resume", resume)
    yield gate
    gate.set()


def test_the_window_stays_alive_while_a_run_comes_up_again(drive, tmp_path, gate):
    panel = drive()
    start_slow(panel, tmp_path, epochs=FOREVER)
    press(panel, "pauseButton")
    panel.until_state("Paused")
    button = press(panel, "pauseButton")
    assert (button.text(), button.isEnabled(), detail(panel)) == ("Resume", False, "resuming …")
    beats = []
    panel.window.services.poll_timer.timeout.connect(lambda: beats.append(1))
    panel.until(lambda: len(beats) > 3, "the window to go on")
    gate.set()
    panel.until(lambda: panel.message("messageStrip") == "There is no supervisor to be had.", "the reason")
    assert button.isEnabled()
    assert panel.state.text() == "Paused"
