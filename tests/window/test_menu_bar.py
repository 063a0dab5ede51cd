"""The menu bar: every action does what its button does, and the menu Help answers."""

from __future__ import annotations

import sys

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QDialog, QFileDialog, QListWidget, QPlainTextEdit, QPushButton, QTableView, QWidget

from core.runs.facts import RunState
from core.system.installation import version
from tests.support.acting import played
from tests.support.running import start
from tests.support.tables import cells


@pytest.fixture
def panel(drive):
    return drive()


def action(panel, name: str) -> QAction:
    return panel.window.findChild(QAction, f"{name}Action")


def dialog(panel, name: str) -> QDialog | None:
    return next((each for each in panel.window.findChildren(QDialog, name) if each.isVisible()), None)


@pytest.mark.slow
def test_actions_of_run_are_enabled_with_their_buttons_and_press_them(drive, runs_root, tmp_path):
    followed = start(played(tmp_path / "actor"), runs_root).until_trained()
    panel = drive()
    panel.until_state("Running")
    for name in ("start", "pause", "stop", "save"):
        button = panel.window.findChild(QPushButton, f"{name}Button")
        assert action(panel, name).isEnabled() == button.isEnabled()
        button.setEnabled(not button.isEnabled())
        assert action(panel, name).isEnabled() == button.isEnabled()
        button.setEnabled(not button.isEnabled())
    action(panel, "stop").trigger()
    followed.until(RunState.STOPPED)
    panel.until_state("Stopped")
    assert not action(panel, "stop").isEnabled()
    panel.window.panels.menu.run.aboutToShow.emit()
    assert action(panel, "pause").text().startswith("Start over\t"), "the run has no checkpoint to be resumed from"


def test_actions_of_a_run_are_those_of_its_own_menu(panel):
    shared = panel.window.panels.header.again.run_menu.actions()
    in_bar = [*panel.window.panels.menu.run.actions(), *panel.window.panels.menu.export.actions()]
    named = [each for each in shared if each.text()]
    assert all(each in in_bar for each in named)
    assert not any(each.isEnabled() for each in named)  # no run is shown


def test_view_raises_tabs_and_resets_layout(panel):
    tabs = panel.window.panels.details.tabs
    for number in range(2):
        action(panel, f"tab{number + 1}").trigger()
        assert tabs.currentIndex() == number
    assert action(panel, "tab2").text() == tabs.tabText(1)
    assert not action(panel, "tab9").isVisible()
    panel.window.showMaximized()
    action(panel, "fullScreen").trigger()
    assert panel.window.isFullScreen()
    action(panel, "fullScreen").trigger()
    assert panel.window.isMaximized()


def test_open_recipe_asks_for_a_file_and_chooses_it(panel, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def model(): ...\ndef train_data(): ...\n")
    action(panel, "openRecipe").trigger()
    chooser = panel.window.findChild(QFileDialog, "openDialog")
    chooser.fileSelected.emit(str(file))
    chooser.reject()
    assert panel.recipe.currentText().startswith("mine")


def test_close_leaves_runs_alone_and_closes(panel):
    action(panel, "close").trigger()
    assert not panel.window.isVisible()


def test_no_two_keys_are_the_same_and_all_are_in_the_list(panel):
    action(panel, "keys").trigger()
    rows = cells(dialog(panel, "keysDialog").findChild(QTableView, "keyTable"))
    keys = [key for where, _, key in rows if where in {"File", "Run", "View", "Tools", "Help"}]
    assert {"Ctrl+O", "Ctrl+W", "Ctrl+Q", "F1", "F11", "Ctrl+1", "Ctrl+Return", "Ctrl+P", "Ctrl+."} <= set(keys)
    assert len(keys) == len(set(keys))
    assert ("Run", "Start", "Ctrl+Return") in rows
    action(panel, "keys").trigger()  # a second one is not opened
    assert len([each for each in panel.window.findChildren(QDialog, "keysDialog") if each.isVisible()]) == 1


def test_about_names_version_licences_and_folders(panel, runs_root):
    action(panel, "about").trigger()
    about = dialog(panel, "aboutDialog")
    assert version() in about.windowTitle()
    licences = {name: licence for name, _, licence in cells(about.findChild(QTableView, "libraryTable"))}
    assert "LGPL" in licences["PySide6-Essentials"]
    assert licences["pyqtgraph"] == "MIT"
    assert (
        about.findChild(QWidget, "runsPath").toolTip() or str(runs_root) in about.findChild(QWidget, "runsPath").text()
    )


def test_documents_can_be_read_in_the_window(panel):
    action(panel, "documents").trigger()
    shown = dialog(panel, "documentsDialog")
    titles = shown.findChild(QListWidget, "documentList")
    titles.setCurrentItem(titles.findItems("Command line", Qt.MatchFlag.MatchExactly)[0])
    assert "trainyard run digits_cnn" in shown.findChild(QPlainTextEdit, "documentText").toPlainText()


def test_report_has_the_last_error_of_the_window(panel, monkeypatch):
    from gui import app

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    app._catch_exceptions(panel.window)
    with pytest.raises(KeyError) as raised:
        {}["what went wrong"]
    sys.excepthook(KeyError, raised.value, raised.tb)
    strip = panel.window.panels.message
    button = next(each for each in strip.findChildren(QPushButton) if each.text() == "Copy report")
    assert button.isVisible()
    button.click()
    copied = QGuiApplication.clipboard().text()
    assert f"Trainyard {version()}" in copied
    assert "test_menu_bar.py" in copied
    assert "KeyError: 'what went wrong'" in copied
    assert "CPU 0" in copied
