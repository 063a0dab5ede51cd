"""All settings: one sheet over the plots, a search, marks at what was changed, and a line that lists it."""

import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QLineEdit, QPushButton, QSpinBox, QWidget

from core.config.choices import compose
from core.devices.cpu import cpu_devices
from core.runs.facts import RunFacts
from core.schema.settings import StopTimeouts
from gui.base.theme import LIGHT
from gui.features.run.settings import run_settings
from gui.features.setup.panel import SetupPanel
from tests.support.running import make_spec, script_spec
from tests.window.driving import show_theme

pytestmark = pytest.mark.styled

RECORDED = Path(__file__).parents[1] / "recorded_runs"


@pytest.fixture
def setup(hold):
    """The training card beside the part of a window that its sheet covers."""
    window = QWidget()
    window.resize(1400, 800)
    panel, ground = SetupPanel(window), QWidget(window)
    panel.setParent(window)
    panel.setGeometry(0, 0, 340, 600)
    ground.setGeometry(360, 40, 830, 560)
    panel.sheet.cover(ground)
    hold(window).show()
    return panel


def named(setup, kind, name):
    return setup.window().findChild(kind, name)


def order(fields, begin) -> list[QWidget]:
    """Return these fields in the order in which Tab reaches them."""
    found, at = [], begin.nextInFocusChain()
    while at is not begin:
        if at in fields:
            found.append(at)
        at = at.nextInFocusChain()
    return found


def label_of(field: QWidget) -> QLabel:
    return next(each for each in field.window().findChildren(QLabel) if each.buddy() is field)


def test_sheet_covers_the_plots_with_groups_side_by_side_and_follows_them(setup, qtbot):
    assert not setup.sheet.isVisible()
    qtbot.mouseClick(named(setup, QPushButton, "allSettingsButton"), Qt.MouseButton.LeftButton)
    ground = setup.sheet._ground
    assert setup.sheet.geometry() == ground.geometry()
    assert setup.sheet.search.hasFocus()
    seed, schedule = named(setup, QSpinBox, "seedBox"), named(setup, QComboBox, "scheduleBox")
    assert seed.isVisible()
    groups = {each.mapTo(setup.sheet, each.rect().topLeft()).x() for each in (seed, schedule)}
    assert len(groups) == 2
    title = label_of(schedule)
    assert title.mapTo(setup.sheet, title.rect().center()).y() == pytest.approx(
        schedule.mapTo(setup.sheet, schedule.rect().center()).y(), abs=4
    ), "beside its field"
    fields = {each.x() for each in setup.sheet.findChildren(QComboBox) if each.isVisible()}
    assert len(fields) == 1, "the fields of all groups are aligned"
    ground.raise_()  # as Qt does when the docks are laid out again
    ground.resize(400, 500)
    assert setup.sheet.width() == 400
    assert setup.sheet.isAncestorOf(setup.window().childAt(ground.geometry().center())), "it is above the plots"
    assert label_of(schedule).alignment() & Qt.AlignmentFlag.AlignVCenter, "beside its field"
    assert seed.mapTo(setup.sheet, seed.rect().topRight()).x() < 400
    qtbot.keyClick(setup.sheet.search, Qt.Key.Key_Escape)
    assert not setup.sheet.isVisible()
    assert named(setup, QPushButton, "allSettingsButton").hasFocus()


def test_search_has_the_words_and_changed_settings_are_marked_and_reset(setup):
    setup.sheet.toggle()
    setup.sheet.search.setText("learning rate rises")  # the explanation of the warm-up
    assert named(setup, QSpinBox, "warmupBox").isVisible()
    assert not named(setup, QComboBox, "scheduleBox").isVisible()
    assert not named(setup, QSpinBox, "seedBox").isVisible()
    setup.sheet.search.setText("nothing has this")
    assert not named(setup, QSpinBox, "warmupBox").isVisible()
    setup.sheet.search.clear()
    assert named(setup, QSpinBox, "seedBox").isVisible()
    assert not named(setup, QLineEdit, "expressionEdit").isVisible()  # scripts alone have it
    line = named(setup, QLabel, "changedSettings")
    assert line.text() == "Other settings have their defaults"
    seed, dropout = named(setup, QSpinBox, "seedBox"), named(setup, QLineEdit, "setting-dropout")
    seed.setValue(3)
    dropout.setText("0.2")
    named(setup, QCheckBox, "checkpointBestBox").setChecked(False)
    named(setup, QLineEdit, "decayEdit").setText("0")
    assert line.text() == "Changed: Dropout 0.2, Weight decay 0, Seed 3, Keep the best off"
    assert label_of(seed).text() == "• Seed"
    assert label_of(seed).property("tone") == "accent"
    assert label_of(named(setup, QSpinBox, "warmupBox")).text() == "Warm-up steps"
    setup.sheet.search.setText("seed")  # a search does not limit what is reset
    named(setup, QPushButton, "resetSettings").click()
    assert line.text() == "Other settings have their defaults"
    assert (seed.value(), dropout.text()) == (0, "0.0")
    assert label_of(seed).text() == "Seed"


