"""Offered strategies with reasons, and training settings from the form to the spec."""

from __future__ import annotations

from collections import Counter

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QLabel, QSpinBox, QWidget

from core.schema.settings import Checkpoints, Training
from gui.features.setup.recipe_fields import SECOND_LINE
from tests.support.colour_vision import contrast
from tests.support.running import LONG_PYTORCH, write_recipe
from tests.window.driving import show_theme


def offered(panel) -> tuple[list[str], dict[str, str]]:
    """Return the usable strategies in order, and the others with the reason shown."""
    box = panel.strategy
    rows = [row for row in range(box.count()) if box.itemData(row)]
    usable = [row for row in rows if box.model().item(row).isEnabled()]
    assert usable == rows[: len(usable)]  # usable strategies come first
    others = {box.itemData(row): box.itemData(row, SECOND_LINE) for row in rows if row not in usable}
    return [box.itemData(row) for row in usable], others


def spec(panel):
    return panel.spec()


def test_unusable_strategies_are_listed_with_reason(drive):
    panel = drive()
    panel.tick("cpu:0")
    usable, others = offered(panel)
    assert usable == ["single", "ddp", "fsdp"]
    assert others["pipeline"] == "Needs 2 devices or more."
    assert "NVIDIA GPUs only" in others["data_parallel"]
    panel.tick("cpu:0", "cpu:1")
    usable, others = offered(panel)
    assert usable == ["ddp", "fsdp", "pipeline", "placement"]
    assert others["single"] == "Trains on one device."
    panel.choose(panel.framework, "keras")
    assert "PerReplica" in offered(panel)[1]["multi_worker_mirrored"]
    panel.choose(panel.framework, "tensorflow")
    assert "No TPU was found" in offered(panel)[1]["tpu"]


@pytest.mark.styled
@pytest.mark.slow
def test_strategy_list_can_be_read_in_both_themes(drive):
    from gui.base.theme import DARK, LIGHT

    panel = drive()
    panel.tick("cpu:0")
    panel.strategy.showPopup()
    for theme in (DARK, LIGHT):
        show_theme(theme)
        image = panel.strategy.view().grab().toImage()
        colours = Counter(image.pixelColor(x, y).name() for x in range(image.width()) for y in range(60))
        ((ground, _),) = colours.most_common(1)
        assert ground == theme.accent_soft, "the chosen strategy is the first"
        assert max(contrast(each, ground) for each in colours) >= theme.text_contrast
    panel.strategy.hidePopup()


@pytest.mark.slow
def test_chosen_strategy_stays_when_it_no_longer_fits_devices(drive):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.choose(panel.strategy, "pipeline")
    panel.tick("cpu:0")
    assert panel.strategy.currentData() == "pipeline"
    assert panel.strategy.currentText() == "Pipeline (1F1B)"
    panel.until(lambda: "needs 2 devices or more, but only CPU 0 is ticked" in panel.start_status.text())
    assert not panel.start_button.isEnabled()
    panel.tick("cpu:0", "cpu:1")
    panel.until(lambda: "Ready" in panel.start_status.text())


@pytest.mark.slow
def test_each_framework_keeps_its_choices(drive, tmp_path):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.choose(panel.strategy, "fsdp")
    panel.choose(panel.recipe, "digits_mlp")
    panel.set_number("setting-hidden", 77)
    panel.choose(panel.framework, "tensorflow")
    assert panel.strategy.currentData() == "mirrored"  # the default
    assert panel.recipe.currentData() == "digits_mlp"
    assert panel.window.findChild(QSpinBox, "setting-hidden").value() != 77
    mine = write_recipe(tmp_path, "import keras\ndef model(): ...\ndef train_data(): ...", "mine")
    panel.choose(panel.strategy, "towers")
    panel.open_recipe(mine)
    panel.choose(panel.framework, "pytorch")
    assert (panel.strategy.currentData(), panel.recipe.currentData()) == ("fsdp", "digits_mlp")
    assert panel.window.findChild(QSpinBox, "setting-hidden").value() == 77
    panel.window.close()
    reopened = drive()
    assert (reopened.strategy.currentData(), reopened.recipe.currentData()) == ("fsdp", "digits_mlp")
    reopened.choose(reopened.framework, "tensorflow")
    assert (reopened.strategy.currentData(), reopened.recipe.currentData()) == ("towers", mine)


