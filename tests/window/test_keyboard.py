"""The window by keyboard alone, and what a screen reader is told."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QContextMenuEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDockWidget,
    QFileDialog,
    QLineEdit,
    QMenu,
    QPushButton,
    QWidget,
)

from gui.plots.card import CURVE, MAX_CURVES, NOTHING, describe
from gui.runs.words import RunHeader
from gui.widgets import messages as announcement
from gui.widgets.messages import MessageStrip
from tests.support.running import FOREVER, LONG, write_recipe
from tests.support.written_runs import write_run

SLOW = f"""{LONG}
import time

print("recipe is loaded", flush=True)

def loss():
    def measure(weight, items):
        time.sleep(0.01)
        return weight
    return measure
"""
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


class Keyboard:
    """Presses keys in whatever has the focus."""

    def __init__(self, panel) -> None:
        self.panel, self.qtbot = panel, panel.qtbot
        with self.qtbot.waitActive(panel.window):
            panel.window.activateWindow()
        panel.until(lambda: panel.window.opened, "the first poll")

    @property
    def focus(self) -> QWidget:
        return QApplication.focusWidget() or self.panel.window

    def press(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        self.qtbot.keyClick(QApplication.activePopupWidget() or self.focus, key, modifiers)

    def go_to(self, name: str, key: Qt.Key, modifiers=Qt.KeyboardModifier.NoModifier) -> QWidget:
        """Press a key until a widget of this name has the focus."""
        for _ in range(80):
            if self.focus.objectName() == name:
                return self.focus
            self.press(key, modifiers)
        raise AssertionError(f"{name} was not reached")


def test_tab_follows_sight_f6_goes_from_card_to_card_and_find_to_the_field_of_the_card(drive, runs_root) -> None:
    panel = drive()
    keys = Keyboard(panel)
    panel.tick("cpu:0")
    panel.until(panel.start_button.isEnabled)
    panel.start_button.setFocus()
    names = []
    for _ in range(60):
        names.append(f"{type(keys.focus).__name__} {keys.focus.objectName()}")
        keys.press(Qt.Key.Key_Tab)
        if keys.focus is panel.start_button:
            break
    wanted = [
        "SteadyButton startButton", "DeviceView deviceTable", "QPushButton recipeModeButton", "ChoiceBox frameworkBox",
        "StrategyBox strategyBox", "ChoiceBox recipeBox", "WholeBox epochsBox", "WholeBox batchBox",
        "QLineEdit rateEdit", "QPushButton firstTickButton", "RunList runList",
    ]
    assert [name for name in names if name in wanted] == wanted
    assert keys.focus is panel.start_button, "once round"
    plot = panel.plot("lossPlot")
    assert plot.isAncestorOf(plot.canvas.previousInFocusChain()), "the controls of a plot come before it"

    panels = panel.window.panels
    details = panel.window.findChild(QDockWidget, "logDock")  # its tabs take the focus where no process is listed
    cards = (panels.devices, panels.setup, panels.scroll, details, panels.runs)
    panel.table.setFocus()
    visited = []
    for _ in cards:
        visited.append(next(card for card in cards if card is keys.focus or card.isAncestorOf(keys.focus)))
        keys.press(Qt.Key.Key_F6)
        while panels.header.isAncestorOf(keys.focus):
            keys.press(Qt.Key.Key_F6)
    assert visited == list(cards)
    assert keys.focus is panel.table, "once round"
    keys.press(Qt.Key.Key_F6, SHIFT)
    while panels.header.isAncestorOf(keys.focus):
        keys.press(Qt.Key.Key_F6, SHIFT)
    assert panels.runs is keys.focus or panels.runs.isAncestorOf(keys.focus)

    write_run(runs_root, "20260101-000001-run")
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.table.setFocus()
    keys.press(Qt.Key.Key_F, CONTROL)
    assert keys.focus is panels.run_filter, "without a run there is no log"
    panel.open_run()
    panel.table.setFocus()
    keys.press(Qt.Key.Key_F, CONTROL)
    assert keys.focus.objectName() == "searchField"
    keys.press(Qt.Key.Key_Escape)
    panel.runs.setFocus()
    keys.press(Qt.Key.Key_F, CONTROL)
    assert keys.focus is panels.run_filter
    sheet = panels.setup.sheet
    sheet.toggle()
    sheet.defaults.setFocus()
    keys.press(Qt.Key.Key_F, CONTROL)
    assert keys.focus is sheet.search


@pytest.mark.slow
def test_whole_session_by_keyboard(drive, tmp_path) -> None:
    write_recipe(tmp_path, SLOW, "slow")
    panel = drive()
    keys = Keyboard(panel)
    open_recipe(panel, keys, str(tmp_path / "slow.py"))
    keys.go_to("deviceTable", Qt.Key.Key_F6)
    keys.press(Qt.Key.Key_Home, CONTROL)
    keys.press(Qt.Key.Key_Space)
    panel.until(lambda: panel.chosen.ticked, "a tick")
    recipe = keys.go_to("recipeBox", Qt.Key.Key_Tab)
    keys.press(Qt.Key.Key_Home)
    keys.press(Qt.Key.Key_End)
    assert recipe.currentText() == "slow.py"
    epochs = keys.go_to("epochsBox", Qt.Key.Key_Tab)
    panel.qtbot.keyClicks(epochs, str(FOREVER))
    panel.until(panel.start_button.isEnabled, "Start")
    keys.press(Qt.Key.Key_Return, CONTROL)
    panel.until_state("Running")
    panel.until(panel.pause_button.isEnabled)
    keys.go_to("pauseButton", Qt.Key.Key_Tab, SHIFT)
    keys.press(Qt.Key.Key_Space)
    panel.until_state("Paused")
    assert keys.focus is panel.pause_button, "the pressed button keeps the focus"
    panel.until(panel.pause_button.isEnabled)
    keys.press(Qt.Key.Key_Space)
    panel.until_state("Running")
    panel.until(panel.stop_button.isEnabled)
    keys.press(Qt.Key.Key_Period, CONTROL)
    panel.until_state("Stopped")
    find_in_log(panel, keys)
    delete_run(panel, keys)


def open_recipe(panel, keys: Keyboard, path: str) -> None:
    keys.press(Qt.Key.Key_O, CONTROL)
    panel.until(lambda: panel.window.findChild(QFileDialog, "openDialog") is not None, "the dialog")
    dialog = panel.window.findChild(QFileDialog, "openDialog")
    field = dialog.findChild(QLineEdit, "fileNameEdit")
    panel.until(field.hasFocus, "the focus in the dialog")
    panel.qtbot.keyClicks(field, path)
    if QApplication.activePopupWidget() is not None:
        keys.press(Qt.Key.Key_Return)  # takes the completion that Qt offers
    keys.press(Qt.Key.Key_Return)
    panel.until(lambda: panel.window.panels.setup.choices().recipe == path, "the recipe")
    with panel.qtbot.waitActive(panel.window):
        panel.window.activateWindow()  # as a window manager does at the end of a dialog


def find_in_log(panel, keys: Keyboard) -> None:
    keys.press(Qt.Key.Key_F, CONTROL)
    field = keys.focus
    panel.qtbot.keyClicks(field, "recipe is")
    panel.until(lambda: "recipe is loaded" in panel.log.toPlainText(), "the log")
    keys.press(Qt.Key.Key_Return)
    panel.until(lambda: panel.log.textCursor().selectedText() == "recipe is", "the match")
    keys.press(Qt.Key.Key_Escape)


def delete_run(panel, keys: Keyboard) -> None:
    keys.go_to("runList", Qt.Key.Key_F6)
    keys.press(Qt.Key.Key_Home)
    menu = panel.window.findChild(QMenu, "runListMenu")
    asked = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(), QPoint())  # what Qt makes of the menu key
    QApplication.sendEvent(panel.runs.viewport(), asked)
    panel.until(menu.isVisible, "the menu")
    keys.press(Qt.Key.Key_Up)
    assert menu.activeAction().text().startswith("Delete")
    keys.press(Qt.Key.Key_Return)
    question = panel.asked()
    yes = question.findChild(QPushButton, "yesButton")
    for _ in range(4):
        if question.focusWidget() is yes:
            break
        panel.qtbot.keyClick(question.focusWidget() or question, Qt.Key.Key_Tab)
    panel.qtbot.keyClick(yes, Qt.Key.Key_Return)
    assert question.isVisible(), "Enter on another button does not cancel"
    panel.qtbot.keyClick(yes, Qt.Key.Key_Space)
    panel.until(lambda: panel.runs.count() == 0, "the deletion")


# -- what a screen reader is told ------------------------------------------------------------------


def tree(widget) -> dict[str, str]:
    """Return the descriptions of everything that can be seen in a widget, by its name for a screen reader."""
    found, todo = {}, [QAccessible.queryAccessibleInterface(widget)]
    while todo:
        each = todo.pop()
        if each is None or not each.isValid() or each.state().invisible:
            continue
        found[each.text(QAccessible.Text.Name)] = each.text(QAccessible.Text.Description)
        todo += [each.child(number) for number in range(each.childCount())]
    return found


@pytest.fixture
def told(monkeypatch) -> list[str]:
    """What was announced."""
    texts: list[str] = []
    monkeypatch.setattr(announcement.QAccessible, "isActive", lambda: True)
    monkeypatch.setattr(
        announcement.QAccessible, "updateAccessibility", lambda event: texts.append(event.message()), raising=True
    )
    return texts


@pytest.mark.slow
def test_names_say_state_verdict_and_problems(drive) -> None:
    panel = drive()
    panel.until(lambda: "Tick one or more" in panel.start_status.text(), "the problem")
    names = tree(panel.window)
    assert "State of the run: No run" in names
    assert any(name.startswith("Start: ") and "Tick one or more" in name for name in names)
    panel.window.panels.header.show_header(
        RunHeader(label="Finished", sentence="Training was completed.", name="a", released="memory released in 0.5 s")
    )
    names = tree(panel.window)
    assert names["State of the run: Finished"] == "Training was completed."
    assert "Memory after training: memory released in 0.5 s" in names
    fields = (QAbstractButton, QComboBox, QAbstractSpinBox, QLineEdit)
    parts = [each for kind in fields for each in panel.window.findChildren(kind) if each.isVisible()]
    spoken = {each: QAccessible.queryAccessibleInterface(each).text(QAccessible.Text.Name) for each in parts}
    assert [each.objectName() for each, name in spoken.items() if not name and each.focusProxy() is None] == []


def test_state_verdict_and_messages_are_announced_to_a_reader_alone(hold, header, told, monkeypatch) -> None:
    strip = hold(MessageStrip("strip"))
    header.show()
    running = RunHeader(label="Running", name="a")
    header.show_header(running)
    header.show_header(RunHeader(label="Running", name="a", detail="1 step/s"))
    header.show_header(RunHeader(label="Finished", name="a", released="memory released in 0.5 s"))
    strip.show_message("The disk is full.", "bad")
    assert told == [
        "State of the run: Running", "State of the run: Finished", "memory released in 0.5 s", "The disk is full.",
    ]
    monkeypatch.setattr(announcement.QAccessible, "isActive", lambda: False)
    monkeypatch.setattr(announcement.QAccessible, "updateAccessibility", lambda _: pytest.fail("announced"))
    hold(MessageStrip("strip")).show_message("The disk is full.", "bad")


def test_plot_describes_its_curves(loss, run_series) -> None:
    loss.show_series(run_series, {}, {})
    loss.redraw()
    loss.describe()
    described = QAccessible.queryAccessibleInterface(loss.canvas).text(QAccessible.Text.Description)
    assert "as the lowest value" in described or "stays at" in described

    def curve(*values: float):
        return np.arange(float(len(values))), np.array(values)

    falls = describe({"a": curve(3, np.nan, 0.5, 1), "b": curve(2, 2), "c": curve(np.nan)}, {"a": "GPU 0"}, "GB")
    whole = CURVE.format(name="GPU 0", first="3 GB", last="1 GB", lowest="0.5 GB", highest="3 GB")
    assert falls == f"{whole} b stays at 2 GB."
    many = describe({str(number): curve(1, 2) for number in range(MAX_CURVES + 3)}, {}, "")
    assert many.endswith("3 more curves are not described.")
    assert describe({}, {}, "") == NOTHING
