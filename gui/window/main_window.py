"""The main window: puts panels, services and features together, keeps its state, passes on what happens to it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QHideEvent,
    QIcon,
    QKeyEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialogButtonBox,
    QGraphicsView,
    QLineEdit,
    QMainWindow,
    QMenu,
    QWidget,
)

from core import arrays, language
from core.language import tr, tr_noop
from core.runs.facts import state_info
from gui.base.jobs import Jobs
from gui.base.preferences import PreferencesFile, choose_language
from gui.base.settings_file import SettingsFile, folder_key
from gui.base.text_size import set_zoom, zoom
from gui.base.theme import Theme, apply, follow_desktop, set_palette
from gui.base.timers import collect_all
from gui.machine.machine import Machine
from gui.machine.script import is_program
from gui.widgets.context_menu import add_action
from gui.widgets.dialogs import FRAME, MARGINS_PX, FileDialog
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import PlainLabel
from gui.window.features import Features, Services
from gui.window.layout import SIZE, DockLayout
from gui.window.menus import CardNavigation, MenuController, next_stop
from gui.window.panels import MainPanels
from resources import ROOT

if TYPE_CHECKING:
    from gui.machine.monitor import DeviceMonitor


log = logging.getLogger(__name__)

TITLE = "Trainyard"
RETRY_MS = 100
"""Milliseconds until another try to change the language, while something must not be interrupted."""


class MainWindow(QMainWindow):
    """A viewer of the runs under a folder. It can be closed, or killed, at any moment and nothing is lost."""

    completed = Signal()
    """All parts of the window exist, the plots too: after the first frame."""

    replaced = Signal(object)
    """Another window (`MainWindow`), in another language, has taken the place of this one."""

    def __init__(self, machine: Machine, monitor: DeviceMonitor | None = None) -> None:
        """`machine`: the one whose runs are shown. `monitor`: that of a window whose place this one takes."""
        super().__init__()
        self._machine = machine
        self.setWindowTitle(self._title(""))
        self.resize(SIZE)
        self.show_close_notice: Callable[[str], None] = self.show_notice
        """Called once with a sentence that runs continue after the window is closed."""
        self.notice: NoticeWindow | None = None
        self.opened = False
        """Whether the first poll is over."""
        self._has_ended = False
        """Whether the window was closed, or another one has taken its place."""
        self.successor: MainWindow | None = None
        """The window that has taken the place of this one: Python would delete a window that only Qt knows."""
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        self._app = app
        preferences = PreferencesFile(SettingsFile())
        self._language = preferences.preferences.language
        """The preferred language when the window was made, which it speaks."""
        problem = choose_language(app, self._language)
        preferences.problem = " ".join(text for text in (preferences.problem, problem) if text)
        self._preferences = preferences
        if not app.styleSheet():
            set_palette(app, self._theme)
        self.setAcceptDrops(True)
        self.panels = MainPanels(self)
        self.services = Services(machine, self, preferences, monitor)
        self.dock_layout = DockLayout(self, self.panels)
        self._state = WindowState(self, self.panels, self.dock_layout, machine.root)
        self.features = Features(self.panels, self.services)
        self.controllers = self.features.named
        """The features by name, for tests and pictures."""
        MenuController(self, self.panels, self.services, self.dock_layout)
        self._navigation = CardNavigation(self, self.panels, self.dock_layout)
        self._state.restore_text_size()
        apply(app, self._theme)  # after the widgets are in place: Qt would re-style each that is added later
        self._state.restore()
        pass_drops_to_window(self)
        self.setFocus()  # on the window itself, so that no widget looks selected
        self._connect()
        self.services.device_monitor.look()  # so that the first frame has the devices
        self.features.call("show")
        self.services.poll_timer.start(arrays.load, self.panels.plots.load)

    def _connect(self) -> None:
        """Follow the application, the services and the panels."""
        # Methods, since Qt forgets them when it deletes the window; it would go on calling functions.
        self._app.fontChanged.connect(self._apply_theme)
        self._app.screenRemoved.connect(self._follow_screens)
        follow_desktop(self._app, self._apply_theme)
        services, header = self.services, self.panels.header
        services.poll_timer.timeout.connect(self.poll)
        services.session.changed.connect(self._set_pace)
        services.session.attached.connect(self._set_pace)
        services.session.started.connect(lambda _: self._state.save())
        services.language.changed.connect(lambda _: QTimer.singleShot(0, self, self.change_language))
        header.heading_changed.connect(lambda name: self.setWindowTitle(self._title(name)))
        header.run_ended.connect(lambda: self._app.alert(self))  # without effect on the window in use

    def poll(self) -> None:
        """Bring everything up to date: read, then let the features show what was read. Nothing here blocks."""
        features, services = self.features, self.services
        features.call("prepare")
        if features.attempt(tr_noop("Devices"), services.device_monitor.poll):
            features.call("take_readings")
        features.attempt(tr_noop("Run"), services.session.poll)
        features.attempt(tr_noop("Runs"), services.run_list.poll)
        features.attempt(tr_noop("Queue"), services.queue.poll)
        features.attempt(tr_noop("Scaling tables"), services.scaling_tables.poll)
        if not self.opened:
            self._open()
        features.call("poll")

    def _title(self, name: str) -> str:
        """Return the title of the window. `name`: that of the shown run, or the empty string."""
        return " – ".join(part for part in (name, self._machine.host, TITLE) if part)

    def create_plots(self) -> None:
        """Create the plots, unless there are some."""
        if not self.panels.plots.plots:
            self.panels.plots.create_plots()
            self._state.restore_plots()
            self.features.call("show")

    def _open(self) -> None:
        """Do what the first frame does not need."""
        self.opened = True
        self.create_plots()
        self.completed.emit()
        self.setWindowIcon(QIcon(str(ROOT / "icons" / "trainyard.svg")))
        self.features.call("opened")
        self._navigation.order_tabs()

    def change_language(self) -> None:
        """Put a window in the preferred language, which shows the same, in the place of this one.

        Wait while something is under way, or asked, that must not be interrupted. Runs are not concerned. If the other
        window cannot be made, this one stays, and says why.
        """
        if self._has_ended or self.services.language.value == self._language:
            return
        guarded = any(jobs.guards and jobs.busy for jobs in self.findChildren(Jobs))
        asked = self._app.activeModalWidget() is not None
        if guarded or asked or self.features.busy or not self.opened:
            QTimer.singleShot(RETRY_MS, self, self.change_language)
            return
        self._state.save()
        self.features.call("save")
        window: MainWindow | None = None
        try:
            window = MainWindow(self._machine, self.services.device_monitor)
            window.create_plots()
            window.features.check_beside(self.features)
        except Exception as error:  # such as a translation with a field that its sentence does not have
            log.exception("The window cannot be made in another language")
            if window is not None:
                window._end()
                window.deleteLater()
            self._keep_language(error)
            return
        self.successor = window
        self.replaced.emit(window)
        if self.isVisible():
            window.setWindowState(self.windowState())
            if not self.windowState():
                window.setGeometry(self.geometry())  # also one that does not fit on one screen
            window.show()
        try:
            window._open()  # shows no run, since the list of runs is not read yet
            window.features.carry(self.features)  # an error in it is shown in that window
        finally:
            self._end()
            self.hide()
            self.deleteLater()
            QTimer.singleShot(0, window, collect_all)  # PySide would take what comes to its addresses for its objects

    def _keep_language(self, error: Exception) -> None:
        """Go on in the language of this window, since there is none in the preferred language."""
        code = language.current()
        choose_language(self._app, self._language)
        self.services.language.set(self._language)
        sentence = tr("The window cannot be shown in the language {code}, and keeps its own.", code=code)
        self.features.show_error(error, sentence)

    @property
    def _theme(self) -> Theme:
        """The theme that the user prefers."""
        preferences = self._preferences.preferences
        return Theme.chosen(preferences.theme, preferences.colours, self._app)

    def _apply_theme(self) -> None:
        """Follow the desktop, which is dark or light now, or has another font."""
        apply(self._app, self._theme)

    def _follow_screens(self) -> None:
        """Come back from a screen that has gone, once Qt has placed the window."""
        QTimer.singleShot(0, self, self._state.bring_back)

    def _set_pace(self) -> None:
        """Poll faster while the window can be seen, and while it shows a live run."""
        if self._has_ended:
            return  # the monitor may be that of another window
        visible = self.isVisible() and not self.isMinimized()
        self.services.poll_timer.set_pace(watched=visible, live=self.services.session.live)
        self.services.device_monitor.watch_closely(visible)

    def show_notice(self, sentence: str) -> None:
        """Show a sentence in a small window of its own."""
        self.notice = NoticeWindow(sentence)
        self.notice.adjustSize()
        self.notice.move(self.frameGeometry().center() - self.notice.rect().center())
        self.notice.show()

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802 (Qt's signature)
        """Move the focus with Tab or Shift+Tab."""
        stop = next_stop(self, forward=forward)
        if stop is not None:
            stop.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
        return stop is not None

    # -- events ----------------------------------------------------------------------------------

    def createPopupMenu(self) -> QMenu:  # noqa: N802 (Qt's name)
        """Return the menu of the headings of the docks."""
        menu = QMenu(self)
        add_action(menu, tr("Reset the layout"), self.dock_layout.reset)
        return menu

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """End the comparison, or show this machine, when Escape is pressed; in a field, leave the field."""
        if event.key() != Qt.Key.Key_Escape or event.modifiers():
            super().keyPressEvent(event)
        elif isinstance(self.focusWidget(), QLineEdit | QAbstractSpinBox | QComboBox):
            self.setFocus()
        else:
            self.features.leave()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """Accept Python files, and folders that run as programs."""
        if dropped_program(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 (Qt's name)
        """Choose the file or folder that was dropped."""
        path = dropped_program(event)
        if path is not None and not self._machine.is_here:
            sentence = tr("{host} trains with its own files. Type the path that the script has there.",
                          host=self._machine.host)
            self.panels.message.show_message(sentence, "warn")
        elif path is not None:
            self.panels.setup.open_file(path)
            event.acceptProposedAction()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Poll faster."""
        super().showEvent(event)
        self._set_pace()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 (Qt's name)
        """Poll more slowly."""
        super().hideEvent(event)
        self._set_pace()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow being minimised; read files again when the user comes back, perhaps from an editor."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self._set_pace()
        elif event.type() == QEvent.Type.ActivationChange and self.isActiveWindow() and self.opened:
            self.features.call("reread")

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 (Qt's name)
        """Close at once. Runs continue; the first time, say so."""
        if self.successor is not None:  # it was made in this moment, and has the machine and the devices
            self.successor.close()
            super().closeEvent(event)
            return
        self.services.device_monitor.hosts.ask(asking=False)  # waited for below
        self._end()
        self._state.save()
        live = [each for each in self.services.run_list.summaries if state_info(each.state).live]
        if live and self._machine.is_here and SettingsFile().first_time("window/told"):
            self.show_close_notice(notice_sentence([each.name for each in live], [each.dir.name for each in live]))
        self.services.device_monitor.close()
        self._machine.close(wait=False)
        super().closeEvent(event)

    def _end(self) -> None:
        """Begin nothing any more."""
        self._has_ended = True
        self.services.poll_timer.stop()
        self.features.call("end")
        for jobs in self.findChildren(Jobs):
            jobs.close()


class WindowState:
    """Choices are saved for each folder of runs, the layout for all of them."""

    def __init__(self, window: QMainWindow, panels: MainPanels, layout: DockLayout, runs_root: Path) -> None:
        self._file = SettingsFile()
        self._choices = f"{folder_key(runs_root)}/choices"
        self._window, self._layout = window, layout
        self._setup, self._devices, self._plots = panels.setup, panels.devices.chosen, panels.plots
        self._details, self._panels = panels.details, panels

    def restore_text_size(self) -> None:
        """Restore the size of the text, before the style sheet is applied; ignore what is no number."""
        with contextlib.suppress(ValueError):
            set_zoom(float(self._file.value("window/text_zoom", str)))

    def restore(self) -> None:
        """Restore everything; leave out what does not exist any more or makes no sense."""
        choices = self._file.value(self._choices, dict)
        self._setup.restore(choices)
        ticked = choices.get("devices")
        self._devices.tick([str(each) for each in ticked] if isinstance(ticked, list) else [])
        folded = self._file.value("window/hosts", dict).get("folded")
        self._devices.fold(
            [str(each) for each in folded] if isinstance(folded, list) else [],
            unfolded_cpus=[""] if self._file.value("window/cpus_unfolded", bool) else [],
        )
        FileDialog.last_folder = self._file.value("window/last_folder", str)
        self._details.restore(self._file.value("window/tabs", dict))
        self._panels.comparison_choices = self._file.value("window/comparison", dict)
        self._window.restoreGeometry(self._file.data("window/geometry"))
        self._fit_screen()
        self._layout.restore(self._file.data("window/layout"))

    def _fit_screen(self) -> None:
        """Make the window small enough for its screen, which may be another one than that on which it was saved."""
        if not self._window.isMaximized() and not self._window.isFullScreen():
            room = self._window.screen().availableSize() - FRAME
            self._window.resize(self._window.size().boundedTo(room))

    def bring_back(self) -> None:
        """Move the window onto one screen if less than half of it is on any: that on which it was has gone."""
        window, frame = self._window, self._window.frameGeometry()
        seen = {each: each.availableGeometry().intersected(frame) for each in QGuiApplication.screens()}
        screen = max(seen, key=lambda each: seen[each].width() * seen[each].height(), default=None)
        if screen is None or window.isMaximized() or window.isFullScreen():
            return
        if 2 * seen[screen].width() * seen[screen].height() < frame.width() * frame.height():
            room = screen.availableGeometry()
            window.resize(window.size().boundedTo(room.size() - FRAME))
            window.move(room.topLeft())

    def restore_plots(self) -> None:
        """Restore how the plots are drawn, after they are created."""
        self._plots.restore(self._file.value("window/plots", dict))
        self._plots.restoreState(self._file.data("window/plot_heights"))

    def save(self) -> None:
        """Save everything."""
        values = {
            self._choices: {**self._setup.remember(), "devices": list(self._devices.wanted)},
            "window/cpus_unfolded": "" in self._devices.unfolded_cpus,
            "window/last_folder": FileDialog.last_folder,
            "window/tabs": self._details.remember(),
            "window/comparison": dict(self._panels.comparison_choices),
            "window/text_zoom": str(zoom()),
            "window/geometry": self._window.saveGeometry(),
            "window/layout": self._layout.save(),
        }
        if self._devices.folded_hosts or self._file.value("window/hosts", dict):
            values["window/hosts"] = {"folded": sorted(self._devices.folded_hosts)}
        if self._plots.plots:
            values |= {"window/plots": self._plots.remember(), "window/plot_heights": self._plots.saveState()}
        self._file.save(values)


def dropped_program(event: QDropEvent) -> Path | None:
    """Return the dragged Python file or program folder; None for anything else."""
    urls = event.mimeData().urls()
    path = Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
    return path if path is not None and is_program(path) else None


def pass_drops_to_window(window: QWidget) -> None:
    """Stop plots from accepting drops, which they would ignore, so that the window gets them."""
    for view in window.findChildren(QGraphicsView):
        view.setAcceptDrops(False)
        view.viewport().setAcceptDrops(False)


class NoticeWindow(QWidget):
    """A separate window: the main window closes at once, the program exits when this one is closed."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.setObjectName("farewell")
        self.setWindowTitle("Trainyard")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._text = PlainLabel(sentence, wraps=True)
        self._text.setMinimumWidth(380)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok)
        buttons.accepted.connect(self.close)
        vbox(self, self._text, buttons, gap=14, margins=MARGINS_PX)
        self.setAutoFillBackground(True)


def notice_sentence(names: list[str], run_ids: list[str]) -> str:
    """Return the sentence about the runs that continue."""
    if len(names) == 1:
        return tr(
            "{name} continues in the background. Open Trainyard again to see it, or end it with: trainyard stop {run}",
            name=names[0],
            run=run_ids[0],
        )
    return tr(
        "{count} runs continue in the background. Open Trainyard again to see them, or end one with: "
        "trainyard stop RUN",
        count=len(names),
    )