def test_sheet_edits_the_choices_of_a_run_and_takes_a_new_default(setup):
    named(setup, QSpinBox, "seedBox").setValue(7)
    named(setup, QLineEdit, "setting-momentum").setText("0.5")
    named(setup, QLineEdit, "releaseWaitEdit").clear()  # empty means the default
    choices = setup.choices()
    assert choices.training["seed"] == 7
    assert choices.settings["momentum"] == "0.5"
    assert choices.release["wait_s"] == 60.0
    other = SetupPanel()
    other.restore(setup.remember())
    assert other.choices().training["seed"] == 7
    other.deleteLater()
    setup.release.set_defaults({"tolerance_mb": 128, "wait_s": 60.0})
    assert setup.choices().release["tolerance_mb"] == 128
    named(setup, QSpinBox, "releaseToleranceBox").setValue(200)
    setup.release.set_defaults({"tolerance_mb": 256})
    assert setup.choices().release["tolerance_mb"] == 200


def test_stop_timeouts_of_a_run_are_kept_when_it_is_edited_and_started_again(setup, tmp_path):
    recipe = make_spec("digits_mlp", stop_timeouts=StopTimeouts(ask_s=2.5, terminate_s=60))
    setup.fill(recipe)
    assert setup.choices().stop == {"ask_s": 2.5, "terminate_s": 60}
    assert named(setup, QLineEdit, "interruptTimeoutEdit").text() == ""
    other = SetupPanel()
    other.restore(setup.remember())
    assert other.choices().stop == setup.choices().stop
    other.deleteLater()
    (tmp_path / "train.py").write_text("print(1)\n")
    setup.fill(script_spec(tmp_path / "train.py", cwd=tmp_path, stop={"interrupt_s": 5}))
    assert setup.choices().choices().stop == {"interrupt_s": 5}, "a script is not asked before SIGINT"
    setup.fill(make_spec("digits_mlp"))
    assert setup.choices().stop == {}
    named(setup, QLineEdit, "askTimeoutEdit").setText("0")
    with pytest.raises(ValueError, match=r"The setting “Seconds until SIGINT” is 0"):
        compose(setup.choices(), cpu_devices())


def test_script_has_the_stop_on_nan_of_recipes_and_no_patience(setup, tmp_path):
    named(setup, QLineEdit, "patienceEdit").setText("6")
    (tmp_path / "train.py").write_text("print(1)\n")
    spec = script_spec(tmp_path / "train.py", cwd=tmp_path, training={"stop_on_nan": True})
    setup.fill(spec)
    setup.sheet.toggle()
    box, patience = named(setup, QCheckBox, "nanBox"), named(setup, QLineEdit, "patienceEdit")
    assert (box.isVisible(), patience.isVisible()) == (True, False)
    assert setup.choices().choices().training == {"stop_on_nan": True}
    assert "Stop on NaN on" in named(setup, QLabel, "changedSettings").text()
    rows = {row.label: row.value for group in run_settings(spec, RunFacts(), {}, "").groups for row in group.rows}
    assert rows["Stop on NaN"] == "on"
    box.setChecked(False)
    assert setup.choices().choices().training == {"stop_on_nan": False}
    setup.choose_built_in("digits_mlp")
    assert patience.isVisible()
    assert (patience.text(), setup.choices().training["patience"]) == ("6", 6)


@pytest.mark.slow
def test_sheet_makes_way_for_a_run_that_is_shown(drive, runs_root, qtbot):
    shutil.copytree(RECORDED / "finished", runs_root / "finished")
    panel = drive()
    sheet = panel.window.panels.setup.sheet
    sheet.toggle()
    panel.choose(panel.recipe, "digits_mlp")  # its fields are new
    sheet.toggle()
    sheet.toggle()
    fields = [panel.window.findChild(QWidget, name) for name in ("closeSettings", "setting-hidden", "scheduleBox")]
    assert order(fields, sheet.search) == fields
    qtbot.keyClick(panel.window.findChild(QSpinBox, "seedBox"), Qt.Key.Key_Escape)  # closes the sheet, and no more
    assert not sheet.isVisible()
    sheet.toggle()
    panel.open_run()
    assert not sheet.isVisible()
    assert sheet.geometry().topLeft() == panel.window.panels.scroll.mapTo(panel.window, panel.window.rect().topLeft())


@pytest.mark.slow
def test_sheet_lies_over_the_guide_of_a_first_run(assemble):
    panel = assemble("run", "start")
    window = panel.window
    guide, sheet = window.panels.first_steps, window.panels.setup.sheet
    panel.until(guide.isVisible, "the guide")
    sheet.toggle()
    show_theme(LIGHT)  # the guide is placed again
    panel.until(lambda: sheet.isAncestorOf(window.childAt(guide.mapTo(window, guide.rect().center()))), "the sheet")
