"""Open the window on a real X server, act on it, and print what became of its geometry as JSON.

    python real_window.py RUNS STEP...

Each step is a method of `Session`; the answer is a list with one result per step.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget

import gui.app
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from gui.window.main_window import MainWindow


class Session:
    """One window after the other on the runs under a folder."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._app = QApplication([])
        self._window: MainWindow

    def open(self) -> None:
        """Open a window as it was left."""
        self._window = gui.app.create_window(self._runs)
        self._window.show()
        self._until(self._window.isActiveWindow)

    def close(self) -> None:
        """Close the window."""
        self._window.close()

    def maximise(self) -> None:
        self._window.showMaximized()
        self._until(self._window.isMaximized)

    def normal(self) -> None:
        self._window.showNormal()
        self._until(
            lambda: not (self._window.isMaximized() or self._window.isFullScreen() or self._window.isMinimized())
        )

    def full_screen(self) -> None:
        self._window.panels.menu.action("fullScreen").trigger()
        self._until(self._window.isFullScreen)

    def minimise(self) -> None:
        self._window.showMinimized()
        self._until(self._window.isMinimized)

    def move_right(self) -> None:
        """Move the window to the right part of the screen and make it smaller."""
        width = self._window.screen().virtualGeometry().width()
        self._window.setGeometry(width - 1040, 60, 1000, 640)
        self._until(lambda: self._window.width() == 1000)

    def change_language(self) -> None:
        """Choose another language, and go on with the window that takes the place of this one."""
        former = self._window
        former.controllers.preferences.choose("language", "zh_CN")
        self._until(lambda: former.successor is not None)
        assert former.successor is not None
        self._window = former.successor
        self._until(self._window.isActiveWindow)

    def lose_right_screen(self) -> None:
        """Take the right monitor away, as if it were unplugged."""
        subprocess.run(["xrandr", "--delmonitor", "monitor1"], check=True)
        self._until(lambda: len(self._app.screens()) == 1)

    def state(self) -> dict[str, Any]:
        """Return where the window is, and on what."""
        self._settle()
        window, screen = self._window, self._window.screen()
        return {
            "window": window.geometry().getRect(),
            "frame": window.frameGeometry().getRect(),
            "screen": screen.availableGeometry().getRect(),
            "pixel_ratio": window.devicePixelRatio(),
            "grab": [window.grab().width(), window.grab().height()],
            "poll_ms": window.services.poll_timer.interval_ms,
        }

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{condition} did not become true"
            self._app.processEvents()
            time.sleep(0.005)

    def _settle(self) -> None:
        """Wait until neither the window manager nor Qt has anything left to do with the window."""
        before = None
        while self._window.frameGeometry() != before:
            before = self._window.frameGeometry()
            self._ask_manager()

    def _ask_manager(self) -> None:
        """Open another window and wait for it: what the window manager was asked for before, it has done by then."""
        other = QWidget()
        other.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
        other.show()
        self._until(other.windowHandle().isExposed)
        other.close()


if __name__ == "__main__":
    session = Session(Path(sys.argv[1]))
    print(json.dumps([getattr(session, step)() for step in sys.argv[2:]]), flush=True)
