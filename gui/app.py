"""Open the window: `create_window` makes one, `main` is the command.

Qt is imported inside functions: where it cannot be, or has no display, the command still ends in a sentence. Qt itself
would end the process.
"""

from __future__ import annotations

import ctypes
import gc
import locale
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from core.language import tr, tr_noop

if TYPE_CHECKING:
    from gui.machine.host_machine import HostMachine
    from gui.machine.machine import Machine
    from gui.window.main_window import MainWindow


log = logging.getLogger(__name__)

NO_WINDOW = 2


def create_window(runs_root: Path, machine: Machine | None = None) -> MainWindow:
    """Return a complete window on the runs under a folder, not shown yet. There must be a QApplication.

    `machine`: another one, whose runs are shown instead.
    """
    window = _create_window(machine or _machine(runs_root, None))
    window.create_plots()
    return window


def _create_window(machine: Machine) -> MainWindow:
    """Return a window that creates its plots just after its first frame."""
    from gui.window.main_window import MainWindow

    locale.setlocale(locale.LC_NUMERIC, "C")  # QApplication sets the desktop's, under which C libraries misread 1.5
    return MainWindow(machine)


def host_machine(host: str) -> HostMachine:
    """Return another machine, and begin to connect. Raises `ValueError` with a sentence for what is no host.

    `host`: the name of one in the user's list, or its address.
    """
    from core.hosts.host_list import find_or_make
    from core.hosts.mirror import Mirror
    from gui.machine.host_machine import HostMachine

    mirror = Mirror(find_or_make(host))
    mirror.start()
    return HostMachine(mirror)


def _machine(runs_root: Path, host: str | None) -> Machine:
    from gui.machine.machine import Machine

    return Machine(runs_root) if host is None else host_machine(host)


def main(runs_root: Path, host: str | None = None) -> int:
    """Open the window and return when it is closed; return 2 if there is no display or no Qt.

    `host`: another machine whose runs are shown; raises `ValueError` with a sentence for what is none.
    """
    problem = display_problem(os.environ)
    if problem is None:
        try:
            from PySide6.QtWidgets import QApplication
        except ImportError as error:
            problem = qt_problem(error)
    if problem is not None:
        sys.stderr.write(f"trainyard: {problem}\n")
        return NO_WINDOW
    machine = _machine(runs_root, host)
    gc.disable()  # until `GarbageCollector`: what is loaded now stays, so that collecting would only take time
    from gui.base.timers import GarbageCollector

    app = QApplication([sys.argv[0]])
    app.setApplicationName("trainyard")
    app.setApplicationDisplayName("Trainyard")
    app.setDesktopFileName("trainyard")
    window = _create_window(machine)
    _attend(window)
    collector = GarbageCollector(app)
    window.completed.connect(collector.start)
    window.show()
    del window  # another one may take its place
    status = app.exec()
    machine.close()
    return status


def _attend(window: MainWindow) -> None:
    """Show errors in this window, and close it at Ctrl-C; later do so with the window that takes its place."""
    _catch_exceptions(window)
    _close_on_signals(window)
    window.replaced.connect(_attend)


def _catch_exceptions(window: MainWindow) -> None:
    """Log an error in the window, show it there, and keep the window open."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("An error in the window", exc_info=(kind, error, trace))
        window.features.show_error(error)

    sys.excepthook = hook


def _close_on_signals(window: MainWindow) -> None:
    """Close the window at Ctrl-C in the terminal, and print its last sentence there."""
    from PySide6.QtCore import QTimer

    def close(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        window.show_close_notice = lambda sentence: print(sentence, file=sys.stderr)  # noqa: T201 (the command's own terminal)
        QTimer.singleShot(0, window, window.close)  # not here: this may be the middle of creating widgets

    # Python runs these between two of its instructions: at the latest when the poll timer fires.
    signal.signal(signal.SIGINT, close)
    signal.signal(signal.SIGTERM, close)


NEEDS_NONE = ("offscreen", "minimal", "minimalegl", "vnc", "linuxfb", "eglfs")
"""Qt platforms that draw without a display server."""
PACKAGES = (
    "libegl1 libgl1 libxkbcommon0 libxkbcommon-x11-0 libfontconfig1 libdbus-1-3 libxcb-cursor0 libxcb-icccm4 "
    "libxcb-image0 libxcb-keysyms1 libxcb-render-util0 libxcb-shape0 libxcb-xkb1"
)
"""Debian packages that Qt needs and does not include."""
TIMEOUT_S = 2.0
WITHOUT = tr_noop("The command line trains without a window: trainyard run RECIPE --devices ID (see trainyard --help).")


def display_problem(environment: Mapping[str, str], platform: str = sys.platform) -> str | None:
    """Return why no window can be opened: a sentence, or None."""
    if not platform.startswith("linux") or environment.get("QT_QPA_PLATFORM", "").partition(":")[0] in NEEDS_NONE:
        return None
    if _wayland(environment):
        return None
    display = environment.get("DISPLAY", "")
    if not display:
        return tr("There is no display to open a window on. {without}", without=tr(WITHOUT))
    if not _answers(display):
        return tr(
            "The display {display} does not answer, so no window can be opened. {without}",
            display=display,
            without=tr(WITHOUT),
        )
    return missing_library()


def qt_problem(error: ImportError) -> str:
    """Return what to do if Qt cannot be loaded."""
    cure = tr("On Debian and Ubuntu, install what it needs: apt install {packages}.", packages=PACKAGES)
    return tr("Qt could not be loaded ({error}). {cure} {without}", error=error, cure=cure, without=tr(WITHOUT))


def _wayland(environment: Mapping[str, str]) -> bool:
    name, folder = environment.get("WAYLAND_DISPLAY", ""), environment.get("XDG_RUNTIME_DIR", "")
    return bool(name) and _connects(str(Path(folder) / name))


def _answers(display: str) -> bool:
    """Try the sockets of a display of this machine. Return True for a remote display without trying it."""
    host, _, number = display.rpartition(":")
    number = number.partition(".")[0]
    if host not in {"", "unix"}:
        return True
    path = f"/tmp/.X11-unix/X{number}"  # noqa: S108 (where X puts it)
    return _connects(path) or _connects(f"\0{path}")


def _connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(path)
        except OSError:
            return False
    return True


def missing_library() -> str | None:
    """Return why Qt's X11 plugin cannot be loaded, or None. Qt itself would end the process."""
    qt = find_spec("PySide6")
    if qt is None or not qt.submodule_search_locations:
        return None  # the import reports it
    plugin = Path(qt.submodule_search_locations[0]) / "Qt" / "plugins" / "platforms" / "libqxcb.so"
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        return qt_problem(ImportError(str(error)))
    return None
