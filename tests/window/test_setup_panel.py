"""The setup panel: problems are explained, and choices are remembered and never changed silently."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QCheckBox, QDockWidget, QLabel, QLineEdit

from core.catalog import frameworks
from core.config import validation
from core.launchers.loopback import obstacle
from core.pythons.python_info import PythonProbe
from core.schema.settings import ReleaseWatch
from core.scripts.problems import problems
from tests.support.running import LONG_PYTORCH, write_recipe
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_no_device_is_ticked_at_first_and_start_is_disabled(drive):
    panel = drive()
    panel.until(panel.start_status.text, "a verdict")
    assert panel.start_status.text() == "No device is ticked. Tick one or more in the list of devices."
    assert not panel.start_button.isEnabled()
    assert "No device is ticked" in panel.start_button.toolTip()


def test_ready_message_and_batch_arithmetic(drive):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.until(lambda: panel.start_status.text() == "✓  Ready: CPU 0 and CPU 1 are free.", "the choices to be ready")
    assert panel.window.findChild(QLabel, "batchLabel").text() == "64 = 2 devices × 32 × 1 accumulation"


@pytest.mark.slow
def test_invalid_choices_are_explained(drive, tmp_path):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.set_number("batchBox", 63)
    panel.until(lambda: "A batch of 63 cannot be split evenly" in panel.start_status.text())
    panel.choose(panel.strategy, "single")
    panel.until(lambda: "needs one device, but CPU 0 and CPU 1 are ticked" in panel.start_status.text())
    panel.open_recipe(write_recipe(tmp_path, "def model(:", "wrong"))
    panel.until(lambda: "wrong.py is not valid Python" in panel.start_status.text())
    panel.open_recipe(write_recipe(tmp_path, "def model(): pass", "half"))
    panel.until(lambda: "no function train_data()" in panel.start_status.text())
    assert not panel.start_button.isEnabled()


@pytest.mark.slow
def test_recipe_can_use_another_python(drive, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    panel = drive()
    panel.tick("cpu:0")
    panel.until(lambda: "Ready" in panel.start_status.text())
    python = panel.window.findChild(QLineEdit, "recipePythonEdit")
    python.setText(str(tmp_path / "bare"))
    inside = tmp_path / "bare" / "bin" / "python"
    panel.until(lambda: f"PyTorch is not installed in {inside}." in panel.start_status.text())
    assert not panel.start_button.isEnabled()
    python.setText("python-that-is-none")
    panel.until(lambda: "There is no Python called 'python-that-is-none' on PATH." in panel.start_status.text())
    python.setText(sys.executable)
    panel.until(lambda: "Ready" in panel.start_status.text())


@pytest.fixture
def hanging_python(tmp_path, monkeypatch) -> Iterator[Path]:
    """A Python with PyTorch on disk that does not respond until the file `go` is there. It is waited for so long."""
    for asked in (PythonProbe.__init__, problems):
        monkeypatch.setitem(asked.__kwdefaults__, "timeout_s", PATIENCE_S)
    monkeypatch.setattr(frameworks, "TIMEOUT_S", PATIENCE_S)
    python = tmp_path / "hangs" / "bin" / "python"
    package = tmp_path / "hangs" / "lib" / "python3.11" / "site-packages" / "torch"
    for folder in (python.parent, package):
        folder.mkdir(parents=True)
    (package / "__init__.py").touch()
    asked, go = tmp_path / "asked", tmp_path / "go"
    python.write_text(f"#!/bin/sh\necho $$ > {asked}\nwhile [ ! -e {go} ]; do sleep 0.05; done\n")
    python.chmod(0o755)
    yield python
    go.touch()


@pytest.mark.slow
def test_hanging_python_does_not_block_window(drive, hanging_python, tmp_path):
    asked, go = tmp_path / "asked", tmp_path / "go"
    polls = []
    panel = drive()
    panel.window.services.poll_timer.timeout.connect(lambda: polls.append(1))
    panel.tick("cpu:0")
    panel.until(lambda: "Ready" in panel.start_status.text())
    panel.set_text("recipePythonEdit", str(hanging_python))
    panel.until(lambda: panel.spec() is not None and "Ready" in panel.start_status.text())
    panel.start()  # probes the Python for the recipe's packages
    panel.until(asked.exists, "the Python to be asked")
    polls.clear()
    panel.until(lambda: len(polls) > 3, "the window to keep polling")
    assert panel.message("messageStrip") == "", "the Python is still waited for"
    go.touch()
    panel.until(lambda: str(hanging_python) in panel.message("messageStrip"), "why it cannot be started")
    assert panel.run is None
    go.unlink()
    asked.unlink()
    panel.choose(panel.framework, "keras")  # not found on disk, so the Python itself is probed
    panel.set_text("recipePythonEdit", str(hanging_python))
    panel.until(lambda: panel.start_status.text().startswith("Checking"), "that it is being checked")
    assert not panel.start_button.isEnabled()
    panel.until(asked.exists, "the Python to be asked")
    panel.set_number("epochsBox", 7)  # a choice made during the check
    panel.set_text("recipePythonEdit", "")
    panel.until(lambda: panel.spec() is not None and panel.spec().training.epochs == 7)
    assert psutil.pid_exists(int(asked.read_text())), "the window has not waited for the Python"


@pytest.mark.parametrize("typed", ["much", "-1", "0"])
def test_invalid_learning_rate_is_reported(drive, typed):
    panel = drive()
    panel.tick("cpu:0")
    panel.window.findChild(QLineEdit, "rateEdit").setText(typed)
    panel.until(lambda: "Give a number greater than 0" in panel.start_status.text())


@pytest.mark.slow
def test_memory_watch_settings_reach_spec_and_are_remembered(drive):
    panel = drive()
    panel.tick("cpu:0")
    panel.until(lambda: "Ready" in panel.start_status.text(), "the choices to be ready")
    assert panel.spec().release == ReleaseWatch()
    panel.set_number("releaseToleranceBox", 128)
    panel.set_text("releaseWaitEdit", "7.5")
    assert panel.spec().release == ReleaseWatch(tolerance_mb=128, wait_s=7.5)
    panel.set_text("releaseWaitEdit", "-1")
    panel.until(lambda: "The setting “Memory wait in seconds” is -1" in panel.start_status.text(), "the reason")
    panel.set_text("releaseWaitEdit", "")
    assert panel.spec().release == ReleaseWatch(tolerance_mb=128)
    panel.window.close()
    reopened = drive()
    assert reopened.spec().release.tolerance_mb == 128


@pytest.mark.slow
def test_cuda_ids_choice_reaches_spec_and_is_remembered(drive, nvml):
    nvml.write(gpus=1)
    panel = drive()
    panel.until(lambda: len(panel.devices) == 3, "the GPU")
    panel.tick("cpu:0")
    panel.until(lambda: "Ready" in panel.start_status.text(), "the choices to be ready")
    assert panel.spec().cuda_ids == "uuid"
    assert not panel.window.panels.setup.naming.isHidden()
    panel.choose(panel.box("cudaIdsBox"), "integer")
    assert panel.spec().cuda_ids == "integer"
    panel.window.close()
    reopened = drive()
    reopened.until(lambda: reopened.spec().cuda_ids == "integer", "the remembered choice")
    setup, start = reopened.window.panels.setup, reopened.window.controllers.start
    every = reopened.window.services.device_monitor.all_machines.devices
    setup.show_machine([each for each in every if each.kind == "cpu"])  # the GPU is lost, and comes back
    assert start._choices.cuda_ids == "uuid"
    setup.show_machine(every)
    assert start._choices.cuda_ids == "integer"


@pytest.mark.slow
def test_cuda_ids_choice_is_hidden_and_ignored_without_gpu(drive):
    panel = drive()
    panel.tick("cpu:0")
    assert panel.window.panels.setup.naming.isHidden()
    panel.choose(panel.box("cudaIdsBox"), "integer")  # as if remembered from a machine with GPUs
    assert panel.spec().cuda_ids == "uuid"


@pytest.mark.slow
def test_box_for_open_ports_is_shown_where_it_matters_and_never_loses_the_choice(drive):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.choose(panel.framework, "tensorflow")
    panel.choose(panel.strategy, "multi_worker_mirrored")
    panel.until(lambda: "Ready" in panel.start_status.text(), "the choices to be ready")
    box = panel.window.findChild(QCheckBox, "allowOpenPorts")
    if obstacle("any"):  # this machine allows no network of its own
        assert box.isVisibleTo(panel.window)
    else:
        assert not box.isVisibleTo(panel.window)
    panel.window.panels.setup.fill(replace(panel.spec(), allow_open_ports=True))
    panel.until(lambda: box.isVisibleTo(panel.window), "the box of a choice that was made elsewhere")
    assert panel.spec().allow_open_ports
    panel.choose(panel.strategy, "mirrored")
    panel.until(lambda: not box.isVisibleTo(panel.window), "the box to be hidden for a strategy without ports")
    assert not panel.spec().allow_open_ports
    panel.choose(panel.strategy, "multi_worker_mirrored")
    assert panel.spec().allow_open_ports
    panel.window.close()
    assert drive().spec().allow_open_ports


@pytest.mark.slow
def test_missing_framework_is_marked_and_explained(drive, monkeypatch):
    monkeypatch.setattr(validation, "has", lambda python, module: module == "torch")
    panel = drive()

    def texts() -> list[str]:
        return [panel.framework.itemText(row) for row in range(panel.framework.count())]

    panel.until(lambda: texts() == ["PyTorch", "TensorFlow  (not installed)", "Keras  (not installed)"])
    panel.tick("cpu:0")
    panel.choose(panel.framework, "keras")
    panel.until(lambda: "Keras is not installed" in panel.start_status.text())
    assert "-m pip install tensorflow" in panel.start_status.text()
    monkeypatch.undo()
    panel.window.controllers.start.reread()  # as when the window becomes active again
    panel.until(lambda: panel.framework.currentText() == "Keras")


def test_unwritable_runs_folder_is_reported(drive, runs_root):
    runs_root.write_text("a file instead of a folder")
    panel = drive()
    panel.tick("cpu:0")
    panel.until(lambda: "Runs cannot be kept in" in panel.message("messageStrip"))
    panel.until(lambda: "Runs cannot be kept in" in panel.start_status.text())
    panel.until(lambda: "cannot be listed" in panel.message("messageStrip"), "the queue, which cannot be read either")
    assert "Change its permissions, or choose another folder" in panel.message("messageStrip")
    assert not panel.start_button.isEnabled()


def test_strategy_follows_devices_until_user_chooses_one(drive):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    assert panel.strategy.currentData() == "ddp"
    panel.tick("cpu:0")
    assert panel.strategy.currentData() == "single"
    panel.choose(panel.strategy, "ddp")
    panel.tick("cpu:0", "cpu:1")
    panel.tick("cpu:1")
    assert panel.strategy.currentData() == "ddp"


def test_learning_rate_follows_recipe_until_edited(drive, tmp_path):
    panel = drive()
    rate = panel.window.findChild(QLineEdit, "rateEdit")
    assert rate.text() == "0.05"
    panel.open_recipe(write_recipe(tmp_path, LONG_PYTORCH))
    assert rate.text() == "0.001"
    rate.setText("0.3")
    panel.choose(panel.recipe, "digits_cnn")
    assert rate.text() == "0.3"


@pytest.mark.slow
def test_recipe_settings_are_shown_as_form(drive, tmp_path):
    source = LONG_PYTORCH.replace("items=64", 'items=64, noise=0.5, shuffled=True, flavour="sweet", limit=None')
    panel = drive()
    panel.tick("cpu:0")
    path = write_recipe(tmp_path, source)
    panel.open_recipe(path)
    panel.until(lambda: "Ready" in panel.start_status.text())
    edit = panel.window.findChild(QLineEdit, "setting-noise")
    edit.setText("loud")
    panel.until(lambda: "Setting 'noise' is 'loud'" in panel.start_status.text())
    edit.setText("0.25")
    panel.set_number("setting-items", 32)
    panel.until(lambda: "Ready" in panel.start_status.text())
    settings = panel.spec().recipe.settings
    assert settings == {"items": 32, "noise": 0.25, "shuffled": True, "flavour": "sweet", "limit": None}
    panel.choose(panel.recipe, "digits_cnn")
    panel.choose(panel.recipe, path)
    assert panel.window.findChild(QLineEdit, "setting-noise").text() == "0.25"  # comes back with its recipe


def test_dropped_recipe_file_is_opened(drive, tmp_path):
    panel = drive()
    path = write_recipe(tmp_path, LONG_PYTORCH, "dropped")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path)])
    event = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    panel.window.dropEvent(event)
    assert panel.recipe.currentData() == path
    assert panel.recipe.currentText() == "dropped.py"


@pytest.mark.slow
def test_choices_and_layout_are_remembered(drive):
    panel = drive()
    panel.tick("cpu:1")
    panel.choose(panel.recipe, "digits_mlp")
    panel.choose(panel.strategy, "ddp")
    panel.set_number("epochsBox", 7)
    panel.set_number("seedBox", 3)
    panel.plot("lossPlot").controls.log_box.setChecked(True)
    runs = panel.window.findChild(QDockWidget, "runsDock")
    panel.window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, runs)
    panel.window.close()
    reopened = drive()
    reopened.until(lambda: "cpu:1" in reopened.chosen.ticked)
    assert reopened.recipe.currentData() == "digits_mlp"
    assert reopened.strategy.currentData() == "ddp"
    choices = reopened.window.panels.setup.choices()
    assert (choices.training["epochs"], choices.training["seed"]) == (7, 3)
    assert reopened.plot("lossPlot").controls.logarithmic
    runs = reopened.window.findChild(QDockWidget, "runsDock")
    assert reopened.window.dockWidgetArea(runs) is Qt.DockWidgetArea.LeftDockWidgetArea


def test_garbage_in_settings_file_is_ignored(drive, tmp_path):
    (tmp_path / "config").mkdir()
    values = {"window/geometry": "AAAA", "window/layout": "not base64", "window/plots": 5, "window/tabs": ["log"]}
    (tmp_path / "config" / "trainyard.json").write_text(json.dumps(values))
    panel = drive()
    panel.tick("cpu:0")
    panel.until(panel.start_button.isEnabled)


@pytest.mark.slow
def test_remembered_choices_of_wrong_type_are_ignored(drive, runs_root):
    from gui.base.settings_file import SettingsFile, folder_key

    wrong = {"framework": 3, "strategy": [], "recipe": {}, "devices": 5, "settings": [1], "more": "yes"}
    choices = {**wrong, "training": {"epochs": "x", "seed": -5}}
    SettingsFile().save({f"{folder_key(runs_root)}/choices": choices})
    panel = drive()
    panel.tick("cpu:0")
    panel.until(panel.start_button.isEnabled)
