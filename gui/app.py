"""Opens the window: `create_window` makes one, `main` is the command.

Qt is imported inside functions: where it cannot be, the command still ends in a sentence.
"""

from __future__ import annotations

import gc
import locale
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from .display_check import display_problem, qt_problem

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType, TracebackType

    from .main_window import MainWindow

log = logging.getLogger(__name__)

NO_WINDOW = 2


def create_window(runs_root: Path) -> MainWindow:
    """A window on the runs under a folder; it is not shown yet. There must be a QApplication."""
    from .main_window import MainWindow

    locale.setlocale(locale.LC_NUMERIC, "C")  # QApplication sets the desktop's, under which C libraries misread 1.5
    return MainWindow(runs_root)


def main(runs_root: Path) -> int:
    """Open the window, and return when it has been closed. 2 when there is nothing to open it on."""
    problem = display_problem(os.environ)
    if problem is None:
        try:
            from PySide6.QtWidgets import QApplication
        except ImportError as error:
            problem = qt_problem(error)
    if problem is not None:
        sys.stderr.write(f"trainyard: {problem}\n")
        return NO_WINDOW
    gc.disable()  # what is loaded now stays: to look through it for garbage, again and again, only takes time
    app = QApplication([sys.argv[0]])
    app.setApplicationName("trainyard")
    app.setApplicationDisplayName("Trainyard")
    app.setDesktopFileName("trainyard")
    window = create_window(runs_root)
    _catch_exceptions(window)
    _close_on_signals(window)
    window.show()
    gc.freeze()
    gc.enable()
    return app.exec()


def _catch_exceptions(window: MainWindow) -> None:
    """An error in the window is logged and said in it; the window stays."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("An error in the window", exc_info=(kind, error, trace))
        window.panels.message.show_message(
            f"Something went wrong in the window: {error!r}. Runs are not affected. Please report this.",
            "bad",
        )

    sys.excepthook = hook


def _close_on_signals(window: MainWindow) -> None:
    """Ctrl-C in the terminal closes the window; what it has to say, it says there."""

    def close(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        window.tell = lambda sentence: print(sentence, file=sys.stderr)  # noqa: T201 (the command's own terminal)
        window.close()

    # Python runs these between two of its instructions: at the next beat of the window's timer, at the latest.
    signal.signal(signal.SIGINT, close)
    signal.signal(signal.SIGTERM, close)
