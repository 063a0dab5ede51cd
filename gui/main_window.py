"""The window: composes its parts and connects them; what it shows is kept by none of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent
from PySide6.QtGui import QAction, QIcon
from PySide6.QtWidgets import QApplication, QMainWindow, QMenu

from core.runs.states import state_info
from gui.controllers.controllers import Controllers
from gui.controllers.dock_layout import SIZE, MainPanels
from gui.controllers.window_state import WindowState
from gui.services.services import Services
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
        self.resize(SIZE)
        self.tell: Callable[[str], None] = self.show_notice
        """How the window says, once, that runs go on after it is closed."""
        self.notice: NoticeWindow | None = None
        self.opened = False
        """Whether the first look around has been."""
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        self._app = app
        self.theme = Theme.current(app)
        self.services = Services(runs_root, self)
        self.panels = MainPanels(self.theme)
        self.controllers = Controllers(self, self.panels, self.services, self.theme)
        apply(app, self.theme)  # once all is there: before, every part would be styled anew as it finds its place
        self._keeper = WindowState(
            runs_root,
            window=self,
            layout=self.controllers.layout,
            setup=self.panels.setup,
            devices=self.panels.devices.table,
            stage=self.panels.plots,
        )
        self._keeper.restore()
        self.setAcceptDrops(True)
        let_fall_through(self)
        self.setFocus()  # on the window itself: nothing looks as if it had been chosen
        self._connect()
        self._show_session()
        self.services.device_monitor.poll()
        self.controllers.devices.show()  # so that the first picture has them
        self.services.poll_timer.start()

    def _connect(self) -> None:
        panels, services, controllers = self.panels, self.services, self.controllers
        services.poll_timer.timeout.connect(self.poll)
        services.session.attached.connect(self._show_session)
        services.session.changed.connect(self._show_facts)
        services.run_list.changed.connect(self._show_board)
        controllers.devices.others.connect(controllers.presenter.show_books)
        controllers.devices.resized.connect(controllers.layout.spread)
        panels.setup.changed.connect(controllers.start.ask)
        controllers.start.judged.connect(self._show_outlook)
        controllers.start.started.connect(self._take_started)
        controllers.start.said.connect(self.show_message)
        controllers.memory.said.connect(self.show_message)
        controllers.run.listen(panels.header.buttons)
        controllers.run.said.connect(self.show_message)
        controllers.run.resuming.connect(controllers.presenter.show_head)
        controllers.resume.ended.connect(self._take_resumed)
        panels.header.heading_changed.connect(lambda name: self.setWindowTitle(f"{name} – {TITLE}" if name else TITLE))
        panels.runs.chosen.connect(controllers.run.attach_to)
        for menu in (panels.runs.run_menu, panels.header.again.run_menu):
            controllers.reuse.listen(menu)
            controllers.removal.listen(menu)
        controllers.reuse.listen_to_setups(panels.setup.setups)
        controllers.reuse.said.connect(self.show_message)
        controllers.reuse.done.connect(panels.message.show_passing)
        controllers.removal.said.connect(self.show_message)
        controllers.removal.done.connect(panels.message.show_passing)
        panels.setup.looked_near.connect(services.python_finder.look)
        services.python_finder.found.connect(panels.setup.script.show_pythons)
        services.expression_tester.tested.connect(panels.setup.script.show_trial)
        panels.run_message.details_asked.connect(panels.details.raise_error)
        self._app.styleHints().colorSchemeChanged.connect(self._follow_desktop)

    # -- what is done with it --------------------------------------------------------------------

    def start(self) -> None:
        """Start what is chosen, and look at it."""
        self.controllers.run.start()

    def show_message(self, text: str, tone: str = "bad") -> None:
        """Say something across the window; no text takes it back."""
        self.panels.message.show_message(text, tone)

    def _take_started(self, run: Run) -> None:
        self.show_message("")
        self.services.session.attach(run)
        self._keeper.keep()

    def _take_resumed(self, problem: str) -> None:
        self.show_message(problem)
        self.services.session.poll()
        self.services.run_list.poll(now=True)
        self._show_facts()

    # -- what it shows ---------------------------------------------------------------------------

    def poll(self) -> None:
        """Bring everything up to date. Nothing here waits."""
        fresh = self.services.device_monitor.poll()
        if fresh:
            self.controllers.devices.show()
        self.services.session.poll()
        self.services.run_list.poll()
        self.controllers.memory.poll(fresh=fresh)
        if not self.opened:
            self._open()
        self.controllers.resume.poll()
        self.controllers.start.poll()
        self.controllers.reuse.poll()
        self.controllers.removal.poll()
        self.services.python_finder.poll()
        self.services.expression_tester.poll(
            self.panels.setup.script.expression, self.services.session.run.dir if self.services.session.run else None
        )
        self.controllers.presenter.show_head()
        self.panels.details.log.follow()
        self.panels.plots.redraw()

    def _open(self) -> None:
        """Once, after the first look around: go on where a live run is."""
        self.opened = True
        self.setWindowIcon(QIcon(str(ROOT / "icons" / "trainyard.svg")))
        live = self.services.run_list.newest_live()
        if live is not None and self.services.session.run is None:
            self.controllers.run.attempt(lambda: self.services.session.attach_to(live))
        self.controllers.start.judge()
        self.controllers.memory.open()

    def _show_board(self) -> None:
        self.panels.runs.show_rows(run_rows(self.services.run_list.summaries, time.time()))
        self.controllers.presenter.mark_run()
        self.controllers.devices.show()
        self.controllers.start.ask()

    def _show_session(self) -> None:
        self.controllers.presenter.show_run()
        self._show_facts()

    def _show_facts(self) -> None:
        self._watch()
        self.controllers.presenter.show_facts()
        if self.services.session.run is not None and state_info(self.services.session.facts.state).over:
            self.services.run_list.poll(now=True)

    def _show_outlook(self, outlook: StartCheck) -> None:
        self.panels.setup.show_outlook(outlook)
        self.panels.header.buttons.allow_start("\n".join(outlook.problems))

    def _follow_desktop(self) -> None:
        self.set_theme(Theme.current(self._app))

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self.theme = theme
        apply(self._app, theme)
        for each in (
            self.panels,
            self.controllers.layout,
            self.controllers.memory,
            self.controllers.devices,
            self.controllers.presenter,
        ):
            each.set_theme(theme)

    # -- its life --------------------------------------------------------------------------------

    def createPopupMenu(self) -> QMenu:  # noqa: N802 (Qt's name)
        """The menu on the headings of the docks."""
        menu = QMenu(self)
        reset = QAction("Reset the layout", menu)
        reset.triggered.connect(self.controllers.layout.reset)
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
            self.panels.setup.open_file(path)
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
        elif event.type() == QEvent.Type.ActivationChange and self.isActiveWindow() and self.opened:
            self.panels.setup.reread()
            self.controllers.start.recheck()

    def _watch(self) -> None:
        watched = self.isVisible() and not self.isMinimized()
        self.services.poll_timer.set_pace(watched=watched, live=self.services.session.live)
        self.services.device_monitor.watch_closely(watched)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 (Qt's name)
        """Close at once; runs go on, which is said the first time."""
        self.services.poll_timer.stop()
        self.controllers.start.stop()
        self.services.python_finder.close()
        self._keeper.keep()
        self._tell_once()
        self.services.device_monitor.close()
        super().closeEvent(event)

    def _tell_once(self) -> None:
        live = [each for each in self.services.run_list.summaries if not state_info(each.state).over]
        if live and self._keeper.first_time("told"):
            self.tell(notice_sentence([each.name for each in live], [each.dir.name for each in live]))

    def show_notice(self, sentence: str) -> None:
        """Say it in a small window of its own."""
        self.notice = NoticeWindow(sentence)
        self.notice.show()
