"""Check for a display before Qt does: Qt would end the process."""

from __future__ import annotations

import ctypes
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from core.language import tr, tr_noop

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
    return _missing_library()


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


def _missing_library() -> str | None:
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


if __name__ == "__main__":  # for resources/install/qt_libraries.sh
    sys.exit(_missing_library())
