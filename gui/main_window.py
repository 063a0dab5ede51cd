"""The window: composes its parts and connects them; what it shows is kept by none of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent
from PySide6.QtGui import QAction, QIcon
from PySide6.QtWidgets import QApplication, QMainWindow, QMenu

from core.runs.states import state_info
from gui.controllers.device_controller import DeviceController
from gui.controllers.dock_layout import SIZE, DockLayout, MainPanels
from gui.controllers.memory_controller import MemoryController
from gui.controllers.removal_controller import RemovalController
from gui.controllers.resume_controller import ResumeController
from gui.controllers.reuse_controller import ReuseController
from gui.controllers.run_controller import RunController
from gui.controllers.run_presenter import RunPresenter
from gui.controllers.start_controller import StartController
from gui.controllers.window_state import WindowState
from gui.services.device_monitor import DeviceMonitor
from gui.services.expression_tester import ExpressionTester
from gui.services.poll_timer import PollTimer
from gui.services.python_finder import PythonFinder
from gui.services.run_list import RunListService
from gui.services.run_session import RunSession
from gui.style.theme import Theme, apply
from gui.viewmodels.run.run_rows import run_rows
from gui.widgets.file_drop import dropped_program, let_fall_through
from gui.widgets.notice_window import NoticeWindow, notice_sentence
from resources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QHideEvent, QShowEvent

    from core.runs.run import Run
    from gui.viewmodels.setup.start_check import StartCheck

TITLE = "Trainyard"


class MainWindow(QMainWindow):
    """A viewer of the runs under a folder. It can be closed, or killed, at any moment and nothing is lost."""

    def __init__(self, runs_root: Path) -> None:
        super().__init__()
        self.setWindowTitle(TITLE)
        self.tell: Callable[[str], None] = self._say_farewell
        """How the window says, once, that runs go on after it is closed."""
        self._monitor = DeviceMonitor()
        self._board = RunListService(runs_root)
        self._session = RunSession()
        self._starter = StartController(self._board, self._monitor)
        self._resumer = ResumeController(self._board, self._monitor)
        self._helm = RunController(self, self._session, self._starter, self._resumer)
        self._finder = PythonFinder()
        # Owned by the window, so that Qt deletes them with it. Python's garbage collector may run inside Qt while that
        # holds a lock which the end of a QObject needs: the two would wait for each other for ever.
        for each in (self._board, self._session, self._starter, self._resumer, self._helm, self._finder):
            each.setParent(self)
        self._pulse = PollTimer(self)
        self._opened = False
        self._make_panes()
        self._trial = ExpressionTester()
        self._insight = MemoryController(self._monitor, self._board, self._session, self._details, self._leftovers)
        self._insight.setParent(self)
        self._insight.set_theme(self._theme)
        self._portrait = RunPresenter(
            self._panes, self._theme, session=self._session, monitor=self._monitor, resumer=self._resumer
        )
        self._roster = DeviceController(
            self._devices,
            self._theme,
            setup=self._setup,
            monitor=self._monitor,
            insight=self._insight,
            starter=self._starter,
        )
        self._roster.setParent(self)
        self._again = ReuseController(
            self,
            board=self._board,
            monitor=self._monitor,
            starter=self._starter,
            helm=self._helm,
            setup=self._setup,
            devices=self._devices.table,
        )
        self._again.setParent(self)
        self._remover = RemovalController(self, self._board, self._session)
        self._remover.setParent(self)
        self._keeper = WindowState(
            runs_root,
            window=self,
            layout=self._layout,
            setup=self._setup,
            devices=self._devices.table,
            stage=self._stage,
        )
        self._keeper.restore()
        self.setAcceptDrops(True)
        let_fall_through(self)
        self.setFocus()  # on the window itself: nothing looks as if it had been chosen
        self._connect()
        self._show_session()
        self._monitor.poll()
        self._roster.show()  # so that the first picture has them
        self._pulse.start()

    # -- its parts -------------------------------------------------------------------------------

    def _make_panes(self) -> None:
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        self._app = app
        self._theme = Theme.current(app)
        self._panes = panes = MainPanels(self._theme)
        self._header, self._message, self._run_message = panes.header, panes.message, panes.run_message
        self._devices, self._setup, self._runs = panes.devices, panes.setup, panes.runs
        self._leftovers, self._details, self._stage = panes.leftovers, panes.details, panes.stage
        self.resize(SIZE)
        self._layout = DockLayout(self, panes.parts, self._theme)
        apply(app, self._theme)  # once all is there: before, every part would be styled anew as it finds its place

    def _connect(self) -> None:
        self._pulse.beat.connect(self._beat)
        self._session.attached.connect(self._show_session)
        self._session.changed.connect(self._show_facts)
        self._board.changed.connect(self._show_board)
        self._roster.others.connect(self._portrait.show_books)
        self._roster.resized.connect(self._layout.spread)
        self._setup.changed.connect(self._starter.ask)
        self._starter.judged.connect(self._show_outlook)
        self._starter.started.connect(self._take_started)
        self._starter.said.connect(self.show_message)
        self._insight.said.connect(self.show_message)
        self._helm.listen(self._header.buttons)
        self._helm.said.connect(self.show_message)
        self._helm.resuming.connect(self._portrait.show_head)
        self._resumer.ended.connect(self._take_resumed)
        self._header.heading_changed.connect(lambda name: self.setWindowTitle(f"{name} – {TITLE}" if name else TITLE))
        self._runs.chosen.connect(self._attach_to)
        for menu in (self._runs.run_menu, self._header.again.run_menu):
            self._again.listen(menu)
            self._remover.listen(menu)
        self._again.listen_to_setups(self._setup.setups)
        self._again.said.connect(self.show_message)
        self._again.done.connect(self._message.show_passing)
        self._remover.said.connect(self.show_message)
        self._remover.done.connect(self._message.show_passing)
        self._setup.looked_near.connect(self._finder.look)
        self._finder.found.connect(self._setup.script.show_pythons)
        self._trial.tested.connect(self._setup.script.show_trial)
        self._run_message.details_asked.connect(self._details.raise_error)
        self._app.styleHints().colorSchemeChanged.connect(self._follow_desktop)

    # -- what is done with it --------------------------------------------------------------------

    def start(self) -> None:
        """Start what is chosen, and look at it."""
        self._helm.start()

    def show_message(self, text: str, tone: str = "bad") -> None:
        """Say something across the window; no text takes it back."""
        self._message.show_message(text, tone)

    def _take_started(self, run: Run) -> None:
        self.show_message("")
        self._session.attach(run)
        self._keeper.keep()

    def _take_resumed(self, problem: str) -> None:
        self.show_message(problem)
        self._session.poll()
        self._board.poll(now=True)
        self._show_facts()

    def _attach_to(self, run_dir: str) -> None:
        found = next((each.dir for each in self._board.summaries if str(each.dir) == run_dir), None)
        if found is None:
            return
        if self._session.run is None or self._session.run.dir != found:
            self.show_message(self._starter.folder_problem)  # what else was said was of the run before
        self._helm.attempt(lambda: self._session.attach_to(found))

    # -- what it shows ---------------------------------------------------------------------------

    def _beat(self) -> None:
        """Bring everything up to date. Nothing here waits."""
        fresh = self._monitor.poll()
        if fresh:
            self._roster.show()
        self._session.poll()
        self._board.poll()
        self._insight.poll(fresh=fresh)
        if not self._opened:
            self._open()
        self._resumer.poll()
        self._starter.poll()
        self._again.poll()
        self._remover.poll()
        self._finder.poll()
        self._trial.poll(self._setup.script.expression, self._session.run.dir if self._session.run else None)
        self._portrait.show_head()
        self._details.log.follow()
        self._stage.redraw()

    def _open(self) -> None:
        """Once, after the first look around: go on where a live run is."""
        self._opened = True
        self.setWindowIcon(QIcon(str(ROOT / "icons" / "trainyard.svg")))
        live = self._board.newest_live()
        if live is not None and self._session.run is None:
            self._helm.attempt(lambda: self._session.attach_to(live))
        self._starter.judge()
        self._insight.open()

    def _show_board(self) -> None:
        self._runs.show_rows(run_rows(self._board.summaries, time.time()))
        self._portrait.mark_run()
        self._roster.show()
        self._starter.ask()

    def _show_session(self) -> None:
        self._portrait.show_run()
        self._show_facts()

    def _show_facts(self) -> None:
        self._watch()
        self._portrait.show_facts()
        if self._session.run is not None and state_info(self._session.facts.state).over:
            self._board.poll(now=True)

    def _show_outlook(self, outlook: StartCheck) -> None:
        self._setup.show_outlook(outlook)
        self._header.buttons.allow_start("\n".join(outlook.problems))

    def _follow_desktop(self) -> None:
        self.set_theme(Theme.current(self._app))

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._theme = theme
        apply(self._app, theme)
        for each in (self._panes, self._layout, self._insight, self._roster, self._portrait):
            each.set_theme(theme)

    # -- its life --------------------------------------------------------------------------------

    def createPopupMenu(self) -> QMenu:  # noqa: N802 (Qt's name)
        """The menu on the headings of the docks."""
        menu = QMenu(self)
        reset = QAction("Reset the layout", menu)
        reset.triggered.connect(self._layout.reset)
        menu.addAction(reset)
        return menu

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """Take Python files, and folders of programs."""
        if dropped_program(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 (Qt's name)
        """Choose what was dropped."""
        path = dropped_program(event)
        if path is not None:
            self._setup.open_file(path)
            event.acceptProposedAction()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Look more closely while somebody looks."""
        super().showEvent(event)
        self._watch()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 (Qt's name)
        """Nobody looks any more."""
        super().hideEvent(event)
        self._watch()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Minimised or back; or come back to from an editor, where a recipe may have been changed."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self._watch()
        elif event.type() == QEvent.Type.ActivationChange and self.isActiveWindow() and self._opened:
            self._setup.reread()
            self._starter.ask_anew()

    def _watch(self) -> None:
        watched = self.isVisible() and not self.isMinimized()
        self._pulse.set_pace(watched=watched, live=self._session.live)
        self._monitor.watch_closely(watched)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 (Qt's name)
        """Close at once; runs go on, which is said the first time."""
        self._pulse.stop()
        self._starter.stop()
        self._finder.close()
        self._keeper.keep()
        self._tell_once()
        self._monitor.close()
        super().closeEvent(event)

    def _tell_once(self) -> None:
        live = [each for each in self._board.summaries if not state_info(each.state).over]
        if live and self._keeper.first_time("told"):
            self.tell(notice_sentence([each.name for each in live], [each.dir.name for each in live]))

    def _say_farewell(self, sentence: str) -> None:
        self._farewell = NoticeWindow(sentence)
        self._farewell.show()