@pytest.mark.slow
def test_recipe_of_another_framework_is_refused(drive, tmp_path):
    panel = drive()
    panel.tick("cpu:0")
    panel.open_recipe(write_recipe(tmp_path, LONG_PYTORCH, "mine"))
    panel.choose(panel.framework, "keras")
    panel.until(lambda: "Recipe mine imports torch: it is for PyTorch" in panel.start_status.text())
    assert panel.recipe.currentText() == "mine.py"


NUMBERS = {
    "epochsBox": 7, "batchBox": 32, "warmupBox": 20, "accumulationBox": 2, "microBatchesBox": 8, "workersBox": 1,
    "seedBox": 5, "checkpointEveryBox": 3, "checkpointKeepBox": 4,
}
TEXTS = {"rateEdit": "0,25", "decayEdit": "1e-4", "clipEdit": "1", "patienceEdit": "6", "stepsPerEpochEdit": "9",
         "referenceBatchEdit": "16"}
CHOICES = {
    "scheduleBox": "cosine",
    "rateScalingBox": "linear",
    "precisionBox": "bfloat16",
    "checkpointUnitBox": "minutes",
}
TICKS = {"nanBox": True, "compileBox": True, "checkpointBestBox": False, "trainingMetricsBox": False}
EVERYTHING = Training(
    epochs=7, batch_size=32, learning_rate=0.25, seed=5, accumulation=2, precision="bfloat16", loader_workers=1,
    schedule="cosine", warmup_steps=20, weight_decay=1e-4, gradient_clip=1, patience=6, stop_on_nan=True, compile=True,
    micro_batches=8, steps_per_epoch=9, rate_scaling="linear", reference_batch=16, training_metrics=False,
)


def set_everything(panel) -> None:
    for name, value in NUMBERS.items():
        panel.set_number(name, value)
    for name, text in TEXTS.items():
        panel.set_text(name, text)
    for name, data in CHOICES.items():
        panel.choose(panel.box(name), data)
    for name, ticked in TICKS.items():
        panel.window.findChild(QCheckBox, name).setChecked(ticked)


@pytest.mark.slow
def test_all_settings_reach_spec_and_are_remembered(drive):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.choose(panel.strategy, "pipeline")
    new_spec = spec(panel)
    assert (new_spec.training, new_spec.checkpoints) == (Training(learning_rate=0.05), Checkpoints())
    set_everything(panel)
    wanted = EVERYTHING, Checkpoints(unit="minutes", every=3, keep=4, best=False)
    new_spec = spec(panel)
    assert (new_spec.training, new_spec.checkpoints) == wanted
    panel.until(
        lambda: panel.window.findChild(QLabel, "batchLabel").text().startswith("32 = 1 pipeline of 2 stages × 8")
    )
    panel.window.close()
    reopened = drive()
    new_spec = spec(reopened)
    assert (new_spec.training, new_spec.checkpoints) == wanted


@pytest.mark.slow
def test_only_settings_of_chosen_strategy_are_shown(drive):
    panel = drive()
    panel.window.findChild(object, "allSettingsButton").click()
    panel.tick("cpu:0", "cpu:1")
    set_everything(panel)
    shown = {name: panel.window.findChild(QSpinBox, name) for name in ("microBatchesBox", "workersBox")}
    assert [box.isVisible() for box in shown.values()] == [False, True]
    assert spec(panel).training.micro_batches == Training().micro_batches
    panel.choose(panel.strategy, "pipeline")
    assert [box.isVisible() for box in shown.values()] == [True, True]
    panel.choose(panel.framework, "keras")
    assert [box.isVisible() for box in shown.values()] == [False, False]
    assert spec(panel).training.loader_workers == 0
    assert panel.window.findChild(QCheckBox, "compileBox").text() == "XLA"
    every = panel.window.findChild(QSpinBox, "checkpointEveryBox")
    assert every.isVisible()
    panel.choose(panel.box("checkpointUnitBox"), "auto")
    assert not every.isVisible()


