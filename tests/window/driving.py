"""Drive a window as a user would, through its named widgets."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from PySide6.QtCore import QEventLoop, QPoint, Qt, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QFileDialog,
    QLabel,
    QLineEdit,
    QListWidget,
    QMainWindow,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QSpinBox,
    QWidget,
)
from pytestqt.qtbot import QtBot

from core.schema.spec import RunSpec
from gui.app import create_window
from gui.base.jobs import Jobs
from gui.base.theme import Theme, look, set_palette
from gui.features.devices.panel import ChosenDevices, DeviceView
from gui.features.preferences.preferences import PreferencesDialog
from gui.features.setup.panel import SetupPanel
from gui.features.setup.status import StartStatus
from gui.machine.device_rows import DeviceRow
from gui.machine.machine import Machine
from gui.widgets.dialogs import ConfirmDialog, NameDialog
from gui.widgets.messages import MessageStrip
from gui.window import main_window
from gui.window.features import FEATURES, Services
from gui.window.layout import SIZE, MainPanels
from gui.window.main_window import MainWindow
from tests.support.waiting import MAX_PAUSE_S, PATIENCE_S

NEAR = QPoint(5, 5)


def remove_style() -> None:
    """Remove the style sheet of earlier windows, unless one is still there: the program makes its window without one.

    With a style sheet, Qt styles a widget again each time one of its ancestors is put into a layout.
    """
    if not any(isinstance(each, MainWindow) for each in QApplication.topLevelWidgets()):
        app = QApplication.instance()
        if isinstance(app, QApplication) and app.styleSheet():
            app.setStyleSheet("")


def show_theme(theme: Theme) -> None:
    """Show a theme as a window does."""
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    main_window.apply(app, theme)


def apply_palette(app: QApplication, theme: Theme) -> None:
    """Show a theme without its style sheet."""
    set_palette(app, theme)
    look.changed.emit()


class Driver:
    """One visible window."""

    def __init__(self, qtbot: QtBot, runs_root: Path, machine: Machine | None = None) -> None:
        """`machine`: another one, whose runs the window shows."""
        self.qtbot = qtbot
        self.notices: list[str] = []
        remove_style()
        window = create_window(runs_root, machine)
        window.show()
        self._take(window)
        self.until(lambda: len(self.devices) > 0, "devices")

    def close(self) -> None:
        """Close the window, and have Qt delete it."""
        self.window.close()
        self.window.deleteLater()

    def poll(self) -> None:
        """Do now what the window does at each poll."""
        self.window.poll()

    def choose_language(self, code: str) -> None:
        """Choose a language in the preferences. Another window takes the place of this one."""
        self.window.findChild(QAction, "preferencesAction").trigger()
        self.choose(self.window.findChild(PreferencesDialog).findChild(QComboBox, "languageBox"), code)

    def until_replaced(self, code: str) -> None:
        """Choose a language, and wait for the window that has it."""
        before = self.window
        self.choose_language(code)
        self.until(lambda: self.window is not before, "the other language")

    def _take(self, window: MainWindow) -> None:
        """Drive this window, and later the window that takes its place."""
        window.show_close_notice = self.notices.append
        window.replaced.connect(self._take)
        self._find(window)

    def _find(self, window: QMainWindow) -> None:
        self.window = window
        self.table = self.window.findChild(DeviceView, "deviceTable")
        self.framework = self.window.findChild(QComboBox, "frameworkBox")
        self.strategy = self.window.findChild(QComboBox, "strategyBox")
        self.recipe = self.window.findChild(QComboBox, "recipeBox")
        self.start_button = self.window.findChild(QPushButton, "startButton")
        self.pause_button = self.window.findChild(QPushButton, "pauseButton")
        self.stop_button = self.window.findChild(QPushButton, "stopButton")
        self.state = self.window.findChild(QLabel, "stateLabel")
        self.log = self.window.findChild(QPlainTextEdit, "logView")
        self.runs = self.window.findChild(QListWidget, "runList")
        self.start_status = self.window.findChild(StartStatus)

    def until(self, condition, what: str = "") -> None:
        """Let the window go on until the condition is true. The longer it takes, the less often it is asked.

        With `qtbot.waitUntil`, which asks a hundred times a second, this took three times as much of a core as the
        window alone.
        """
        began, loop = time.monotonic(), QEventLoop()
        while not condition():
            waited = time.monotonic() - began
            if waited > PATIENCE_S:
                texts = self.state.text(), self.start_status.text()
                raise AssertionError(f"waited {waited:.0f} s for {what or 'the condition'}, in vain; {texts}")
            QTimer.singleShot(round(1000 * min(0.01 + waited / 50, MAX_PAUSE_S)), loop.quit)
            loop.exec()

    def resize(self, width: int, height: int) -> None:
        """Resize a window, which may have opened smaller, to at least 1100 pixels; wait until its docks have moved."""
        self.window.resize(width, height)
        devices, _, runs, _ = self.window.dock_layout.docks
        self.until(lambda: self.window.width() == width and runs.x() > devices.x() + devices.width(), "the docks")

    def until_state(self, text: str) -> None:
        self.until(lambda: self.state.text() == text, f"state {text}")

    def until_ready(self) -> None:
        """Wait until the choices can be started."""
        self.until_status("Ready")

    def until_status(self, words: str) -> None:
        """Wait until the check of the choices says this."""
        self.until(lambda: words in self.start_status.text(), f"{words!r} of the choices")

    def open_run(self, row: int = 0, of: int = 1) -> None:
        """Open a run of the list, once so many are in it."""
        self.until(lambda: self.runs.count() == of, "the runs in the list")
        self.runs.itemActivated.emit(self.runs.item(row))

    def plot(self, name: str):
        return next(plot for plot in self.window.panels.plots.plots.values() if plot.objectName() == name)

    def points(self, name: str) -> int:
        """Return the number of points in the plot's longest line."""
        return max((len(x) for x, _ in self.plot(name).curves().values()), default=0)

    @property
    def chosen(self) -> ChosenDevices:
        return self.window.panels.devices.chosen

    @property
    def devices(self) -> Sequence[DeviceRow]:
        """The devices of all machines, also those that are folded away."""
        return self.chosen.rows

    def device(self, device: str) -> DeviceRow:
        """Return a device by its id."""
        return next(row for row in self.devices if row.id == device)

    def tick(self, *devices: str) -> None:
        """Tick these devices and untick all others, one after the other."""
        for row in self.devices:
            if (row.id in devices) is not (row.id in self.chosen.ticked):
                self.chosen.toggle(row.id)

    def set_number(self, name: str, value: int) -> None:
        self.window.findChild(QSpinBox, name).setValue(value)

    def set_text(self, name: str, text: str) -> None:
        self.window.findChild(QLineEdit, name).setText(text)

    def box(self, name: str) -> QComboBox:
        return self.window.findChild(QComboBox, name)

    def choose(self, box: QComboBox, data: str) -> None:
        row = box.findData(data)
        assert row >= 0, f"{data} is not offered"
        box.setCurrentIndex(row)

    def open_recipe(self, path: Path | str) -> None:
        self.window.panels.setup.open_recipe(path)

    def next_form(self) -> SetupPanel:
        """Return another form with what the settings file keeps of this one, as the next window has it."""
        found = SetupPanel(self.window)
        self.qtbot.addWidget(found)
        found.restore(json.loads(json.dumps(self.window.panels.setup.remember())))
        return found

    def spec(self) -> RunSpec | None:
        """Return the spec that Start would start, or None if the choices have a problem."""
        start = self.window.controllers.start
        self.until(lambda: start.current_check is not None, "the check of the choices")
        return start.current_check.spec

    def start(self) -> None:
        self.until(self.start_button.isEnabled, "Start to be enabled")
        self.qtbot.mouseClick(self.start_button, Qt.MouseButton.LeftButton)

    def stop(self) -> None:
        self.until(self.stop_button.isEnabled, "Stop to be enabled")
        self.qtbot.mouseClick(self.stop_button, Qt.MouseButton.LeftButton)

    def question(self) -> ConfirmDialog | None:
        """Return the visible confirmation dialog, or None."""
        found = self.window.findChildren(ConfirmDialog)
        return next((each for each in found if each.isVisible()), None)

    def asked(self) -> ConfirmDialog:
        """Wait for the confirmation dialog."""
        self.until(lambda: self.question() is not None, "a question")
        return self.question()

    def until_polled(self, times: int = 3) -> None:
        """Let the window bring itself up to date so many times."""
        polls: list[bool] = []
        self.window.services.poll_timer.timeout.connect(lambda: polls.append(True))
        self.until(lambda: len(polls) >= times, f"{times} polls")

    def enter_name(self, name: str) -> None:
        """Enter a name, tags or a note in the open dialog, and accept it."""
        dialog = next(each for each in self.window.findChildren(NameDialog) if each.isVisible())
        dialog.edit.setText(name)
        self.qtbot.mouseClick(dialog.yes, Qt.MouseButton.LeftButton)

    def answer(self, name: str) -> None:
        """Click a button of the confirmation dialog: `yesButton` or `noButton`."""
        button = self.asked().findChild(QPushButton, name)
        self.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    def export_dialog(self) -> QFileDialog:
        """Return the open dialog that asks where to export to."""
        return next(each for each in self.window.findChildren(QFileDialog, "exportDialog") if each.isVisible())

    def export_to(self, path: Path) -> None:
        """Choose a file, or a folder, in the open dialog of an export."""
        dialog = self.export_dialog()
        dialog.fileSelected.emit(str(path))
        dialog.reject()

    def exported(self, path: Path) -> str:
        """Export to a file, or a folder, and return the message that follows."""
        self.export_to(path)
        self.until(lambda: str(path) in self.message("messageStrip").replace(f"Writing {path}", ""), "the result")
        return self.message("messageStrip")

    def open_tab(self, tab: str) -> None:
        """Open a tab of the details panel."""
        tabs = self.window.panels.details.tabs
        tabs.setCurrentIndex([tabs.tabText(number) for number in range(tabs.count())].index(tab))

    @property
    def run(self):
        return self.window.services.session.run

    def message(self, name: str = "runStrip") -> str:
        strip = self.window.findChild(MessageStrip, name)
        return strip.text if strip.is_open else ""


