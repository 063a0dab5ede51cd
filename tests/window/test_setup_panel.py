"""The setup panel: problems are explained, choices never changed silently, and built-in workloads copied."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QCheckBox, QLabel, QLineEdit, QMessageBox, QSpinBox

from core.catalog import installed, recipes
from core.catalog.recipes import standalone
from core.config import validation
from core.errors import RunError
from core.launchers.loopback import obstacle
from core.pythons.python_info import PythonProbe
from core.scripts.problems import problems
from gui.base.settings_file import SettingsFile, folder_key
from gui.widgets.dialogs import FileDialog
from tests.support.running import LONG_PYTORCH, write_recipe
from tests.support.waiting import PATIENCE_S


@pytest.mark.slow
def test_choices_are_judged_problems_explained_and_senseless_numbers_reported(form, tmp_path):
    form.until(form.start_status.text, "a verdict")
    assert form.start_status.text() == "No device is ticked. Tick one or more in the list of devices."
    assert not form.start_button.isEnabled()
    assert "No device is ticked" in form.start_button.toolTip()
    form.tick("cpu:0", "cpu:1")
    form.until(lambda: form.start_status.text() == "Ready: CPU 0 and CPU 1 are free.", "the choices to be ready")
    assert form.window.findChild(QLabel, "batchLabel").text() == "64 = 2 devices × 32 × 1 accumulation"
    form.set_number("batchBox", 63)
    form.until_status("A batch of 63 cannot be split evenly")
    form.choose(form.strategy, "single")
    form.until_status("needs one device, but CPU 0 and CPU 1 are ticked")
    form.open_recipe(write_recipe(tmp_path, "def model(:", "wrong"))
    form.until_status("wrong.py is not valid Python")
    form.open_recipe(write_recipe(tmp_path, "def model(): pass", "half"))
    form.until_status("no function train_data()")
    form.open_recipe(write_recipe(tmp_path, LONG_PYTORCH, "mine"))
    form.choose(form.framework, "keras")
    form.until_status("Recipe mine imports torch: it is for PyTorch")
    assert form.recipe.currentText() == "mine.py"
    assert not form.start_button.isEnabled()
    form.choose(form.framework, "pytorch")
    form.tick("cpu:0")
    form.open_recipe(write_recipe(tmp_path, LONG_PYTORCH.replace("items=64", "items=64, noise=0.5")))
    for field, typed, problem in (
        ("rateEdit", "much", "Give a number greater than 0"), ("rateEdit", "-1", "Give a number greater than 0"),
        ("rateEdit", "0", "Give a number greater than 0"),
        ("decayEdit", "much", "The setting “Weight decay” is 'much'. Give a number"),
        ("patienceEdit", "1.5", "The setting “Patience in epochs” is 1.5. Give a whole number"),
        ("releaseWaitEdit", "-1", "The setting “Memory wait in seconds” is -1"),
        ("setting-noise", "loud", "Setting 'noise' is 'loud'"),
    ):
        form.set_text(field, typed)
        form.until_status(problem)
        form.set_text(field, {"rateEdit": "0.1", "setting-noise": "0.5"}.get(field, ""))  # empty: the default
        form.until_ready()


@pytest.mark.slow
def test_several_values_are_queued_in_the_background_and_said_how_far(form, monkeypatch):
    threads, strip = [], form.window.panels.message

    def enqueue(spec, labels):
        threads.append(threading.current_thread())
        if len(threads) > 1:
            raise RunError("The disk is full.")
        return spec

    monkeypatch.setattr(form.window.services.machine, "enqueue", enqueue)
    form.tick("cpu:0")
    assert "Several numbers" in form.window.findChild(QLineEdit, "rateEdit").toolTip()
    assert "Several numbers" in form.window.findChild(QSpinBox, "seedBox").toolTip()
    assert "Several numbers" not in form.window.findChild(QSpinBox, "checkpointKeepBox").toolTip(), "it takes one"
    form.set_text("rateEdit", "0.01, 0.1, 1")
    form.until_status("Start adds 3 runs to the queue: learning rate 0.01, 0.1 and 1.")
    form.window.panels.setup.presets.keep_asked.emit()
    assert "one value of each setting" in strip.text
    form.start_button.click()
    form.until(lambda: strip.text == "1 of 3 runs were added to the queue. The disk is full.", "how far it came")
    assert len(threads) == 2
    assert threading.main_thread() not in threads


def test_recipe_can_use_another_python(form, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    form.tick("cpu:0")
    form.until_ready()
    form.set_text("recipePythonEdit", str(tmp_path / "bare"))
    form.until_status(f"PyTorch is not installed in {tmp_path / 'bare' / 'bin' / 'python'}.")
    assert not form.start_button.isEnabled()
    form.set_text("recipePythonEdit", "python-that-is-none")
    form.until_status("There is no Python called 'python-that-is-none' on PATH.")
    form.set_text("recipePythonEdit", sys.executable)
    form.until_ready()


@pytest.fixture
def hanging_python(tmp_path, monkeypatch) -> Iterator[Path]:
    """A Python with PyTorch on disk that does not respond until the file `go` is there. It is waited for so long."""
    for asked in (PythonProbe.__init__, problems):
        monkeypatch.setitem(asked.__kwdefaults__, "timeout_s", PATIENCE_S)
    monkeypatch.setattr(installed, "TIMEOUT_S", PATIENCE_S)
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
def test_hanging_python_does_not_block_window(form, hanging_python, tmp_path):
    asked, go = tmp_path / "asked", tmp_path / "go"
    form.tick("cpu:0")
    form.until_ready()
    form.set_text("recipePythonEdit", str(hanging_python))
    form.until(lambda: form.spec() is not None and "Ready" in form.start_status.text())
    form.start()  # probes the Python for the recipe's packages
    form.until(asked.exists, "the Python to be asked")
    form.until_polled()
    assert form.message("messageStrip") == "", "the Python is still waited for"
    go.touch()
    form.until(lambda: str(hanging_python) in form.message("messageStrip"), "why it cannot be started")
    assert form.run is None
    go.unlink()
    asked.unlink()
    form.choose(form.framework, "keras")  # not found on disk, so the Python itself is probed
    form.set_text("recipePythonEdit", str(hanging_python))
    form.until(lambda: form.start_status.text().startswith("Checking"), "that it is being checked")
    assert not form.start_button.isEnabled()
    form.until(asked.exists, "the Python to be asked")
    form.set_number("epochsBox", 7)  # a choice made during the check
    form.set_text("recipePythonEdit", "")
    form.until(lambda: form.spec() is not None and form.spec().training.epochs == 7)
    assert psutil.pid_exists(int(asked.read_text())), "the window has not waited for the Python"


@pytest.mark.slow
def test_cuda_ids_choice_reaches_spec_and_is_remembered_but_ignored_without_gpu(assemble, nvml):
    nvml.write(gpus=1)
    form = assemble("start", "devices")
    setup, start = form.window.panels.setup, form.window.controllers.start
    form.until(lambda: len(form.devices) == 3, "the GPU")
    form.tick("cpu:0")
    form.until_ready()
    assert form.spec().cuda_ids == "uuid"
    assert not setup.naming.isHidden()
    form.choose(form.box("cudaIdsBox"), "integer")
    assert form.spec().cuda_ids == "integer"
    every = form.window.services.device_monitor.all_machines.devices
    setup.show_machine([each for each in every if each.kind == "cpu"])  # the GPU is lost, and comes back
    assert setup.naming.isHidden()
    assert start._choices.cuda_ids == form.spec().cuda_ids == "uuid"
    setup.show_machine(every)
    assert start._choices.cuda_ids == "integer"
    other = form.next_form()
    other.show_machine(every)
    assert other.choices().cuda_ids == "integer"


@pytest.mark.slow
def test_box_for_open_ports_is_shown_where_it_matters_and_never_loses_the_choice(form):
    form.tick("cpu:0", "cpu:1")
    form.choose(form.framework, "tensorflow")
    form.choose(form.strategy, "multi_worker_mirrored")
    form.until_ready()
    box = form.window.findChild(QCheckBox, "allowOpenPorts")
    assert box.isVisibleTo(form.window) is bool(obstacle("any")), "whether this machine allows no network of its own"
    form.window.panels.setup.fill(replace(form.spec(), allow_open_ports=True))
    form.until(lambda: box.isVisibleTo(form.window), "the box of a choice that was made elsewhere")
    assert form.spec().allow_open_ports
    form.choose(form.strategy, "mirrored")
    form.until(lambda: not box.isVisibleTo(form.window), "the box to be hidden for a strategy without ports")
    assert not form.spec().allow_open_ports
    form.choose(form.strategy, "multi_worker_mirrored")
    assert form.spec().allow_open_ports
    assert form.next_form().choices().allow_open_ports


@pytest.mark.slow
def test_missing_framework_is_marked_and_explained(assemble, monkeypatch):
    monkeypatch.setattr(validation, "has", lambda python, module: module == "torch")
    form = assemble("start", "devices")

    def texts() -> list[str]:
        return [form.framework.itemText(row) for row in range(form.framework.count())]

    form.until(lambda: texts() == ["PyTorch", "TensorFlow  (not installed)", "Keras  (not installed)"])
    form.tick("cpu:0")
    form.choose(form.framework, "keras")
    form.until_status("Keras is not installed")
    assert "-m pip install tensorflow" in form.start_status.text()
    monkeypatch.undo()
    form.window.controllers.start.reread()  # as when the window becomes active again
    form.until(lambda: form.framework.currentText() == "Keras")


def test_unwritable_runs_folder_is_reported(assemble, runs_root):
    runs_root.write_text("a file instead of a folder")
    form = assemble("start", "queue", "devices")
    form.tick("cpu:0")
    form.until(lambda: "Runs cannot be kept in" in form.message("messageStrip"))
    form.until_status("Runs cannot be kept in")
    form.until(lambda: "cannot be listed" in form.message("messageStrip"), "the queue, which cannot be read either")
    assert "Change its permissions, or choose another folder" in form.message("messageStrip")
    assert not form.start_button.isEnabled()


@pytest.mark.slow
def test_strategy_follows_devices_and_settings_the_recipe_until_the_user_chooses(form, tmp_path):
    form.tick("cpu:0", "cpu:1")
    assert form.strategy.currentData() == "ddp"
    form.tick("cpu:0")
    assert form.strategy.currentData() == "single"
    form.choose(form.strategy, "ddp")
    form.tick("cpu:0", "cpu:1")
    form.tick("cpu:1")
    assert form.strategy.currentData() == "ddp"
    rate = form.window.findChild(QLineEdit, "rateEdit")
    assert rate.text() == "0.05"
    form.open_recipe(write_recipe(tmp_path, LONG_PYTORCH))
    assert rate.text() == "0.001"
    rate.setText("0.3")
    form.choose(form.recipe, "digits_cnn")
    assert rate.text() == "0.3"
    source = LONG_PYTORCH.replace("items=64", 'items=64, noise=0.5, shuffled=True, flavour="sweet", limit=None')
    form.tick("cpu:0")
    path = write_recipe(tmp_path, source, "mine")
    form.open_recipe(path)
    form.set_text("setting-noise", "0.25")
    form.set_number("setting-items", 32)
    settings = form.spec().recipe.settings
    assert settings == {"items": 32, "noise": 0.25, "shuffled": True, "flavour": "sweet", "limit": None}
    form.choose(form.recipe, "digits_cnn")
    form.choose(form.recipe, path)
    assert form.window.findChild(QLineEdit, "setting-noise").text() == "0.25"  # comes back with its recipe


def test_garbage_in_settings_file_is_ignored(drive, runs_root):
    wrong = {"framework": 3, "strategy": [], "recipe": {}, "devices": 5, "settings": [1], "more": "yes"}
    SettingsFile().save({
        "window/geometry": "AAAA", "window/layout": "not base64", "window/plots": 5, "window/tabs": ["log"],
        f"{folder_key(runs_root)}/choices": {**wrong, "training": {"epochs": "x", "seed": -5}},
    })
    panel = drive()
    panel.tick("cpu:0")
    panel.until(panel.start_button.isEnabled)


# -- a copy of a built-in workload -----------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The files that were opened in an editor."""
    files: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: files.append(url.toLocalFile()) or True)
    return files