@pytest.mark.slow
def test_each_strategy_shows_the_settings_that_it_alone_has(drive):
    panel = drive()
    panel.window.findChild(object, "allSettingsButton").click()
    panel.tick("cpu:0", "cpu:1")
    names = ("crossDeviceOpsBox", "outputDeviceBox", "bucketEdit", "compressionBox", "metaDeviceBox", "makeOnDeviceBox",
             "activationBox")

    def shown() -> list[str]:
        return [name for name in names if panel.window.findChild(QWidget, name).isVisible()]

    assert shown() == ["bucketEdit", "compressionBox", "makeOnDeviceBox", "activationBox"]
    panel.set_text("bucketEdit", "5")
    panel.choose(panel.box("compressionBox"), "float16")
    training = spec(panel).training
    assert (training.bucket_mb, training.gradient_compression) == (5, "float16")
    panel.choose(panel.strategy, "fsdp")
    assert shown() == ["metaDeviceBox", "makeOnDeviceBox", "activationBox"]
    panel.window.findChild(QCheckBox, "metaDeviceBox").setChecked(True)
    training = spec(panel).training
    assert (training.meta_device, training.bucket_mb) == (True, None)
    panel.window.findChild(QCheckBox, "makeOnDeviceBox").setChecked(True)
    panel.until(lambda: "cannot be made on the meta device and on its own" in panel.start_status.text())
    panel.window.findChild(QCheckBox, "metaDeviceBox").setChecked(False)
    assert spec(panel).training.make_on_device
    panel.choose(panel.framework, "keras")
    assert shown() == ["crossDeviceOpsBox"]
    panel.choose(panel.box("crossDeviceOpsBox"), "nccl")
    panel.until(lambda: "NCCL adds up gradients of GPUs only" in panel.start_status.text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "typed", "problem"),
    [
        ("decayEdit", "much", "The setting “Weight decay” is 'much'. Give a number"),
        ("patienceEdit", "1.5", "The setting “Patience in epochs” is 1.5. Give a whole number"),
    ],
)
def test_invalid_number_is_reported(drive, field, typed, problem):
    panel = drive()
    panel.tick("cpu:0")
    panel.set_text(field, typed)
    panel.until(lambda: problem in panel.start_status.text())
    panel.set_text(field, "")
    panel.until(lambda: "Ready" in panel.start_status.text())


@pytest.mark.slow
def test_remembered_settings_of_wrong_type_are_ignored(drive, runs_root):
    from gui.base.settings_file import SettingsFile, folder_key

    training = {"schedule": 3, "warmup_steps": -1, "weight_decay": [1], "stop_on_nan": "yes", "seed": True}
    checkpoints = {"unit": "moons", "every": 0, "keep": 1e9, "best": 7}
    choices = {"training": training, "checkpoints": checkpoints, "left": {"keras": 4}}
    SettingsFile().save({f"{folder_key(runs_root)}/choices": choices})
    panel = drive()
    panel.tick("cpu:0")
    panel.choose(panel.framework, "keras")
    new_spec = spec(panel)
    assert new_spec.training == Training(learning_rate=new_spec.training.learning_rate)
    assert new_spec.checkpoints == Checkpoints(best=False)


@pytest.mark.slow
def test_tooltip_describes_chosen_strategy(drive):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    assert panel.strategy.toolTip().startswith("Data parallel (DDP): One process per device")
    role = Qt.ItemDataRole.AccessibleTextRole
    texts = [str(panel.strategy.itemData(row, role)) for row in range(panel.strategy.count())]
    assert any(text.startswith("One device, not available: ") for text in texts)