def menu_action(menu: QMenu, text: str) -> QAction:
    """Return the entry of a menu with this text."""
    return next(each for each in menu.actions() if each.text() == text)


def choose_in_menu(widget: QWidget, text: str, place: QPoint = NEAR) -> None:
    """Choose an entry of the context menu at a place of a widget."""
    widget.customContextMenuRequested.emit(place)
    menu = next(each for each in widget.window().findChildren(QMenu) if each.isVisible())
    menu_action(menu, text).trigger()
    menu.close()


class PartsDriver(Driver):
    """Some features with panels and services, which it polls as a window does: no menus, keys, state or other features.

    An error in a feature is one of the test.
    """

    def __init__(self, qtbot: QtBot, panels: MainPanels, services: Services, names: Sequence[str]) -> None:
        self.qtbot, self.notices = qtbot, []
        window = services.window
        window.panels, window.services = panels, services
        made = {row.name: row.make(panels, services) for row in FEATURES if row.name in names}
        assert made.keys() == {*names}
        window.controllers, self._features = SimpleNamespace(**made), made.values()
        panels.plots.create_plots()
        self._find(window)
        window.resize(SIZE)
        window.show()
        services.poll_timer.timeout.connect(self.poll)
        services.poll_timer.start()
        services.poll_timer.set_pace(watched=True, live=True)
        services.device_monitor.watch_closely(True)
        self.poll()
        self._call("show")
        self._call("opened")
        if "devices" in names:
            self.until(lambda: len(self.devices) > 0, "devices")

    def poll(self) -> None:
        services = self.window.services
        self._call("prepare")
        if services.device_monitor.poll():
            self._call("take_readings")
        for each in (services.session, services.run_list, services.queue, services.scaling_tables):
            each.poll()
        self._call("poll")

    def close(self) -> None:
        """Do what a window does when it is closed."""
        self.window.services.poll_timer.stop()
        self._call("end")
        for jobs in self.window.findChildren(Jobs):
            jobs.close()
        self.window.services.device_monitor.close()
        self.window.close()

    def _call(self, hook: str) -> None:
        for feature in self._features:
            getattr(feature, hook)()