@pytest.fixture
def panel(form, monkeypatch, tmp_path):
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr(FileDialog, "last_folder", str(tmp_path / "mine"))
    form.choose(form.recipe, "digits_mlp")
    return form


def ask(panel) -> FileDialog:
    panel.window.panels.menu.action("copyRecipe").trigger()
    return panel.window.findChild(FileDialog, "copyRecipeDialog")


def test_copied_workload_is_chosen_and_opened_in_an_editor_if_there_is_one(
    panel, opened, tmp_path, monkeypatch
) -> None:
    dialog = ask(panel)
    target = tmp_path / "mine" / "digits_mlp.py"
    assert dialog.selectedFiles() == [str(target)]
    dialog.accept()
    panel.until(lambda: panel.recipe.currentData() == str(target), "the copy to be chosen")
    assert target.read_text() == standalone(recipes.find("digits_mlp", "pytorch"))
    assert opened == [str(target)]
    panel.tick("cpu:0")
    panel.until_ready()
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _: False)
    panel.choose(panel.recipe, "digits_mlp")
    panel.choose(panel.framework, "keras")
    target.unlink()
    ask(panel).accept()
    assert f"The desktop has no program that opens {target}." in panel.message("messageStrip")
    assert panel.recipe.currentData() == str(target)
    assert "import keras" in target.read_text()


