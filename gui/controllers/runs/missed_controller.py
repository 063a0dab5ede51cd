"""Show which ends of runs the user has missed, and open the run of one of them."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from gui.controllers.window.dock_layout import MainPanels
from gui.services.services import Services
from gui.viewmodels.runs.missed_rows import missed_rows


class MissedController(QObject):
    """It keeps nothing: the service has what was missed."""

    def __init__(self, window: QMainWindow, panels: MainPanels, services: Services) -> None:
        super().__init__()
        self._window, self._panels = window, panels
        self._missed, self._session = services.missed_runs, services.session
        button = panels.header.missed
        self._missed.changed.connect(self._show)
        self._session.attached.connect(self._see_shown)
        button.looked_through.connect(self._missed.look_through)
        button.all_seen.connect(self._missed.see_all)
        button.chosen.connect(panels.runs.chosen)  # as if it had been clicked in the list of runs
        self._session.end_asked.connect(self._expect_end)
        self._show()

    def poll(self) -> None:
        """Note whether the user has the window before them."""
        window = self._window
        is_shown = window.isVisible() and not window.isMinimized()
        self._missed.attend(attended=is_shown and _belongs_to(QApplication.activeWindow(), window))

    def _show(self) -> None:
        self._panels.header.missed.show_rows(missed_rows(self._missed.runs, time.time()))

    def _see_shown(self) -> None:
        if self._session.run is not None:
            self._missed.see(self._session.run.dir)

    def _expect_end(self) -> None:
        if self._session.run is not None:
            self._missed.expect(self._session.run.dir)


def _belongs_to(active: QWidget | None, window: QWidget) -> bool:
    """Return whether the active window is this one, or a dialog of it."""
    while active is not None and active is not window:
        active = active.parentWidget()
    return active is window
