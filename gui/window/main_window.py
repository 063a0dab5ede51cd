"""The main window: makes its panels, services and controllers, and connects them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent, QHideEvent, QIcon, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QLineEdit, QMainWindow, QMenu

from core import arrays, language
from core.language import join_sentences, tr
from core.runs.facts import state_info
from core.runs.run import Run
from core.system.own_processes import logout_warning
from gui.base.jobs import Jobs
from gui.base.settings_file import SettingsFile
from gui.base.text_size import next_zoom, set_zoom, zoom
from gui.base.theme import Theme, apply, current_theme, follow_desktop, look, set_palette
from gui.base.timers import collect_all
from gui.base.window_language import choose_language
from gui.features.compare.controller import ComparisonController
from gui.features.compare.scaling import ScalingController
from gui.features.devices.controller import DeviceController
from gui.features.devices.hosts import HostListController
from gui.features.help.controller import HelpController
from gui.features.log.teach import TeachController
from gui.features.memory.controller import MemoryController
from gui.features.preferences.preferences import PreferencesController, PreferencesFile
from gui.features.run.controller import RunController
from gui.features.run.outputs import OutputController
from gui.features.runlist.bell import MissedController
from gui.features.runlist.export import ExportController
from gui.features.runlist.history import HistoryController
from gui.features.runlist.queue import QueueController
from gui.features.runlist.removal import RemovalController
from gui.features.setup.first_steps import FirstStepsController
from gui.features.setup.reuse import RecipeCopyController, ReuseController
from gui.features.setup.start import StartController
from gui.machine.machine import Machine
from gui.window.layout import SIZE, DockLayout, MainPanels
from gui.window.menus import MenuController
from gui.window.navigation import CardNavigation, next_stop
from gui.window.notices import NoticeWindow, dropped_program, notice_sentence, pass_drops_to_window
from gui.window.services import Services
from gui.window.state import WindowState
from resources import ROOT

if TYPE_CHECKING:
    from gui.features.other_machine import HostController
    from gui.machine.monitor import DeviceMonitor


log = logging.getLogger(__name__)

TITLE = "Trainyard"
RETRY_MS = 100
"""Milliseconds until another try to change the language, while something must not be interrupted."""


class Controllers:
    """The controllers of one window, made once: each serves one use case with the panels and the services."""

    def __init__(
        self, window: QMainWindow, panels: MainPanels, services: Services, preferences: PreferencesFile
    ) -> None:
        self.layout = DockLayout(window, panels)
        self.state = WindowState(window, panels, self.layout, services.run_list.root)
        self.start = StartController(panels, services)
        self.help = HelpController(panels, services)
        self.export = ExportController(panels, services)
        self.scaling = ScalingController(panels, services)
        self.run = RunController(panels, services)
        self.reuse = ReuseController(panels, services, self.start)
        self.first_steps = FirstStepsController(panels, self.start)
        self.history = HistoryController(panels, services)
        self.missed = MissedController(window, panels, services)
        self.queue = QueueController(panels, services)
        self.removal = RemovalController(panels, services)
        self.teach = TeachController(panels, services)
        self.memory = MemoryController(panels, services)
        self.devices = DeviceController(panels, services)
        self.host_list = HostListController(panels, services)
        self.menu = MenuController(window, panels, services, self.layout)
        self.recipe_copy = RecipeCopyController(panels)
        self.preferences = PreferencesController(panels, preferences)
        self.comparison = ComparisonController(panels, services)
        self.outputs = OutputController(panels, services)
        self.host = _host_controller(panels, services)
        self.navigation = CardNavigation(window, panels, self.layout)
        for each in vars(self).values():
            if isinstance(each, QObject):
                each.setParent(window)  # Qt deletes them with the window: see `Services`


def _host_controller(panels: MainPanels, services: Services) -> HostController | None:
    """Return what shows the connection to a host; None for a window on this machine, which loads nothing of it."""
    if services.machine.is_here:
        return None
    from gui.features.other_machine import HostController

    return HostController(panels, services)


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
        self._preferences = PreferencesFile(SettingsFile())
        self._language = self._preferences.preferences.language
        """The preferred language when the window was made, which it speaks."""
        self._language_problem = choose_language(app, self._language)
        if not app.styleSheet():
            set_palette(app, self._theme)
        self.setAcceptDrops(True)
        self.panels = MainPanels(self)
        self.services = Services(machine, self, monitor)
        self.controllers = Controllers(self, self.panels, self.services, self._preferences)
        self.controllers.state.restore_text_size()
        apply(app, self._theme)  # after the widgets are in place: Qt would re-style each that is added later
        self.controllers.state.restore()
        pass_drops_to_window(self)
        self._connect()
        self.setFocus()  # on the window itself, so that no widget looks selected
        # Methods, since Qt forgets them when it deletes the window; it would go on calling functions.
        app.fontChanged.connect(self._follow_font)
        app.screenRemoved.connect(self._follow_screens)
        follow_desktop(app, self._apply_theme)
        look.changed.connect(self._show_colours)
        self.controllers.run.show_run()
        self.services.device_monitor.look()
        self.controllers.devices.show()  # so that the first frame has the devices
        self.services.poll_timer.start(arrays.load, self.panels.plots.load)

    def _connect(self) -> None:
        panels, services, controllers = self.panels, self.services, self.controllers
        services.poll_timer.timeout.connect(self.poll)
        services.session.changed.connect(self._set_pace)
        services.session.attached.connect(self._set_pace)
        services.python_finder.found.connect(panels.setup.script.show_pythons)
        services.expression_tester.tested.connect(panels.setup.script.show_trial)
        panels.setup.search_folder_changed.connect(services.python_finder.search)
        panels.header.heading_changed.connect(lambda name: self.setWindowTitle(self._title(name)))
        panels.header.run_ended.connect(lambda: self._app.alert(self))  # without effect on the window in use
        controllers.devices.devices_changed.connect(controllers.run.show_curves)
        controllers.devices.resized.connect(controllers.layout.spread)
        controllers.start.started.connect(controllers.state.save)
        if controllers.host is not None:
            controllers.host.connected.connect(controllers.start.reread)
            controllers.host.newest_wanted.connect(controllers.run.attach_to_newest)
        else:
            controllers.start.began.connect(self._warn_of_logout)
        panels.menu.action("addToQueue").triggered.connect(lambda _: controllers.start.add_to_queue())
        controllers.comparison.toggled.connect(controllers.run.show_facts)
        controllers.comparison.toggled.connect(lambda: QTimer.singleShot(0, self, controllers.navigation.order_tabs))
        for name, change in (
            ("larger", lambda: next_zoom(1)), ("smaller", lambda: next_zoom(-1)), ("normalSize", lambda: 1.0),
        ):  # fmt: skip
            panels.menu.action(name).triggered.connect(lambda _, change=change: self.set_text_zoom(change()))
        controllers.preferences.language_changed.connect(lambda: QTimer.singleShot(0, self, self.change_language))
        controllers.preferences.zoom_chosen.connect(self.set_text_zoom)
        controllers.preferences.look_changed.connect(self._apply_theme)

    def poll(self) -> None:
        """Bring everything up to date. Nothing here blocks.

        What is read comes before what shows it: first the connections and the devices, then the shown run and the
        list of runs, which all others look at, and at last the head, the log and the plots.
        """
        services, controllers = self.services, self.controllers
        controllers.missed.poll()
        if controllers.host is not None:
            controllers.host.poll()
        fresh = services.device_monitor.poll()
        if fresh:
            controllers.devices.show()
            controllers.start.take_readings()
            controllers.host_list.poll()
        services.session.poll()
        services.run_list.poll()
        controllers.memory.poll(fresh=fresh)
        if not self.opened:
            self._open()
        services.queue.poll()
        services.scaling_tables.poll()
        services.output_reader.poll()
        services.python_finder.poll()
        run = services.session.run
        services.expression_tester.poll(self.panels.setup.script.expression, run.dir if run else None)
        controllers.run.show_head()
        self.panels.details.log.follow()
        self.panels.plots.redraw_in_turns()

    def _title(self, name: str) -> str:
        """Return the title of the window. `name`: that of the shown run, or the empty string."""
        return " – ".join(part for part in (name, self._machine.host, TITLE) if part)

    def create_plots(self) -> None:
        """Create the plots, unless there are some."""
        if not self.panels.plots.plots:
            self.panels.plots.create_plots()
            self.controllers.state.restore_plots()
            self.controllers.run.show_run()

    def _open(self) -> None:
        """Do what the first frame does not need."""
        self.opened = True
        self.create_plots()
        self.completed.emit()
        self.setWindowIcon(QIcon(str(ROOT / "icons" / "trainyard.svg")))
        self.controllers.run.attach_to_newest()
        self.controllers.start.reread()
        self.controllers.memory.open()
        self.controllers.navigation.order_tabs()
        self.controllers.preferences.report_problem(self._language_problem)

    def change_language(self) -> None:
        """Put a window in the preferred language, which shows the same, in the place of this one.

        Wait while something is under way, or asked, that must not be interrupted. Runs are not concerned. If the other
        window cannot be made, this one stays, and says why.
        """
        if self._has_ended or self._preferences.preferences.language == self._language:
            return
        guarded = any(jobs.guards and jobs.busy for jobs in self.findChildren(Jobs))
        asked = self._app.activeModalWidget() is not None or self.controllers.host_list.is_open
        if guarded or asked or self.controllers.start.busy or not self.opened:
            QTimer.singleShot(RETRY_MS, self, self.change_language)
            return
        self.controllers.state.save()
        self.services.missed_runs.save()
        window: MainWindow | None = None
        try:
            window = MainWindow(self._machine, self.services.device_monitor)
            window.create_plots()
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
            window._show_same(self)  # an error in it is shown in that window
        finally:
            self._end()
            self.hide()
            self.deleteLater()
            QTimer.singleShot(0, window, collect_all)  # PySide would take what comes to its addresses for its objects

    def _keep_language(self, error: Exception) -> None:
        """Go on in the language of this window, since there is none in the preferred language."""
        code = language.current()
        choose_language(self._app, self._language)
        self.controllers.preferences.choose("language", self._language)
        self.controllers.help.show_error(
            error, tr("The window cannot be shown in the language {code}, and keeps its own.", code=code)
        )

    def _show_same(self, former: MainWindow) -> None:
        """Show what another window shows. The choices and the layout come from the settings file."""
        controllers, panels, shown = self.controllers, self.panels, former.panels
        self._open()  # attaches to no run, since the list of runs is not read yet
        if controllers.host is not None and former.controllers.host is not None:
            controllers.host.wants_newest = former.controllers.host.wants_newest
        self.services.run_list.poll(now=True)
        session, run = self.services.session, former.services.session.run
        if run is not None and run.dir.is_dir():
            session.attach(Run(run.dir))
            session.take_requests(former.services.session)
        panels.run_filter.setText(shown.run_filter.text())
        if shown.runs.has_several:
            panels.runs.tick(shown.runs.ticked)
        if former.controllers.comparison.is_open:
            controllers.comparison.compare(former.controllers.comparison.compared)
        tab = shown.details.currentIndex()
        if panels.details.tabs.isTabVisible(tab):
            panels.details.tabs.setCurrentIndex(tab)
        if shown.setup.sheet.isVisible():
            panels.setup.sheet.toggle()
        if former.controllers.preferences.is_open:
            controllers.preferences.show_dialog()
        self.services.device_monitor.hosts.retry()  # for reasons in the new language

    @property
    def _theme(self) -> Theme:
        """The theme that the user prefers."""
        preferences = self._preferences.preferences
        return Theme.chosen(preferences.theme, preferences.colours, self._app)

    def _apply_theme(self) -> None:
        apply(self._app, self._theme)

    def _show_colours(self) -> None:
        """Show devices and runs in the colours of the theme."""
        self.controllers.comparison.show_colours()
        self.controllers.memory.outdate()
        self.controllers.devices.show()
        self.controllers.run.show_curves()

    def set_text_zoom(self, zoom: float) -> None:
        """Enlarge or reduce all text; 1 is the size of the desktop's font."""
        set_zoom(zoom)
        apply(self._app, current_theme())
        self.controllers.layout.spread()

    def _follow_font(self) -> None:
        """Show all text at the size of the desktop's font, which has changed."""
        self.set_text_zoom(zoom())

    def _follow_screens(self) -> None:
        """Come back from a screen that has gone, once Qt has placed the window."""
        QTimer.singleShot(0, self, self.controllers.state.bring_back)

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
        self.notice.show()

    def _warn_of_logout(self) -> None:
        """Say that a log-out may end runs, the first time that one is started."""
        sentence = logout_warning()
        if sentence and self.controllers.state.first_time("warned_of_logout"):
            message = self.panels.message
            message.show_message(join_sentences([message.text, sentence]), "warn")

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
        reset = QAction(tr("Reset the layout"), menu)
        reset.triggered.connect(self.controllers.layout.reset)
        menu.addAction(reset)
        return menu

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """End the comparison, or show this machine, when Escape is pressed; in a field, leave the field."""
        if event.key() != Qt.Key.Key_Escape or event.modifiers():
            super().keyPressEvent(event)
        elif isinstance(self.focusWidget(), QLineEdit | QAbstractSpinBox | QComboBox):
            self.setFocus()
        elif not self.controllers.comparison.close():
            self.controllers.run.show_machine()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """Accept Python files, and folders that run as programs."""
        if dropped_program(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 (Qt's name)
        """Choose the file or folder that was dropped."""
        path = dropped_program(event)
        if path is not None and not self._machine.is_here:
            sentence = tr("{host} trains with its own files. Type the path that the script has there.",
                          host=self._machine.host)  # fmt: skip
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
            self.controllers.start.reread()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 (Qt's name)
        """Close at once. Runs continue; the first time, say so."""
        if self.successor is not None:  # it was made in this moment, and has the machine and the devices
            self.successor.close()
            super().closeEvent(event)
            return
        self.services.device_monitor.hosts.ask(asking=False)  # waited for below
        self._end()
        self.controllers.state.save()
        live = [each for each in self.services.run_list.summaries if state_info(each.state).live]
        if live and self._machine.is_here and self.controllers.state.first_time("told"):
            self.show_close_notice(notice_sentence([each.name for each in live], [each.dir.name for each in live]))
        self.services.device_monitor.close()
        self._machine.close(wait=False)
        super().closeEvent(event)

    def _end(self) -> None:
        """Begin nothing any more."""
        self._has_ended = True
        self.controllers.start.close()
        self.controllers.comparison.close()
        self.services.close()
        for jobs in self.findChildren(Jobs):
            jobs.close()