@pytest.mark.slow
def test_file_that_exists_is_replaced_only_after_a_question(panel, opened, tmp_path) -> None:
    target = tmp_path / "mine" / "digits_mlp.py"
    target.write_text("precious")
    dialog = ask(panel)
    asked: list[str] = []

    def answer() -> None:
        """Answer the question as soon as it is shown: it keeps `accept` from returning."""
        for box in dialog.findChildren(QMessageBox):
            asked.append(box.text())
            box.done(QMessageBox.StandardButton.No)

    timer = QTimer(interval=20)
    timer.timeout.connect(answer)
    timer.start()
    dialog.accept()
    timer.stop()
    assert "already exists" in asked[0]
    assert target.read_text() == "precious"
    assert opened == []


def test_copy_is_offered_in_menus_and_explained_where_it_cannot_be(panel, opened, tmp_path) -> None:
    before = panel.recipe.currentData()
    ask(panel).fileSelected.emit(str(tmp_path / "no such folder" / "mine.py"))
    why_not = "mine.py could not be written: No such file or directory. Name another file."
    assert why_not in panel.message("messageStrip")
    assert (opened, panel.recipe.currentData()) == ([], before)
    own = tmp_path / "own.py"
    own.write_text("def model(): ...\ndef train_data(): ...\n")
    panel.open_recipe(own)
    dialogs = panel.window.findChildren(FileDialog)
    ask(panel)
    assert panel.window.findChildren(FileDialog) == dialogs, "nothing is asked"
    assert "own.py is a file of your own, which you can change as it is." in panel.message("messageStrip")
    action = panel.window.panels.menu.action("copyRecipe")
    assert action in panel.window.panels.menu.file.actions()
    assert panel.recipe.actions() == [action]
    assert panel.recipe.contextMenuPolicy() == Qt.ContextMenuPolicy.ActionsContextMenu
