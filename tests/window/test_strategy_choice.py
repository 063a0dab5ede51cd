"""Offered strategies with reasons, and training settings from the form to the spec."""

from collections import Counter

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QDockWidget, QLabel, QSpinBox, QWidget

from core.schema.settings import Checkpoints, ReleaseWatch, Training
from gui.base.theme import DARK, LIGHT
from gui.features.setup.recipe_fields import SECOND_LINE
from tests.support.colour_vision import contrast
from tests.support.running import write_recipe
from tests.window.driving import show_theme


def offered(form) -> tuple[list[str], dict[str, str]]:
    """Return the usable strategies in order, and the others with the reason shown."""
    box = form.strategy
    rows = [row for row in range(box.count()) if box.itemData(row)]
    usable = [row for row in rows if box.model().item(row).isEnabled()]
    assert usable == rows[: len(usable)]  # usable strategies come first
    others = {box.itemData(row): box.itemData(row, SECOND_LINE) for row in rows if row not in usable}
    return [box.itemData(row) for row in usable], others


@pytest.mark.styled
@pytest.mark.slow
def test_strategy_list_can_be_read_in_both_themes(form):
    form.tick("cpu:0")
    form.strategy.showPopup()
    for theme in (DARK, LIGHT):
        show_theme(theme)
        image = form.strategy.view().grab().toImage()
        colours = Counter(image.pixelColor(x, y).name() for x in range(image.width()) for y in range(60))
        ((ground, _),) = colours.most_common(1)
        assert ground == theme.accent_soft, "the chosen strategy is the first"
        assert max(contrast(each, ground) for each in colours) >= theme.text_contrast
    form.strategy.hidePopup()


@pytest.mark.slow
def test_unusable_strategies_have_reasons_and_a_chosen_one_stays(form):
    form.tick("cpu:0")
    usable, others = offered(form)
    assert usable == ["single", "ddp", "fsdp"]
    assert others["pipeline"] == "Needs 2 devices or more."
    assert "NVIDIA GPUs only" in others["data_parallel"]
    form.tick("cpu:0", "cpu:1")
    usable, others = offered(form)
    assert usable == ["ddp", "fsdp", "pipeline", "placement"]
    assert others["single"] == "Trains on one device."
    assert form.strategy.toolTip().startswith("Data parallel (DDP): One process per device")
    role = Qt.ItemDataRole.AccessibleTextRole
    texts = [str(form.strategy.itemData(row, role)) for row in range(form.strategy.count())]
    assert any(text.startswith("One device, not available: ") for text in texts)
    form.choose(form.framework, "keras")
    assert "PerReplica" in offered(form)[1]["multi_worker_mirrored"]
    form.choose(form.framework, "tensorflow")
    assert "No TPU was found" in offered(form)[1]["tpu"]
    form.choose(form.framework, "pytorch")
    form.tick("cpu:0", "cpu:1")
    form.choose(form.strategy, "pipeline")
    form.tick("cpu:0")
    assert (form.strategy.currentData(), form.strategy.currentText()) == ("pipeline", "Pipeline (1F1B)")
    form.until_status("needs 2 devices or more, but only CPU 0 is ticked")
    assert not form.start_button.isEnabled()
    form.tick("cpu:0", "cpu:1")
    form.until_ready()


@pytest.mark.slow
def test_each_framework_keeps_its_choices(form, tmp_path):
    form.tick("cpu:0", "cpu:1")
    form.choose(form.strategy, "fsdp")
    form.choose(form.recipe, "digits_mlp")
    form.set_number("setting-hidden", 77)
    form.choose(form.framework, "tensorflow")
    assert form.strategy.currentData() == "mirrored"  # the default
    assert form.recipe.currentData() == "digits_mlp"
    assert form.window.findChild(QSpinBox, "setting-hidden").value() != 77
    mine = write_recipe(tmp_path, "import keras\ndef model(): ...\ndef train_data(): ...", "mine")
    form.choose(form.strategy, "towers")
    form.open_recipe(mine)
    form.choose(form.framework, "pytorch")
    assert (form.strategy.currentData(), form.recipe.currentData()) == ("fsdp", "digits_mlp")
    assert form.window.findChild(QSpinBox, "setting-hidden").value() == 77
    next_one = form.next_form()
    assert (next_one.choices().strategy, next_one.choices().recipe) == ("fsdp", "digits_mlp")
    form.choose(next_one.findChild(QComboBox, "frameworkBox"), "tensorflow")
    assert (next_one.choices().strategy, next_one.choices().recipe) == ("towers", mine)


NUMBERS = {
    "epochsBox": 7, "batchBox": 32, "warmupBox": 20, "accumulationBox": 2, "microBatchesBox": 8, "workersBox": 1,
    "seedBox": 5, "checkpointEveryBox": 3, "checkpointKeepBox": 4, "releaseToleranceBox": 128,
}
TEXTS = {"rateEdit": "0,25", "decayEdit": "1e-4", "clipEdit": "1", "patienceEdit": "6", "stepsPerEpochEdit": "9",
         "referenceBatchEdit": "16", "releaseWaitEdit": "7.5"}
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


