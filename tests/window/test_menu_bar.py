"""The menu bar: every action does what its button does, and the menu Help answers; the table of actions on runs."""

import sys
from collections import Counter
from itertools import groupby

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QDialog, QFileDialog, QListWidget, QPlainTextEdit, QPushButton, QTableView, QWidget

from core.runs.facts import RunState
from core.system.installation import version
from gui import app
from gui.runs.actions import ACTIONS, NO_RUN, RunActions
from tests.support.acting import played
from tests.support.running import start
from tests.support.tables import cells


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


def test_menus_view_and_keys_of_a_window_without_runs(drive, tmp_path):
    panel = drive()
    menu, window = panel.window.panels.menu, panel.window
    in_bar = [*menu.run.actions(), *menu.export.actions()]
    named = [each for each in window.panels.header.again.run_menu.actions() if each.text()]
    assert all(each in in_bar for each in named)
    assert not any(each.isEnabled() for each in named)  # no run is shown
    every, of_tables = {(row.name, False) for row in ACTIONS}, {(row.name, True) for row in ACTIONS if row.of_tables}
    assert {*window.panels.actions._handlers} == every | of_tables, "a controller does each"

    tabs = window.panels.details.tabs
    for number, title in enumerate(("Memory", "Processes"), 1):
        action(panel, f"tab{number}").trigger()
        assert tabs.tabText(tabs.currentIndex()) == title
    menu.view.aboutToShow.emit()
    assert action(panel, "tab2").text() == "Processes"
    assert not action(panel, "tab3").isVisible(), "the other tabs are about a run"
    window.showMaximized()
    action(panel, "fullScreen").trigger()
    assert window.isFullScreen()
    action(panel, "fullScreen").trigger()
    assert window.isMaximized()

    file = tmp_path / "mine.py"
    file.write_text("def model(): ...\ndef train_data(): ...\n")
    action(panel, "openRecipe").trigger()
    chooser = window.findChild(QFileDialog, "openDialog")
    chooser.fileSelected.emit(str(file))
    chooser.reject()
    assert panel.recipe.currentText().startswith("mine")

    action(panel, "keys").trigger()
    rows = cells(dialog(panel, "keysDialog").findChild(QTableView, "keyTable"))
    keys = [key for where, _, key in rows if where in {"File", "Run", "View", "Tools", "Help"}]
    assert {"Ctrl+O", "Ctrl+W", "Ctrl+Q", "F1", "F11", "Ctrl+1", "Ctrl+Return", "Ctrl+P", "Ctrl+."} <= set(keys)
    assert len(keys) == len(set(keys))
    assert ("Run", "Start", "Ctrl+Return") in rows
    action(panel, "keys").trigger()
    assert len([each for each in window.findChildren(QDialog, "keysDialog") if each.isVisible()]) == 1, "no second one"
    action(panel, "close").trigger()
    assert not window.isVisible()


def test_help_names_version_licences_and_folders_and_has_the_documents(assemble, runs_root):
    panel = assemble("help")
    panel.window.panels.menu.action("about").trigger()
    about = dialog(panel, "aboutDialog")
    assert version() in about.windowTitle()
    licences = {name: licence for name, _, licence in cells(about.findChild(QTableView, "libraryTable"))}
    assert "LGPL" in licences["PySide6-Essentials"]
    assert licences["pyqtgraph"] == "MIT"
    folder = about.findChild(QWidget, "runsPath")
    assert folder.toolTip() or str(runs_root) in folder.text()
    panel.window.panels.menu.action("documents").trigger()
    shown = dialog(panel, "documentsDialog")
    titles = shown.findChild(QListWidget, "documentList")
    titles.setCurrentItem(titles.findItems("Command line", Qt.MatchFlag.MatchExactly)[0])
    assert "trainyard run digits_cnn" in shown.findChild(QPlainTextEdit, "documentText").toPlainText()


def test_uncaught_error_is_shown_and_can_be_reported_and_the_window_stays_open(drive, monkeypatch, caplog):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    panel = drive()
    app._catch_exceptions(panel.window)
    with pytest.raises(KeyError) as raised:
        {}["what went wrong"]
    sys.excepthook(KeyError, raised.value, raised.tb)
    assert panel.window.isVisible()
    assert "what went wrong" in panel.message("messageStrip")
    assert "what went wrong" in caplog.text
    strip = panel.window.panels.message
    button = next(each for each in strip.findChildren(QPushButton) if each.text() == "Copy report")
    assert button.isVisible()
    button.click()
    copied = QGuiApplication.clipboard().text()
    told = (f"Trainyard {version()}", "test_menu_bar.py", "KeyError: 'what went wrong'", "CPU 0")
    assert [words for words in told if words not in copied] == []


# -- the table of what can be done with runs -------------------------------------------------------


def test_each_action_is_explained_and_done_with_the_runs_that_are_left() -> None:
    assert [name for name, count in Counter(row.name for row in ACTIONS).items() if count > 1] == []
    keys = [row.key for row in ACTIONS if row.key]
    assert len(keys) == len(set(keys))
    for row in ACTIONS:
        assert bool(row.text) == bool(row.tip), row.name
        assert row.text or row.of_several, row.name
        assert row.text or not (row.key or row.of_queued or row.of_tables), row.name
    sections = [section for section, _ in groupby(row.section for row in ACTIONS)]
    assert len(sections) == len(set(sections)), "a section is in one piece"
    actions, done = RunActions(), []
    actions.provide(compare=done.append)
    actions.do("compare", [])
    actions.do("compare", ["a", "b"])
    assert done == [[], ["a", "b"]]
    actions, asked = RunActions(), []
    actions.judge(lambda run_dir, _: asked.append(run_dir))
    states = actions.states("")
    assert {state.why_not for state in states.values()} == {NO_RUN}
    assert asked == []
    assert {name for name, state in states.items() if not state.shown} == {row.name for row in ACTIONS if row.of_queued}
    assert {state.why_not for state in actions.states("a").values()} == {""}
    assert asked == ["a"]