def set_everything(form) -> None:
    for name, value in NUMBERS.items():
        form.set_number(name, value)
    for name, text in TEXTS.items():
        form.set_text(name, text)
    for name, data in CHOICES.items():
        form.choose(form.box(name), data)
    for name, ticked in TICKS.items():
        form.window.findChild(QCheckBox, name).setChecked(ticked)


@pytest.mark.slow
def test_all_settings_reach_spec_and_are_remembered_with_the_layout(drive):
    """In whole windows, since all of them pass through the file of settings."""
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.choose(panel.strategy, "pipeline")
    spec = panel.spec()
    assert (spec.training, spec.checkpoints, spec.release) == (
        Training(learning_rate=0.05), Checkpoints(), ReleaseWatch()
    )
    panel.choose(panel.recipe, "digits_mlp")
    set_everything(panel)
    spec = panel.spec()
    checkpoints = Checkpoints(unit="minutes", every=3, keep=4, best=False)
    release = ReleaseWatch(tolerance_mb=128, wait_s=7.5)
    assert (spec.training, spec.checkpoints, spec.release) == (EVERYTHING, checkpoints, release)
    assert (spec.devices, spec.strategy, spec.recipe.name) == (("cpu:0", "cpu:1"), "pipeline", "digits_mlp")
    batch = panel.window.findChild(QLabel, "batchLabel")
    panel.until(lambda: batch.text().startswith("32 = 1 pipeline of 2 stages × 8"))
    panel.plot("lossPlot").controls.log_box.setChecked(True)
    runs = panel.window.findChild(QDockWidget, "runsDock")
    panel.window.addDockWidget(Qt.DockWidgetArea.TopDockWidgetArea, runs)  # where no window has it by itself
    panel.window.close()
    reopened = drive()
    assert reopened.spec() == spec
    assert reopened.plot("lossPlot").controls.logarithmic
    runs = reopened.window.findChild(QDockWidget, "runsDock")
    assert reopened.window.dockWidgetArea(runs) is Qt.DockWidgetArea.TopDockWidgetArea


@pytest.mark.slow
def test_only_settings_of_chosen_strategy_are_shown(form):
    form.window.findChild(object, "allSettingsButton").click()
    form.tick("cpu:0", "cpu:1")
    names = ("microBatchesBox", "workersBox", "crossDeviceOpsBox", "outputDeviceBox", "bucketEdit", "compressionBox",
             "metaDeviceBox", "makeOnDeviceBox", "activationBox", "checkpointEveryBox")

    def shown() -> list[str]:
        return [name for name in names if form.window.findChild(QWidget, name).isVisible()]

    set_everything(form)
    every = "checkpointEveryBox"
    assert shown() == ["workersBox", "bucketEdit", "compressionBox", "makeOnDeviceBox", "activationBox", every]
    form.set_text("bucketEdit", "5")
    form.choose(form.box("compressionBox"), "float16")
    training = form.spec().training
    assert (training.bucket_mb, training.gradient_compression) == (5, "float16")
    assert training.micro_batches == Training().micro_batches
    form.choose(form.strategy, "fsdp")
    assert shown() == ["workersBox", "metaDeviceBox", "makeOnDeviceBox", "activationBox", every]
    form.window.findChild(QCheckBox, "metaDeviceBox").setChecked(True)
    training = form.spec().training
    assert (training.meta_device, training.bucket_mb) == (True, None)
    form.window.findChild(QCheckBox, "makeOnDeviceBox").setChecked(True)
    form.until_status("cannot be made on the meta device and on its own")
    form.window.findChild(QCheckBox, "metaDeviceBox").setChecked(False)
    assert form.spec().training.make_on_device
    form.choose(form.strategy, "pipeline")
    assert {"microBatchesBox", "workersBox"} < {*shown()}
    form.choose(form.framework, "keras")
    assert shown() == ["crossDeviceOpsBox", every]
    assert form.spec().training.loader_workers == 0
    assert form.window.findChild(QCheckBox, "compileBox").text() == "XLA"
    form.choose(form.box("crossDeviceOpsBox"), "nccl")
    form.until_status("NCCL adds up gradients of GPUs only")
    form.choose(form.box("checkpointUnitBox"), "auto")
    assert shown() == ["crossDeviceOpsBox"]


@pytest.mark.slow
def test_remembered_settings_of_wrong_type_are_ignored(form):
    training = {"schedule": 3, "warmup_steps": -1, "weight_decay": [1], "stop_on_nan": "yes", "seed": True}
    checkpoints = {"unit": "moons", "every": 0, "keep": 1e9, "best": 7}
    form.window.panels.setup.restore({"training": training, "checkpoints": checkpoints, "left": {"keras": 4}})
    form.tick("cpu:0")
    form.choose(form.framework, "keras")
    new_spec = form.spec()
    assert new_spec.training == Training(learning_rate=new_spec.training.learning_rate)
    assert new_spec.checkpoints == Checkpoints(best=False)
